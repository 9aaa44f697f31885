//! The units of `src/assets` under a real systemd, booted in a container whose root is this system's, with all that is
//! written to it in memory: the service starts with all its protections on, and restarts without losing a request.
//!
//! A binary of its own: while a container starts, it holds every file system that is mounted, which those tests would
//! notice that unmount theirs. Needs root, systemd-nspawn (Debian: systemd-container) and curl; else it says LEFT OUT.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

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

const TARGET: &str = "[Unit]\nRequires=data-server.socket probe.service\n";

const PROBING: &str = "[Unit]\nAfter=data-server.socket\nDefaultDependencies=no\n\
    [Service]\nType=oneshot\nTimeoutStartSec=120\nExecStart=/bin/bash /probe\n";

const RESTARTS: usize = 5;

/// The root of a container: an overlay over `/`, unmounted when dropped.
struct Root {
    place: TempDir,
}

impl Root {
    fn new() -> Result<Self, String> {
        let place = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new());
        let place = place.map_err(|error| error.to_string())?;
        let root = Self { place };
        for dir in ["upper", "work", "root"] {
            fs::create_dir(root.path(dir)).map_err(|error| error.to_string())?;
        }
        let [upper, work, merged] = ["upper", "work", "root"].map(|dir| root.path(dir));
        let options = format!(
            "lowerdir=/,upperdir={},workdir={}",
            text(&upper),
            text(&work)
        );
        run(
            "mount",
            &["-t", "overlay", "-o", &options, "overlay", text(&merged)],
        )?;
        Ok(root)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Writes a file of the container.
    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path("root").join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, content).expect("a file of the container");
    }

    fn append(&self, path: &str, line: &str) {
        let old = fs::read_to_string(self.path("root").join(path)).expect("a file of text");
        self.write(path, old + line);
    }

    /// What docs/operations.md has an operator do.
    fn install(&self) {
        let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/assets");
        for unit in ["data-server.service", "data-server.socket"] {
            let content = fs::read(assets.join(unit)).expect("a unit");
            self.write(&format!("etc/systemd/system/{unit}"), content);
        }
        let binary = "usr/local/bin/data-server";
        self.write(
            binary,
            fs::read(env!("CARGO_BIN_EXE_data-server")).expect("the server"),
        );
        let may_run = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.path("root").join(binary), may_run).expect("it may be run");
        self.append(
            "etc/passwd",
            "data-server:x:963:963::/var/lib/data-server:/usr/sbin/nologin\n",
        );
        self.append("etc/group", "data-server:x:963:\n");
    }

    /// Boots it into the probe, until that ends it; what the probe has found.
    fn boot(&self) -> Result<String, String> {
        self.write("etc/systemd/system/units.target", TARGET);
        self.write("etc/systemd/system/probe.service", PROBING);
        self.write("probe", format!("RESTARTS={RESTARTS}\n{PROBE}"));
        self.write("out/.keep", "");
        let out = self.path("out");
        fs::create_dir(&out).map_err(|error| error.to_string())?;
        let mut command = Command::new("timeout");
        command.args([
            "--kill-after=5",
            "150",
            "systemd-nspawn",
            "--quiet",
            "--register=no",
        ]);
        // A scope of its own is for a systemd outside to give.
        if !Path::new("/run/systemd/system").exists() {
            command.arg("--keep-unit");
        }
        command
            .arg(format!("--directory={}", text(&self.path("root"))))
            .arg(format!("--bind={}:/out", text(&out)))
            .arg(format!("--machine=units-{}", std::process::id()))
            .args(["--private-network", "--console=pipe"])
            // How the socket is taken over; a machine that is no container allows it.
            .args([
                "--system-call-filter=pidfd_getfd",
                "--boot",
                "--",
                "--unit=units.target",
            ]);
        let output = command.stdin(std::process::Stdio::null()).output();
        let output = output.map_err(|error| format!("systemd-nspawn: {error}"))?;
        fs::read_to_string(out.join("found")).map_err(|_| {
            let said = String::from_utf8_lossy(&output.stderr);
            format!(
                "systemd does not boot: {}",
                said.lines().last().unwrap_or_default()
            )
        })
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = run("umount", &["--lazy", text(&self.path("root"))]);
    }
}

/// Past what captures the output of a test that passes: nothing is left out in silence.
fn left_out(why: &str) {
    let _ = writeln!(
        std::io::stderr(),
        "LEFT OUT: the units under systemd: {why}"
    );
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of plain text")
}

/// Runs a command to its end; or why that was not possible, in one line.
fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().next().unwrap_or_default();
    let succeeded = output.status.success().then_some(());
    succeeded.ok_or_else(|| format!("{program}: {first}"))
}

#[test]
fn under_systemd_the_units_serve_and_restart_without_losing_a_request() {
    let root = Root::new().and_then(|root| {
        run("systemd-nspawn", &["--version"])?;
        run("curl", &["--version"])?;
        root.install();
        Ok((root.boot()?, root))
    });
    let Ok((found, _root)) = root.map_err(|why| left_out(&why)) else {
        return;
    };
    let count = |line: &str| found.lines().filter(|&it| it == line).count();
    for once in [
        "stored 200",
        "ActiveState=active",
        "User=data-server",
        "CapEff:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
        "Result=success",
        "ExecMainStatus=0",
    ] {
        assert_eq!(count(once), 1, "{once} in {found}");
    }
    let answers = found
        .lines()
        .filter(|line| line.starts_with("answer"))
        .count();
    assert_eq!(count("restarted"), RESTARTS, "{found}");
    assert!(answers >= 20 * RESTARTS, "{found}");
    assert_eq!(count("answer 200"), answers, "{found}");
    eprintln!("{RESTARTS} restarts, {answers} requests, 0 failed");
}
