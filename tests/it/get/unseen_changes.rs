//! The proof of a cached value was its open file alone. Some changes do not show there: on overlayfs a removed file of
//! a lower layer stays as it is, so its value was answered for ever; a mount over a file, and a write through a memory
//! map, change nothing of it either. And the file system of the directory was taken for that of each value.

use crate::support::prelude::*;

const LEFT_OUT: &str = "values of a lower layer";

/// Reads `key`, which is `value`, until the server keeps it.
fn read_until_kept(server: &TestServer, key: &str, value: &[u8]) {
    eventually("the value is kept", || {
        server.get(key).body == value && server.proc().has_open(&server.dir.file(key))
    });
}

/// What another program does to a value; what it is then.
type Change = (&'static str, Option<&'static [u8]>, fn(&TestServer, &str));

const CHANGES: &[Change] = &[
    ("removed", None, |s, key| s.dir.remove(key)),
    ("renamed", None, |s, key| s.dir.rename(key, "moved")),
    ("replaced", Some(b"new"), |s, key| {
        s.dir.place("new", "new");
        s.dir.rename("new", key);
    }),
    ("edited", Some(b"new"), |s, key| s.dir.edit(key, "new")),
    ("stored", Some(b"new"), |s, key| s.store(key, "new")),
];

/// Serves overlay layers, and changes values of the lower one.
fn see_changes_of_a_lower_layer(is_fuse: bool) {
    let key = |folder: &str, what: &str| format!("{folder}{what}");
    let fill = |lower: &Path| {
        fs::create_dir(lower.join("in")).expect("a folder");
        for (what, ..) in CHANGES {
            for folder in ["", "in/"] {
                fs::write(lower.join(key(folder, what)), "old").expect("a value");
            }
        }
    };
    let mount = needed!(Mount::layers(is_fuse, fill, LEFT_OUT));
    let server = Launch::new(&["--min-free", "0"]).on(&mount.dir()).start();
    for (what, value, change) in CHANGES {
        for folder in ["", "in/"] {
            let key = key(folder, what);
            read_until_kept(&server, &key, b"old");
            change(&server, &key);
            let got = server.get(&key);
            let found = (got.status == 200).then_some(&*got.body);
            assert_eq!(found, *value, "{key}, {what}");
        }
    }
}

#[test]
fn a_value_of_a_lower_layer_of_an_overlay_is_not_stale() {
    directory_only!("the file system");
    see_changes_of_a_lower_layer(false);
    see_changes_of_a_lower_layer(true);
}

#[test]
fn a_mount_over_a_value_is_seen_soon_and_so_is_its_end() {
    let server = needed!(TestServer::of_directory("the file system", &[]));
    server.dir.place("k", "below");
    fs::write(server.dir.outside("other"), "mounted").expect("a file");
    let (other, at) = (server.dir.outside("other"), server.dir.file("k"));
    read_until_kept(&server, "k", b"below");
    let bound = run("mount", &["--bind", text(&other), text(&at)]);
    needed!(available("a mount over a value", bound));
    eventually("the mount is seen", || server.get("k").body == b"mounted");
    read_until_kept(&server, "k", b"mounted");
    assert_eq!(run("umount", &["--lazy", text(&at)]), Ok(()));
    eventually("its end is seen", || server.get("k").body == b"below");
}

/// In memory no write through a map changes a time of its file.
#[test]
fn a_write_through_a_memory_map_is_seen_soon() {
    const WRITE: &str = "import mmap, sys
file = open(sys.argv[1], 'r+b')
map = mmap.mmap(file.fileno(), 0)
for line in sys.stdin:
    map[:3] = line.encode()[:3]
    print(flush=True)";
    directory_only!("the file system");
    let has_python = is_on_path("python3");
    only_where!(has_python, "writes through a map", "there is no python3");
    let server = Launch::new(&[]).on(&DataDir::in_memory()).start();
    server.dir.place("k", "old");
    let mut program = Command::new("python3");
    let program = program.args(["-c", WRITE, text(&server.dir.file("k"))]);
    let program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut program = program.expect("python3");
    let mut said = std::io::BufReader::new(program.stdout.take().expect("its output"));
    let mut ask = program.stdin.take().expect("its input");
    for value in ["one", "two"] {
        use std::io::{BufRead, Write};
        writeln!(ask, "{value}").expect("a value");
        said.read_line(&mut String::new()).expect("an answer");
        eventually("the write is seen", || {
            server.get("k").body == value.as_bytes()
        });
        read_until_kept(&server, "k", value.as_bytes());
    }
    drop(ask);
    assert!(program.wait().expect("its end").success());
}

/// The reads of two values by the reactor, one in the directory and one on a file system mounted in it: calls that may
/// wait for a disk, and calls that do not.
fn reads(
    outer: &Mount,
    inner: impl FnOnce(&Path) -> Option<Mounted>,
) -> Option<[(usize, usize); 2]> {
    let calls = ["-e", "trace=recvfrom,pread64,preadv2"];
    let trace = Trace::with(&calls, "how values are read")?;
    let dir = outer.dir();
    let _inner = inner(&dir.path().join("in"))?;
    dir.place("out", pattern(1, 500));
    dir.place("in/k", pattern(1, 500));
    let mut server = trace.around(Launch::new(&["--threads", "1", "--cache", "0"]));
    server = server.on(&dir);
    let mut server = server.start();
    for key in ["out", "in/k"] {
        assert!(server.get(key).body == pattern(1, 500), "{key}");
    }
    server.stop();
    let calls = trace.calls();
    let request = calls.iter().find(|call| call.args.contains("GET /out"));
    let reactor = request.expect("a request").thread;
    let count = |name: &str, file: &str| {
        let is_read = |call: &&Call| call.name == name && call.args.contains(&format!("/{file}>"));
        let calls = calls.iter().filter(|call| call.thread == reactor);
        calls.filter(is_read).count()
    };
    Some(["out", "in/k"].map(|file| (count("pread64", file), count("preadv2", file))))
}

#[test]
fn each_value_is_read_as_its_own_file_system_allows() {
    const LEFT_OUT: &str = "a file system within the directory";
    directory_only!("the file system");
    plain_only!("its system calls");
    let tmpfs = |at: &Path| Mounted::by(&["mount", "-t", "tmpfs", "tmpfs"], at).ok();
    let memory = needed!(Mount::tmpfs("size=32m", LEFT_OUT));
    let disk = needed!(Mount::ext4(LEFT_OUT));
    let image = TempDir::new().expect("a place");
    let image = image.path().join("image");
    let sized = File::create(&image).and_then(|file| file.set_len(16 << 20));
    sized.expect("an image");
    assert_eq!(run("mkfs.ext4", &["-q", "-F", text(&image)]), Ok(()));
    let ext4 = |at: &Path| Mounted::image(&image, at, "rw").ok();
    assert_eq!(needed!(reads(&memory, ext4)), [(1, 0), (0, 1)]);
    assert_eq!(needed!(reads(&disk, tmpfs)), [(0, 1), (1, 0)]);
}
