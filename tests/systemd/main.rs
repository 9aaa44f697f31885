//! What operators install. The units and the Debian package of `src/assets` under a real systemd, booted in a
//! container: the service starts with all its protections on, and restarts without losing a request. The container
//! image, in a container.
//!
//! A binary of its own: while a container starts, it holds every file system that is mounted, which those tests would
//! notice that unmount theirs. Needs root, systemd-nspawn (Debian: systemd-container) and curl; else it says LEFT OUT.

mod container;
mod image;
mod package;

use std::os::unix::fs::PermissionsExt as _;

use data_server_testing::prelude::*;

use container::Root;

const RESTARTS: usize = 5;

/// Runs inside, told how often to restart; what it writes is judged outside.
const PROBE: &str = r#"
exec > /out/found 2>&1
S=http://127.0.0.1:8080
echo began
curl -sS -m 20 -o /dev/null -w 'stored %{http_code}\n' -T /probe "$S/k"
systemctl show data-server.service -p ActiveState -p User
grep -E '^(CapEff|NoNewPrivs|Seccomp):' "/proc/$(systemctl show data-server.service -p MainPID --value)/status"
while [ ! -e /enough ]; do
  curl -sS -m 20 -o /dev/null -w 'answer %{http_code}\n' "$S/k" || echo 'answer none'
done > /load 2>&1 &
for ((n = 1; n <= RESTARTS; n++)); do
  until [ "$(grep -c answer /load)" -ge $((20 * n)) ]; do sleep 0.01; done
  systemctl reset-failed data-server.service
  systemctl restart data-server.service && echo restarted
done
touch /enough
wait
grep answer /load
systemctl stop data-server.socket data-server.service
systemctl show data-server.service -p Result -p ExecMainStatus
systemctl exit
"#;

/// What docs/operations.md has an operator do.
fn install(root: &Root) {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/assets");
    for (file, place) in [
        ("data-server.service", "etc/systemd/system"),
        ("data-server.socket", "etc/systemd/system"),
        ("data-server.toml", "etc/data-server"),
    ] {
        let content = fs::read(assets.join(file)).expect("a file");
        root.write(&format!("{place}/{file}"), content);
    }
    let binary = "usr/local/bin/data-server";
    let server = fs::read(data_server_testing::binary());
    root.write(binary, server.expect("the server"));
    let may_run = fs::Permissions::from_mode(0o755);
    fs::set_permissions(root.path("root").join(binary), may_run).expect("it may be run");
    let user = "data-server:x:963:963::/var/lib/data-server:/usr/sbin/nologin\n";
    root.append("etc/passwd", user);
    root.append("etc/group", "data-server:x:963:\n");
}

/// Asserts that each of these lines is one of `found`, once.
#[track_caller]
fn assert_once(found: &str, lines: &str) {
    for line in lines.trim().lines() {
        assert_eq!(count(found, line), 1, "{line} in {found}");
    }
}

const SERVED: &str = "
stored 200
ActiveState=active
User=data-server
CapEff:\t0000000000000000
NoNewPrivs:\t1
Seccomp:\t2
Result=success
ExecMainStatus=0
";

/// How many lines of `found` are `line`.
fn count(found: &str, line: &str) -> usize {
    found.lines().filter(|&it| it == line).count()
}

/// The requests that the load of a probe has made; all of them were answered 200.
#[track_caller]
fn answers(found: &str) -> usize {
    let answers = found.lines().filter(|line| line.starts_with("answer"));
    let answers = answers.count();
    assert_eq!(count(found, "answer 200"), answers, "{found}");
    answers
}

#[test]
fn under_systemd_the_units_serve_and_restart_without_losing_a_request() {
    let found = Root::new().and_then(|root| {
        install(&root);
        let probe = format!("RESTARTS={RESTARTS}\n{PROBE}");
        root.boot(&probe, "data-server.socket")
    });
    let found = needed!(available("the units under systemd", found));
    assert_once(&found, SERVED);
    let answers = answers(&found);
    assert_eq!(count(&found, "restarted"), RESTARTS, "{found}");
    assert!(answers >= 20 * RESTARTS, "{found}");
    eprintln!("{RESTARTS} restarts, {answers} requests, 0 failed");
}

/// Runs inside, with the values on an ext4: the journal is on, and what a kill leaves is in the files.
const KILLED: &str = r#"
exec > /out/found 2>&1
S=http://127.0.0.1:8080
echo began
for n in 1 2 3 4 5; do
  curl -sS -m 20 -o /dev/null -w 'stored %{http_code}\n' -T /probe "$S/k$n"
done
curl -sS -m 20 -w ' %{http_code}\n' "$S/-/ready"
systemctl kill -s KILL data-server.service
curl -sS -m 60 --retry 20 --retry-all-errors -o /dev/null -w 'read %{http_code}\n' "$S/k1"
systemctl stop data-server.socket data-server.service
cat /var/lib/data-server/.data-server/journal-state
cat /log
systemctl exit
"#;

#[test]
fn under_the_shipped_unit_disk_has_its_journal_and_a_kill_changes_no_file() {
    const WHAT: &str = "the journal under systemd";
    let mount = needed!(Mount::ext4_of(1 << 30, WHAT));
    let found = Root::new().and_then(|root| {
        install(&root);
        let drop_in = "[Service]\nEnvironment=DATA_SERVER_DURABILITY=disk\n\
            StandardError=append:/log\n";
        let file = "etc/systemd/system/data-server.service.d/disk.conf";
        root.write(file, drop_in);
        let values = root.path("root").join("var/lib/data-server");
        fs::create_dir_all(&values).map_err(|error| error.to_string())?;
        let at = mount.dir();
        let at = at.path().parent().expect("the mount");
        run("mount", &["--bind", text(at), text(&values)])?;
        let found = root.boot(KILLED, "data-server.socket");
        run("umount", &["--lazy", text(&values)])?;
        found
    });
    let found = needed!(available(WHAT, found));
    assert_eq!(count(&found, "stored 200"), 5, "{found}");
    assert_once(&found, "ready\nread 200");
    assert!(!found.contains("no journal"), "{found}");
    // The unit gives each start mounts of its own, so that it replays; all is in the files.
    let is_replay = |line: &&str| line.contains("replayed the journal");
    for replay in found.lines().filter(is_replay) {
        let has_changed_none = replay.contains("written=0") && replay.contains("removed=0");
        assert!(has_changed_none, "{replay}");
        eprintln!("{replay}");
    }
}

/// Runs inside: who asks for a reload hears that a file is refused.
const RELOADED: &str = r#"
exec > /out/found 2>&1
cd /etc/data-server
rules() { printf '[[rule]]\nwho = "anonymous"\nmay = ["read", "metrics"]\n'; }
reload() { systemctl reload data-server.service; echo "$1 $?"; }
mkdir -p own; rules > own/access.toml
systemctl restart data-server.service
reload good
echo nonsense > own/access.toml
reload bad
curl -sS http://127.0.0.1:8080/-/ready
rules > own/access.toml
systemctl kill -s HUP data-server.service
reload mended
systemctl exit
"#;

#[test]
fn under_the_shipped_unit_a_reload_fails_when_a_file_is_refused() {
    let found = Root::new().and_then(|root| {
        install(&root);
        let line = "access = \"/etc/data-server/own/access.toml\"\n";
        root.append("etc/data-server/data-server.toml", line);
        root.write("etc/data-server/own/access.toml", "");
        root.boot(RELOADED, "data-server.socket")
    });
    let found = needed!(available("a reload under systemd", found));
    assert_once(&found, "good 0\nbad 1\nmended 0");
    assert!(found.contains("the last reload failed"), "{found}");
}

/// Runs inside, around the lines of the page: files for root alone, then clients of both sockets.
const SECURED: &str = r#"
exec > /out/found 2>&1
cd /etc/data-server
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=store.example \
    -addext subjectAltName=DNS:store.example -keyout tls.key -out tls.crt 2> /dev/null
data-server new-token > token
cat > access.toml <<END
[[subject]]
name = "ci"
token = "$(tail -n 1 token)"
[[rule]]
who = ["ci"]
may = ["read", "write"]
END
chmod 600 tls.key access.toml
LINES
ask() { curl -sS -m 20 --cacert tls.crt --connect-to store.example:443:127.0.0.1:8443 "$@"; }
ask -o /dev/null -w 'without a token %{http_code}\n' -T /probe https://store.example/k
ask --oauth2-bearer "$(head -n 1 token)" -o /dev/null -w 'stored %{http_code}\n' -T /probe https://store.example/k
curl -sS -m 20 http://127.0.0.1:9090/-/metrics | grep ^data_server_ready
ls /var/lib/data-server
systemctl exit
"#;

#[test]
fn the_unit_has_tls_rights_and_metrics_by_the_lines_of_the_page() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operations.md");
    let page = fs::read_to_string(page).expect("the page");
    let (_, lines) = page.split_once("**For other machines**").expect("it");
    let (_, lines) = lines.split_once("```console\n").expect("its lines");
    let (lines, _) = lines.split_once("```").expect("their end");
    let found = Root::new().and_then(|root| {
        install(&root);
        root.boot(&SECURED.replace("LINES\n", lines), "data-server.socket")
    });
    let found = needed!(available("the unit with TLS", found));
    let lines = "without a token 401\nstored 200\ndata_server_ready 1\nk";
    assert_once(&found, lines);
}
