//! What a bound counts is what `du` counts: blocks of the disk, whatever the length, the attributes and the names of a
//! file.

use std::os::unix::fs::symlink as link_to;

use super::{BLOCK, counted, metric, start};
use crate::support::prelude::*;

/// The blocks of each file once, in bytes, as `du` counts them.
fn du(dir: &DataDir) -> u64 {
    let files = dir.names().into_iter();
    let files = files.filter_map(|name| fs::symlink_metadata(dir.file(name)).ok());
    let files = files.filter(fs::Metadata::is_file);
    let once: BTreeMap<_, _> = files
        .map(|file| ((file.dev(), file.ino()), file.blocks() * 512))
        .collect();
    once.values().sum()
}

/// Asserts that the bound comes to count what `du` does, and has not evicted one of so many names.
#[track_caller]
fn is_counted(server: &TestServer, names: usize) {
    let is_right = comes_true(|| counted(server) == du(&server.dir));
    let told = format!("{} counted, du {}", counted(server), du(&server.dir));
    assert!(is_right, "{told}");
    assert_eq!(server.dir.names().len(), names, "{told}");
}

/// The cache was emptied for a file that takes no block.
#[test]
fn a_sparse_file_takes_the_blocks_that_it_has() {
    directory_only!("bounds");
    let server = start(&["--max-size", "4MiB"]);
    for n in 0..200 {
        server.dir.place(&format!("c/{n}"), BLOCK);
    }
    is_counted(&server, 200);
    let image = server.dir.outside("image");
    let file = File::create(&image).expect("a file");
    file.set_len(1 << 30).expect("a length");
    fs::rename(&image, server.dir.file("image")).expect("a file with holes");
    eventually("it is seen", || {
        metric(&server, "data_server_bound_keys") == 201
    });
    is_counted(&server, 201);
    // As it is made in place, and moved by the server.
    let second = File::create(server.dir.file("second")).expect("a file");
    second.set_len(1 << 30).expect("a length");
    drop(second);
    eventually("it is seen", || {
        metric(&server, "data_server_bound_keys") == 202
    });
    let moved = server.request("MOVE", "/image", "Destination: /d/image\r\n", b"");
    assert_eq!(moved.status, 201);
    server.store("one", BLOCK);
    is_counted(&server, 203);
}

#[test]
fn a_file_of_several_names_is_counted_once() {
    directory_only!("bounds");
    let server = start(&["--max-size", "1MiB"]);
    for n in 0..150 {
        server.dir.place(&format!("c/{n}"), BLOCK);
    }
    is_counted(&server, 150);
    let (from, to) = (server.dir.file("c"), server.dir.file("copy"));
    run("cp", &["-al", text(&from), text(&to)]).expect("links");
    eventually("they are seen", || {
        metric(&server, "data_server_bound_keys") == 300
    });
    is_counted(&server, 300);
    // And as long as one of its names is there.
    for n in 0..100 {
        assert_eq!(server.ask("DELETE", &format!("c/{n}")).status, 200);
    }
    is_counted(&server, 200);
    for n in 0..100 {
        server.dir.remove(&format!("copy/{n}"));
    }
    is_counted(&server, 100);
    link_to("c/120", server.dir.file("link")).expect("a link");
    server.store("after", BLOCK);
    is_counted(&server, 102);
}

const LONG: &str = "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn";

/// With fields they take a block more than their length says, on the usual ext4: the bound had twice its size on the
/// disk.
#[test]
fn the_attributes_of_values_are_counted() {
    directory_only!("bounds");
    for way in super::WAYS {
        attributes_are_counted(way, 600 << 20);
    }
}

/// An ext4 of up to 512 MiB has them.
#[test]
fn the_attributes_of_values_are_counted_where_blocks_are_of_1_kib() {
    directory_only!("bounds");
    attributes_are_counted("--durability os", 16 << 20);
}

/// Attributes that come later take a block too, such as a digest that the server keeps: here another program sets them.
#[test]
fn attributes_that_come_later_are_counted() {
    directory_only!("bounds");
    let mount = needed!(Mount::ext4("values that get attributes"));
    let dir = mount.dir();
    let keys: Vec<_> = (0..20).map(|n| format!("c/{n}")).collect();
    for key in &keys {
        dir.place(key, BLOCK);
    }
    let server = Launch::new(&["--max-size", "1MiB"]).on(&dir).start();
    is_counted(&server, 20);
    // For 10 s it looks at new files again by itself.
    let placed = Instant::now();
    eventually("the files are no longer new", || {
        placed.elapsed().as_secs() > 12
    });
    let before = du(&dir);
    for key in &keys {
        let flags = rustix::fs::XattrFlags::empty();
        let file = dir.file(key);
        rustix::fs::setxattr(file, c"user.of-a-test", &[7; 500], flags).expect("an attribute");
    }
    assert!(du(&dir) > before);
    is_counted(&server, 20);
}

/// On an ext4 of this size.
fn attributes_are_counted(way: &str, size: u64) {
    let lines = format!(
        "Content-Type: application/x-of-a-test\r\nCache-Control: max-age=600\r\n\
         Content-Disposition: attachment; filename=\"{LONG}{LONG}\"\r\n"
    );
    let ends = format!("X-Delete-After: 6000\r\n{lines}");
    let mount = needed!(Mount::ext4_of(size, "values with attributes"));
    let launch = Launch::new(&[&*words(way), &["--max-size", "1MiB"]].concat());
    let server = launch.on(&mount.dir()).start();
    for n in 0..200 {
        let (lines, len) = if n % 3 == 0 {
            (&ends, 1)
        } else {
            (&lines, 3_000)
        };
        server.store_as(&format!("c/{n}"), lines, vec![7; len]);
    }
    // The digest of a value is kept beside it.
    let digest = "Want-Repr-Digest: sha-512=1\r\n";
    for n in 150..200 {
        server.request("GET", &format!("/c/{n}"), digest, b"");
    }
    let as_du = |when: &str| {
        let is_right = comes_true(|| counted(&server) == du(&server.dir));
        let (counted, du) = (counted(&server), du(&server.dir));
        let told = format!("{way}, {when}: {counted} counted, du {du}");
        assert!(is_right && du <= 1 << 20, "{told}");
    };
    as_du("after PUTs");
    let copied = server.request("COPY", "/c/199", "Destination: /copy\r\n", b"");
    assert_eq!(copied.status, 201);
    as_du("after a COPY");
}

/// Whoever places files, the server and hands, and however: the count is that of `du` when all is at rest, over a
/// restart too.
#[test]
fn the_count_of_all_kinds_of_files_is_that_of_du() {
    directory_only!("bounds");
    let dir = DataDir::temporary();
    let launch = || Launch::new(&["--max-size", "1GiB"]).on(&dir).start();
    let mut server = launch();
    for (n, len) in [0, 1, 4_095, 4_096, 4_097, 70_000, 300_000, 3_000_000]
        .into_iter()
        .enumerate()
    {
        server.store(&format!("put/{n}"), pattern(1, len));
        server.put_chunked(&format!("chunked/{n}"), &pattern(2, len));
        dir.place(&format!("hand/{n}"), pattern(3, len));
        server.store(&format!("over/{n}"), pattern(4, 3_000_000 - len));
        server.store(&format!("over/{n}"), pattern(4, len));
        let to = format!("Destination: /copied/{n}\r\n");
        server.request("COPY", &format!("/put/{n}"), &to, b"");
    }
    dir.set_len("hand/7", 10_000_000);
    dir.edit("hand/0", pattern(5, 50_000));
    server.store("put/last", "v");
    let names = dir.names().len();
    is_counted(&server, names);
    server.stop();
    let server = launch();
    is_counted(&server, names);
}
