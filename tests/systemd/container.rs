//! A container whose root is this system's, with all that is written to it in memory, and which systemd boots into a
//! probe.

use data_server_testing::prelude::*;

/// The unit that a boot is for, and what it wants beside the probe.
const TARGET: &str = "[Unit]\nRequires=probe.service";

const PROBING: &str = "[Unit]\nAfter=data-server.socket\nDefaultDependencies=no\n\
    [Service]\nType=oneshot\nTimeoutStartSec=120\nExecStart=/bin/bash /probe\n";

/// The root of a container: an overlay over `/`, unmounted when dropped.
pub(super) struct Root {
    place: TempDir,
}

impl Root {
    pub(super) fn new() -> Result<Self, String> {
        let place = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new());
        let place = place.map_err(|error| error.to_string())?;
        let root = Self { place };
        for dir in ["upper", "work", "root"] {
            fs::create_dir(root.path(dir)).map_err(|error| error.to_string())?;
        }
        let [upper, work, merged] = ["upper", "work", "root"].map(|dir| root.path(dir));
        let (upper, work) = (text(&upper), text(&work));
        let options = format!("lowerdir=/,upperdir={upper},workdir={work}");
        run("systemd-nspawn", &["--version"])?;
        run("curl", &["--version"])?;
        let overlay = ["-t", "overlay", "-o", &options, "overlay"];
        run("mount", &[&overlay[..], &[text(&merged)]].concat())?;
        Ok(root)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Writes a file of the container.
    pub(super) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path("root").join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, content).expect("a file of the container");
    }

    pub(super) fn append(&self, path: &str, line: &str) {
        let old = fs::read_to_string(self.path("root").join(path)).expect("a file of text");
        self.write(path, old + line);
    }

    /// Boots it into a probe, a script of bash, beside these units, until that ends it; what the probe writes to
    /// `/out/found`.
    pub(super) fn boot(&self, probe: &str, units: &str) -> Result<String, String> {
        let target = format!("{TARGET} {units}\n");
        self.write("etc/systemd/system/units.target", target);
        self.write("etc/systemd/system/probe.service", PROBING);
        self.write("probe", probe);
        self.write("out/.keep", "");
        let out = self.path("out");
        fs::create_dir(&out).map_err(|error| error.to_string())?;
        let mut command = Command::new("timeout");
        command.args(words(
            "--kill-after=5 150 systemd-nspawn --quiet --register=no",
        ));
        // A scope of its own is for a systemd outside to give.
        if !Path::new("/run/systemd/system").exists() {
            command.arg("--keep-unit");
        }
        command.arg(format!("--directory={}", text(&self.path("root"))));
        command.arg(format!("--bind={}:/out", text(&out)));
        command.arg(format!("--machine=units-{}", std::process::id()));
        // How the socket is taken over; a machine that is no container allows it.
        command.arg("--system-call-filter=pidfd_getfd");
        command.args(words(
            "--private-network --console=pipe --boot -- --unit=units.target",
        ));
        let output = command.stdin(Stdio::null()).output();
        let output = output.expect("timeout");
        fs::read_to_string(out.join("found")).map_err(|_| {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().last().unwrap_or_default();
            format!("systemd does not boot: {last}")
        })
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = run("umount", &["--lazy", text(&self.path("root"))]);
    }
}
