//! A bound that refuses: what has no room is 507 and named, what is freed counts at once, and no number of writers
//! exceeds it.

use super::{BLOCK, assert_has, each_way, start, store_all, taken};
use crate::support::prelude::*;

#[test]
fn what_has_no_room_is_refused_and_what_is_freed_counts_at_once() {
    directory_only!("bounds");
    let quota = r#"prefix = "q/", max-size = "16KiB", full = "refuse""#;
    each_way(&["--bound", quota], |server| {
        let is_full = || {
            let why = r#"the bound of "q/" is full (max-size 16.0 KiB): delete values first"#;
            server.put("q/more", BLOCK).says(507, why);
        };
        store_all(server, "q/1 q/2 q/3 q/4");
        is_full();
        server.store("q/1", [8; 4096]);
        is_full();
        assert_eq!(server.put("q/1", [9; 4097]).status, 507);
        assert_eq!(server.get("q/1").body, [8; 4096], "the value before it");
        server.store("q/empty", "");
        assert_eq!(server.ask("DELETE", "q/2").status, 200);
        server.store("q/1", [9; 8192]);
        is_full();
        server.store("q/1", [9; 100]);
        server.store("q/more", BLOCK);
        assert_eq!(server.put_chunked("q/5", &vec![9; 20_000]).status, 507);
        server.store("elsewhere", vec![9; 100_000]);
        assert_has(server, "elsewhere q/1 q/3 q/4 q/empty q/more");
    });
}

#[test]
fn a_number_of_values_is_a_quota_too_and_each_name_has_its_own() {
    directory_only!("bounds");
    let quota = r#"prefix = "home/{name}/", max-keys = 2, full = "refuse""#;
    each_way(&["--bound", quota], |server| {
        store_all(server, "home/ann/1 home/ann/b/2 home/bob/1");
        let why = r#"the bound of "home/ann/" is full (max-keys 2): delete values first"#;
        server.put("home/ann/3", "").says(507, why);
        assert_eq!(server.event("no room for a value").field("error"), why);
        store_all(server, "home/ann/1 home/bob/2 home/me home/cy/1");
        assert_eq!(server.put("home/bob/3", "").status, 507);
        assert_eq!(server.ask("DELETE", "home/ann/b/2").status, 200);
        server.store("home/ann/3", "");
        assert_eq!(server.put("home/ann/4", "").status, 507);
    });
}

#[test]
fn below_a_bound_that_is_full_no_folder_is_made() {
    directory_only!("bounds");
    let size = r#"prefix = "s/", max-size = "8KiB", full = "refuse""#;
    let keys = r#"prefix = "home/{name}/", max-keys = 2, full = "evict""#;
    each_way(&["--bound", size, "--bound", keys], |server| {
        store_all(server, "s/1 home/ann/a/1");
        server.talk("MKCOL /s/a ; 201\nMKCOL /home/ann/b ; 201\nMKCOL /home/bob ; 201\nMKCOL /home/bob/a ; 201");
        store_all(server, "s/2 home/ann/2");
        server.talk(
            "
            MKCOL /s/b ; 507 ; ; the bound of \"s/\" is full
            MKCOL /home/ann/c ; 507 ; ; the bound of \"home/ann/\" is full
            MKCOL /s ; 405
            MKCOL /s/a ; 405
            MKCOL /home/bob/b ; 201
            MKCOL /other ; 201
            DELETE /s/2 ; 200
            MKCOL /s/b ; 201",
        );
    });
}

#[test]
fn bounds_that_hold_one_key_all_hold() {
    directory_only!("bounds");
    let size = r#"prefix = "a/", max-size = "12KiB", full = "refuse""#;
    let keys = r#"max-keys = 4, full = "evict""#;
    each_way(&["--bound", size, "--bound", keys], |server| {
        store_all(server, "b a/1 a/2 a/3");
        server.put("a/4", BLOCK).says(507, r#""a/""#);
        assert_has(server, "a/1 a/2 a/3 b");
        store_all(server, "c d");
        assert_has(server, "a/2 a/3 c d");
        store_all(server, "a/4");
        assert_has(server, "a/3 a/4 c d");
        assert_eq!(server.put("a/5", [7; 4097]).status, 507);
    });
}

#[test]
fn uploads_in_parts_are_refused_as_they_begin_or_as_they_end() {
    directory_only!("bounds");
    let quota = r#"max-size = "16KiB", full = "refuse""#;
    let server = start(&["--bound", quota]);
    let create = |length: usize| {
        let lines = format!("Upload-Complete: ?0\r\nUpload-Length: {length}\r\n");
        Resumable::ask_to_create(&mut server.connect(), "u", &lines, b"")
    };
    assert_eq!(create(20_000).status, 507);
    let begun = Resumable::of(&create(3));
    store_all(&server, "1 2 3 4");
    assert_eq!(create(1).status, 507, "none is left");
    let mut raw = server.connect();
    assert_eq!(begun.append(&mut raw, 0, true, b"abc").status, 507);
    assert_has(&server, "1 2 3 4");
}

/// Each has keys of its own, and changes them again and again by values of all sizes.
#[test]
fn sixteen_writers_at_once_never_exceed_a_quota() {
    const MOST: u64 = 256 << 10;
    directory_only!("bounds");
    let quota = r#"prefix = "q/", max-size = "256KiB", full = "refuse""#;
    for way in super::WAYS {
        let dir = if way.ends_with("disk") {
            DataDir::temporary()
        } else {
            DataDir::in_memory()
        };
        let args = [&words(way), &["--bound", quota, "--threads", "4"][..]].concat();
        let server = Launch::new(&args).on(&dir).start();
        let refused = AtomicUsize::new(0);
        let write = |writer: u64| {
            let mut client = Client::new(server.addr);
            for n in 0..150 {
                let path = format!("q/{writer}/{}", n % 5);
                let status = if n % 7 == 6 {
                    client.ask("DELETE", &path).status
                } else {
                    let len = 1 + (writer * 7919 + n * 104_729) % (6 * 4096);
                    let len = usize::try_from(len).expect("small");
                    client.put(&path, pattern(n, len)).status
                };
                assert!(matches!(status, 200 | 404 | 507), "{status}");
                refused.fetch_add(usize::from(status == 507), Ordering::Relaxed);
            }
        };
        let mut samples = Vec::new();
        thread::scope(|scope| {
            let write = &write;
            let writers = (0..16).map(|n| scope.spawn(move || write(n)));
            let writers: Vec<_> = writers.collect();
            while writers.iter().any(|writer| !writer.is_finished()) {
                // It makes no change while it is counted.
                server.signal(Signal::STOP);
                samples.push(taken(&dir, "q/"));
                server.signal(Signal::CONT);
                pass(Duration::from_millis(3));
            }
        });
        let most = samples.iter().copied().max().unwrap_or(0);
        let told = format!("{way}: {} samples, at most {most}", samples.len());
        assert!(samples.len() > 5 && most <= MOST, "{told}");
        assert!(most > MOST / 2, "little was written: {told}");
        assert!(refused.into_inner() > 50, "little was refused: {told}");
        // What it has counted is what is there.
        let left = (MOST - taken(&dir, "q/")) / 4096;
        for n in 0..left {
            server.store(&format!("q/fill/{n}"), BLOCK);
        }
        assert_eq!(server.put("q/fill/more", "x").status, 507, "{way}");
    }
}
