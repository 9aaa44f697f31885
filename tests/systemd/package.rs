//! Proves the Debian package: it installs, starts, is upgraded without losing a request, and goes without taking values
//! along.
//!
//! Needs cargo-deb, which `.ci/run setup` installs; else it says LEFT OUT.

use data_server_testing::prelude::*;

use super::container::Root;
use super::{answers, assert_once, count};

/// Runs inside; what it writes is judged outside.
const PROBE: &str = r#"
exec > /out/found 2>&1
S=http://127.0.0.1:8080
units='data-server.socket data-server.service'
options=/etc/data-server/data-server.toml
status() { curl -sS -m 20 -o /dev/null -w '%{http_code}\n' "$@" || echo none; }
# A machine that starts no services while packages are installed would have none to test.
rm -f /usr/sbin/policy-rc.d
package() { DEBIAN_FRONTEND=noninteractive dpkg "$@" && echo "dpkg $1 done"; }

package -i /data-server.deb
echo installed $(systemctl is-active $units) $(systemctl is-enabled $units)
echo user $(systemctl show data-server.service -p User --value) $(stat -c %U:%a /var/lib/data-server)
data-server health "$S/-/ready" && echo well
echo stored $(status -T /probe "$S/k")

echo 'max-body = 10' >> "$options"
data-server config check "$options"
systemctl restart data-server.service
echo limited $(status -T /probe "$S/k")

while [ ! -e /enough ]; do echo answer $(status "$S/k"); done > /load 2>&1 &
until [ "$(grep -c answer /load)" -ge 20 ]; do sleep 0.01; done
before=$(systemctl show data-server.service -p MainPID --value)
package -i /data-server.deb
[ "$(systemctl show data-server.service -p MainPID --value)" != "$before" ] && echo restarted
n=$(grep -c answer /load)
until [ "$(grep -c answer /load)" -ge $((n + 20)) ]; do sleep 0.01; done
touch /enough
wait
grep answer /load

package -r data-server
echo removed $(systemctl is-active $units) "$(tail -n 1 "$options")" $(ls /var/lib/data-server)
package -P data-server
[ -e "$options" ] || echo purged $(ls /var/lib/data-server)
systemctl exit
"#;

/// Has cargo-deb make a package of the server under test, for `root`; or why it cannot.
fn place_package(root: &Root) -> Result<(), String> {
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/assets/debian/build");
    run("dpkg", &["--version"])?;
    let package = root.path("data-server.deb");
    let options = ["--fast", "--output", text(&package)];
    let output = Command::new(build).arg(binary()).args(options).output();
    let output = output.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    if said.starts_with("there is no cargo") {
        return Err(said.trim_end().to_owned());
    }
    assert!(output.status.success(), "{said}");
    root.write("data-server.deb", fs::read(&package).expect("the package"));
    Ok(())
}

/// What the probe has to say, once.
const SAID: &str = "
installed active active enabled enabled
user data-server data-server:750
well
stored 200
/etc/data-server/data-server.toml: ok; values in /var/lib/data-server; not checked: whether the addresses are free; the journal: a server has the directory
limited 413
restarted
dpkg -r done
removed inactive inactive max-body = 10 k
dpkg -P done
purged k
";

/// Every file that the package has.
const FILES: &str = "
    ./usr/share/doc/data-server/docs/operations.md
    ./usr/share/doc/data-server/examples/grafana.json
    ./usr/share/doc/data-server/examples/alerts.yml
    ./usr/bin/data-server
    ./usr/lib/systemd/system/data-server.service
    ./usr/lib/systemd/system/data-server.socket
    ./etc/data-server/data-server.toml
    ./usr/share/man/man1/data-server.1.gz
    ./usr/share/bash-completion/completions/data-server
    ./usr/share/zsh/vendor-completions/_data-server
    ./usr/share/fish/vendor_completions.d/data-server.fish
    ./usr/share/doc/data-server/copyright
";

#[track_caller]
fn assert_has_files(root: &Root) {
    let package = root.path("data-server.deb");
    let output = Command::new("dpkg-deb").arg("-c").arg(package).output();
    let listed = output.expect("dpkg-deb").stdout;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    for file in words(FILES) {
        let is_there = listed.lines().any(|line| line.ends_with(file));
        assert!(is_there, "no {file} in {listed}");
    }
}

#[test]
fn the_debian_package_installs_starts_upgrades_and_goes() {
    let found = Root::new().and_then(|root| {
        place_package(&root)?;
        assert_has_files(&root);
        root.boot(PROBE, "")
    });
    let found = needed!(available("the Debian package", found));
    assert_once(&found, SAID);
    assert_eq!(count(&found, "dpkg -i done"), 2, "{found}");
    assert!(answers(&found) >= 40, "{found}");
}
