//! Large values that arrive: room is made for bytes that have come, for no more than what lacks, and of an unknown
//! length too no more lies on the disk than a quota has.

use super::assert_has;
use crate::support::form::{FOLDER, FORM, file, form};
use crate::support::prelude::*;

const MIB: usize = 1 << 20;

/// A server of a cache of 24 values of 1 MiB on a disk of 40 MiB, of which 4 are to stay free.
fn full_disk() -> Option<(Mount, TestServer)> {
    let mount = Mount::tmpfs("size=40m", "uploads to a full disk")?;
    let args = ["--max-size", "1GiB", "--min-free", "4MiB", "--threads", "1"];
    let server = Launch::new(&args).on(&mount.dir()).start();
    for n in 0..24 {
        server.store(&format!("old/{n:02}"), pattern(n, MIB));
    }
    Some((mount, server))
}

/// A way to store a value under the key `large`.
type Put = fn(&TestServer, &[u8]);

fn old(server: &TestServer) -> usize {
    let names = server.dir.names();
    names
        .iter()
        .filter(|name| name.starts_with(b"old/"))
        .count()
}

#[test]
fn bytes_that_are_announced_and_do_not_come_evict_nothing() {
    directory_only!("bounds");
    http1_only!("a body that does not come");
    let (_mount, server) = needed!(full_disk());
    for sent in [vec![], vec![1; 10], vec![1; 5 * MIB]] {
        let mut raw = server.connect();
        raw.send([put_head("large", 30 * MIB).as_bytes(), &sent].concat());
        eventually("the upload has begun", || server.proc().staged() == 1);
        let lines = "Upload-Length: 15000000\r\n";
        Resumable::create(&mut server.connect(), "parts", lines, b"first");
        drop(raw);
        eventually("the upload is given up", || server.proc().staged() == 0);
        assert_eq!(old(&server), 24, "{} bytes were sent", sent.len());
    }
    // Of what can never come nothing is received.
    let expects =
        put_head("large", 50 * MIB).replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n");
    server.connect().ask(expects).says(507, "no space");
    assert_eq!(old(&server), 24);
}

/// 15 MiB are above what is free, and each way evicts them, or a little more.
#[test]
fn each_way_of_a_large_value_evicts_what_lacks_and_no_more() {
    directory_only!("bounds");
    let value = pattern(77, 27 * MIB);
    let ways: [(&str, Put); 5] = [
        ("a PUT", |server, value| server.store("large", value)),
        ("a PUT of an unknown length", |server, value| {
            assert_eq!(server.put_chunked("large", value).status, 200);
        }),
        ("a form", |server, value| {
            let found = server.post("", &[(&file("large"), value)]).status;
            assert_eq!(found, 200);
        }),
        ("a member of a tar", |server, value| {
            let mut header = tar::Header::new_gnu();
            header.set_path("large").expect("a name");
            header.set_size(value.len() as u64);
            header.set_cksum();
            let packed = [header.as_bytes(), value, &[0; 1024]].concat();
            let seen = server.request("PUT", "/?archive=tar", "", &packed).status;
            assert_eq!(seen, 200);
        }),
        ("parts", |server, value| {
            let lines = format!("Upload-Length: {}\r\n", value.len());
            let (first, rest) = value.split_at(14 * MIB);
            let mut raw = server.connect();
            let upload = Resumable::create(&mut raw, "large", &lines, first);
            let put = upload.append(&mut raw, first.len(), true, rest);
            assert_eq!(put.status, 200);
        }),
    ];
    for (way, put) in ways {
        let (_mount, server) = needed!(full_disk());
        put(&server, &value);
        assert!(server.get("large").body == value, "{way}");
        let gone = 24 - old(&server);
        // The keeper wants 1 MiB more.
        assert!((14..=18).contains(&gone), "{gone} values for {way}");
    }
    // By one that is there.
    let (_mount, server) = needed!(full_disk());
    server.store("large", &value[..14 * MIB]);
    let before = old(&server);
    let copied = server.request("COPY", "/large", "Destination: /copy\r\n", b"");
    assert_eq!(copied.status, 201);
    assert!(server.get("copy").body == value[..14 * MIB]);
    assert!((13..=17).contains(&(before - old(&server))), "{before}");
}

/// Where all of a value can have no name, nothing goes for it.
#[test]
fn a_large_value_for_a_name_that_is_taken_evicts_nothing() {
    directory_only!("bounds");
    let (_mount, server) = needed!(full_disk());
    server.store("value", "v");
    let large = vec![1; 27 * MIB];
    for key in ["old", "value/below"] {
        let mut raw = server.connect();
        let _may_be_refused_meanwhile =
            raw.offer([put_head(key, large.len()).as_bytes(), &large].concat());
        assert_eq!(raw.answer().status, 409, "{key}");
        let lines = "Upload-Complete: ?0\r\n";
        let parts = Resumable::ask_to_create(&mut server.connect(), key, lines, b"v");
        assert_eq!(parts.status, 409, "{key}");
    }
    assert_eq!(old(&server), 24);
}

/// On a disk that is smaller than what is sent: were it all to lie there, the disk would be full first.
#[test]
fn of_an_unknown_length_no_more_lies_on_the_disk_than_a_quota_has() {
    directory_only!("bounds");
    let mount = needed!(Mount::tmpfs("size=8m", "uploads beyond a quota"));
    let quota = r#"prefix = "q/{name}/", max-size = "1MiB", full = "refuse""#;
    let args = ["--bound", quota, "--min-free", "0", "--threads", "1"];
    let server = Launch::new(&args).on(&mount.dir()).start();
    let large = vec![7; 30 * MIB];
    let why = r#"the bound of "q/a/" is full (max-size 1.0 MiB): delete values first"#;
    server.put_chunked("q/a/chunks", &large).says(507, why);
    let mut raw = server.connect();
    let head = format!(
        "POST /-/upload HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\n{FORM}\r\n",
        40 * MIB
    );
    let form = form(&[(FOLDER, b"q/a"), (&file("form"), &large)]);
    let _may_be_refused_meanwhile = raw.offer([head.as_bytes(), &form].concat());
    raw.answer().says(507, why);
    // Parts are refused before they are received, and the upload is none.
    for lines in [
        "Upload-Complete: ?0\r\n",
        "Upload-Complete: ?0\r\nTransfer-Encoding: chunked\r\n",
    ] {
        let body = if lines.contains("chunked") {
            in_chunks(&large, 50_000)
        } else {
            large.clone()
        };
        let mut raw = server.connect();
        let length = if lines.contains("chunked") {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", large.len())
        };
        let head = format!("PUT /q/a/parts HTTP/1.1\r\nHost: t\r\n{length}{lines}\r\n");
        let _may_be_refused_meanwhile = raw.offer([head.as_bytes(), &body].concat());
        raw.answer().says(507, why);
    }
    server.dir.assert_no_uploads();
    eventually("nothing stays", || server.proc().staged() == 0);
    assert_has(&server, "");
    // What the quota has room for is taken to the last byte.
    assert_eq!(server.put_chunked("q/a/1", &large[..MIB]).status, 200);
    let found = server.put_chunked("q/a/1", &large[..MIB]).status;
    assert_eq!(found, 200, "in place of it");
}

/// What evictions give is taken by others at once: that is no sign that they give nothing.
#[test]
fn uploads_at_once_to_a_full_disk_are_all_stored_and_leave_what_is_to_stay_free() {
    const FLOOR: u64 = 4 << 20;
    directory_only!("bounds");
    let (_mount, server) = needed!(full_disk());
    let is_over = AtomicBool::new(false);
    let (refused, least) = thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut least = u64::MAX;
            while !is_over.load(Ordering::Relaxed) {
                let free = rustix::fs::statvfs(server.dir.path()).expect("the space");
                least = least.min(free.f_bavail * free.f_frsize);
            }
            least
        });
        let store = |writer: usize| {
            let lengths = [70_000, 3 * MIB, 300_000, MIB, 2 * MIB + 1];
            let refused = (0..40).filter(|n| {
                let value = vec![1; lengths[(n + writer) % lengths.len()]];
                let key = format!("new/{writer}/{n}");
                let put = if n % 3 == 0 {
                    server.put_chunked(&key, &value)
                } else {
                    server.put(&key, &value)
                };
                put.status != 200
            });
            refused.count()
        };
        let writers: Vec<_> = (0..6).map(|at| scope.spawn(move || store(at))).collect();
        let refused = writers.into_iter().map(|it| it.join().expect("a writer"));
        let refused: usize = refused.sum();
        is_over.store(true, Ordering::Relaxed);
        (refused, watch.join().expect("the space"))
    });
    assert_eq!(refused, 0, "of 240");
    assert!(least >= FLOOR, "{least} bytes were free");
}

/// What lies there for uploads counts as what is stored does: between requests, beside others, and over a restart.
#[test]
fn unfinished_uploads_count_against_the_quota_of_their_keys() {
    directory_only!("bounds");
    let quota = r#"prefix = "q/{name}/", max-size = "1MiB", full = "refuse""#;
    let dir = DataDir::in_memory();
    let mut server = Launch::new(&["--bound", quota]).on(&dir).start();
    let why = r#"the bound of "q/a/" is full (max-size 1.0 MiB): delete values first"#;
    let part = pattern(1, 400_000);
    let create = |server: &TestServer, n: usize| {
        let key = format!("q/a/{n}");
        let lines = "Upload-Complete: ?0\r\n";
        Resumable::ask_to_create(&mut server.connect(), &key, lines, &part)
    };
    let first = Resumable::of_key(&create(&server, 1), "q/a/1");
    let second = Resumable::of_key(&create(&server, 2), "q/a/2");
    for _ in 0..2 {
        create(&server, 3).says(507, why);
        server.put("q/a/whole", &part).says(507, why);
        server.put_chunked("q/a/whole", &part).says(507, why);
        let mut raw = server.connect();
        first
            .append(&mut raw, part.len(), false, &part)
            .says(507, why);
        assert_eq!(first.offset(&mut server.connect()), part.len());
        assert_eq!(server.put("q/b/whole", &part).status, 200);
        server.stop();
        server = Launch::new(&["--bound", quota]).on(&dir).start();
    }
    // Its own bytes are in no upload's way, and what is given up counts no more.
    let mut raw = server.connect();
    let small = first.append(&mut raw, part.len(), true, &part[..100_000]);
    assert_eq!(small.status, 200, "{}", small.text());
    assert_eq!(server.ask("DELETE", &second.path[1..]).status, 204);
    server.store("q/a/whole", &part);
    create(&server, 3).says(507, why);
    assert_eq!(server.ask("DELETE", "q/a/1").status, 200);
    create(&server, 3);
}

/// Each is as large as the quota, and one is stored.
#[test]
fn uploads_at_once_have_no_more_on_the_disk_than_their_quota() {
    directory_only!("bounds");
    let quota = r#"prefix = "q/", max-size = "4MiB", full = "refuse""#;
    let server = super::start(&["--bound", quota, "--threads", "2"]);
    let value = pattern(3, 4 * MIB);
    let mut uploads: Vec<_> = (0..6)
        .map(|n| {
            let mut raw = server.connect();
            raw.send(put_head(&format!("q/{n}"), value.len()));
            raw
        })
        .collect();
    let statuses: Vec<_> = uploads
        .iter_mut()
        .map(|raw| {
            let _may_be_refused_meanwhile = raw.offer(&value);
            raw.answer().status
        })
        .collect();
    assert_eq!(statuses, [200, 507, 507, 507, 507, 507]);
    assert_eq!(server.ask("DELETE", "q/0").status, 200);
    server.store("q/1", &value);
}
