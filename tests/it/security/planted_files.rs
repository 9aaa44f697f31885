//! Proves that the server opens only regular files of the directory itself: planted links, directories, pipes, sockets
//! and devices are not values, and nothing outside can be reached or created.

use std::os::unix::net::UnixListener;

use rustix::fs::{CWD, FileType, RenameFlags, mknodat, renameat_with};

use crate::support::prelude::*;

#[test]
fn only_regular_files_are_values() {
    let server = needed!(TestServer::of_directory("hands in the directory", &[]));
    fs::write(server.dir.outside("canary"), "secret").expect("the canary");
    fs::create_dir(server.dir.outside("outside")).expect("a directory outside");
    server.dir.place("real", "value");
    let planted = "to-outside to-absolute to-inside dangling to-dir to-self dir fifo socket";
    let mut planted = words(planted);
    let link =
        |target: &Path, name: &str| symlink(target, server.dir.file(name)).expect("a symlink");
    link(Path::new("../canary"), "to-outside");
    link(&server.dir.outside("canary"), "to-absolute");
    link(Path::new("real"), "to-inside");
    link(Path::new("../made-by-put"), "dangling");
    link(Path::new("../outside"), "to-dir");
    link(Path::new("to-self"), "to-self");
    fs::create_dir_all(server.dir.file("dir/empty")).expect("a folder without a key");
    fs::write(server.dir.file(b"\xff\xfe"), "x").expect("a name that is no text");
    fs::write(server.dir.file(".data-server-old"), "x").expect("a name of the server");
    fs::hard_link(server.dir.file("real"), server.dir.file("second")).expect("a hard link");
    let fifo = FileType::Fifo;
    mknodat(CWD, server.dir.file("fifo"), fifo, 0o666.into(), 0).expect("a fifo");
    let _listener = UnixListener::bind(server.dir.file("socket")).expect("a socket");
    if make_zero(&server.dir.file("zero")) {
        planted.push("zero");
    } else {
        left_out("a device in the directory", "mknod is not permitted here");
    }

    for name in &planted {
        let start = Instant::now();
        // A folder without its slash is named to who removes it.
        let of_delete = if *name == "dir" { 409 } else { 404 };
        for (method, status) in [("GET", 404), ("HEAD", 404), ("DELETE", of_delete)] {
            assert_eq!(server.ask(method, name).status, status, "{method} /{name}");
        }
        assert_eq!(server.put(name, "overwritten").status, 409, "PUT /{name}");
        let status = server.put(name, "").status;
        assert_eq!(status, 409, "PUT of nothing to /{name}");
        let is_right = start.elapsed() < Duration::from_secs(60);
        assert!(is_right, "/{name} took {:?}", start.elapsed());
        let meta = fs::symlink_metadata(server.dir.file(name));
        assert!(meta.is_ok_and(|meta| !meta.is_file()), "{name} is gone");
    }
    let found = fs::read(server.dir.outside("canary")).expect("the canary");
    assert_eq!(found, b"secret");
    let is_right = !server.dir.outside("made-by-put").exists();
    assert!(is_right, "a dangling symlink was followed");
    assert_eq!(server.dir.read("real"), b"value");
    server.dir.assert_nothing_staged();
    let listed = |query: &str| server.get(query).text();
    assert_eq!(listed("?format=text"), "real\nsecond\n");
    assert_eq!(listed("?format=text&prefix=.data"), "");
    for limit in 1..3 {
        let keys = listed(&format!("?format=text&limit={limit}"));
        assert_eq!(keys.lines().count(), limit);
    }
}

fn make_zero(path: &Path) -> bool {
    let made = Command::new("mknod")
        .arg(path)
        .args(["c", "1", "5"])
        .status();
    made.is_ok_and(|status| status.success())
}

#[test]
fn with_one_segment_a_directory_is_out_of_reach() {
    directory_only!("hands in the directory");
    let server = TestServer::start(&["--compat"]);
    fs::create_dir(server.dir.file("dir")).expect("a directory");
    fs::write(server.dir.file("dir/inner"), "secret").expect("a file in it");
    let paths = "dir/inner dir//inner ./dir/inner dir%2Finner .data-server/lock";
    for path in words(paths) {
        let got = server.get(path);
        let is_right = matches!(got.status, 400 | 404);
        assert!(is_right, "GET /{path}: {}", got.status);
        let is_right = !got.body.windows(6).any(|part| part == b"secret");
        assert!(is_right, "GET /{path}");
    }
    let found = fs::read(server.dir.file("dir/inner")).expect("the file");
    assert_eq!(found, b"secret");
}

/// A name that flips between a file and a symlink to the canary never shows the canary.
#[test]
fn a_symlink_swapped_in_is_never_followed() {
    let server = needed!(TestServer::of_directory("hands in the directory", &[]));
    fs::write(server.dir.outside("canary"), "secret").expect("the canary");
    server.dir.place("good", "value");
    symlink("../canary", server.dir.file("bad")).expect("a symlink");
    let done = Done::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            let [good, bad] = ["good", "bad"].map(|name| server.dir.file(name));
            while !done.is_said() {
                renameat_with(CWD, &good, CWD, &bad, RenameFlags::EXCHANGE).expect("an exchange");
            }
        });
        let _saying = done.when_dropped();
        let mut connection = server.connect();
        let (mut values, mut absent) = (0, 0);
        eventually("the race has been run", || {
            for _ in 0..200 {
                let got = connection.get("good");
                match got.status {
                    200 => values += i32::from(got.body == b"value"),
                    404 => absent += 1,
                    other => panic!("status {other}"),
                }
                let is_right = got.status == 404 || got.body == b"value";
                assert!(is_right, "{}", got.body.escape_ascii());
            }
            values > 500 && absent > 500
        });
    });
}
