//! Proves the container image: what it says of itself, that it serves as its user, and that its health check tells.
//!
//! Needs root and buildah, which runs a container without a daemon; else it says LEFT OUT. The image is for a static
//! server. The one under test may not be: then its libraries are put into the container, and not into the image.

use std::os::unix::fs::MetadataExt as _;
use std::process::Output;

use data_server_testing::prelude::*;
use serde_json::{Value, json};

/// Images and containers of a test, all gone with it.
struct Storage {
    place: TempDir,
}

impl Storage {
    fn new() -> Result<Self, String> {
        run("buildah", &["--version"])?;
        run("unshare", &["--pid", "--fork", "--mount-proc", "true"])?;
        let place = TempDir::new().map_err(|error| error.to_string())?;
        let at = text(place.path());
        let settings = format!(
            "[storage]\ndriver = \"vfs\"\ngraphroot = \"{at}/images\"\nrunroot = \"{at}/state\"\n"
        );
        let storage = Self { place };
        fs::write(storage.settings(), settings).expect("a file");
        Ok(storage)
    }

    fn settings(&self) -> String {
        text(&self.place.path().join("storage.conf")).to_owned()
    }

    /// A command with these images and containers.
    fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env("CONTAINERS_STORAGE_CONF", self.settings());
        command.env("BUILDAH_ISOLATION", "chroot");
        command
    }

    /// The standard output of buildah, which must succeed.
    #[track_caller]
    fn buildah(&self, words: &[&str]) -> String {
        let output = self.command("buildah").args(words).output();
        succeeded(&output.expect("buildah"))
    }
}

#[track_caller]
fn succeeded(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let printed = String::from_utf8_lossy(&output.stdout);
    printed.trim().to_owned()
}

/// The image, built of the server under test.
fn build(storage: &Storage) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/assets/container/build");
    let refused = storage
        .command(&script)
        .arg(binary())
        .arg("tested")
        .output();
    let refused = refused.expect("it runs");
    let is_static = refused.status.success();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(is_static || said.contains("is not static"), "{said}");
    let mut command = storage.command(script);
    command
        .arg(binary())
        .arg("tested")
        .env("LIBRARIES", "later");
    succeeded(&command.output().expect("the image is built"));
}

/// A container of the image, with the libraries that the server needs.
fn container(storage: &Storage) -> String {
    let container = storage.buildah(&["from", "localhost/tested"]);
    let needed = Command::new("ldd").arg(binary()).output();
    let needed = String::from_utf8(needed.expect("ldd").stdout).expect("text");
    let needed = needed.split_whitespace();
    for library in needed.filter(|word| word.starts_with('/')) {
        storage.buildah(&["copy", &container, library, library]);
    }
    container
}

/// The words for buildah that run the server, to listen there.
fn in_container(container: &str, listen: &str) -> Vec<String> {
    let env = format!("--env DATA_SERVER_LISTEN={listen} --env DATA_SERVER_ALLOWED_HOST=t");
    let line = format!("run {env} {container} -- /usr/bin/data-server");
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn the_image_says_how_it_is_run() {
    let storage = needed!(available("the container image", Storage::new()));
    build(&storage);
    let image = storage.buildah(&["inspect", "--type", "image", "localhost/tested"]);
    let image: Value = serde_json::from_str(&image).expect("JSON");
    let config = &image["Docker"]["config"];
    for (name, expected) in [
        ("User", json!("65532:65532")),
        ("Entrypoint", json!(["/usr/bin/data-server"])),
        ("ExposedPorts", json!({"8080/tcp": {}})),
        ("Volumes", json!({"/data": {}})),
        ("StopSignal", json!("SIGTERM")),
    ] {
        assert_eq!(config[name], expected, "{name}");
    }
    let check = &config["Healthcheck"]["Test"];
    assert_eq!(*check, json!(["CMD", "/usr/bin/data-server", "health"]));
    let variables = config["Env"].as_array().expect("variables");
    for variable in ["DATA_SERVER_LISTEN=:8080", "DATA_SERVER_DIR=/data"] {
        assert!(variables.contains(&json!(variable)), "{variables:?}");
    }
}

#[test]
fn a_container_serves_and_its_health_check_tells() {
    let storage = needed!(available("the container image", Storage::new()));
    build(&storage);
    let container = container(&storage);
    let root = storage.buildah(&["mount", &container]);
    let entries = fs::read_dir(&root).expect("the root of the container");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<_> = names
        .filter(|name| name != "lib" && name != "lib64")
        .collect();
    names.sort();
    assert_eq!(names, ["data", "tmp", "usr"]);
    let owner = fs::metadata(Path::new(&root).join("data")).expect("/data");
    assert_eq!((owner.uid(), owner.gid()), (65532, 65532));

    // In a namespace of processes, which ends with the test. The path of the server under test follows, and is not
    // wanted.
    let server = in_container(&container, "127.0.0.1:0").join(" ");
    let server = format!("exec unshare --pid --fork --kill-child --mount-proc buildah {server}");
    let launch = Launch::new(&[]).bare().through(&["sh", "-c", &server]);
    let launch = launch.env("CONTAINERS_STORAGE_CONF", storage.settings());
    let server = launch.env("BUILDAH_ISOLATION", "chroot").start();
    server.store("k", "value");
    assert_eq!(server.get("k").body, b"value");

    let health = |address: SocketAddr| {
        let server = in_container(&container, &address.to_string());
        let mut command = storage.command("buildah");
        let output = command.args(server).arg("health").output();
        output.expect("buildah").status.code()
    };
    let address = server.addr;
    assert_eq!(health(address), Some(0));
    drop(server);
    assert_eq!(health(address), Some(1));
    storage.buildah(&["umount", &container]);
}
