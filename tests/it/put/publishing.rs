//! Proves that the publisher's guess has no visible effect: after many new names in a row it links the next one without
//! a stat.

use crate::support::prelude::*;

/// More new names in a row than it takes before the publisher skips the stat.
const ROW: usize = 40;

fn store_new_names(server: &TestServer, prefix: &str) {
    let mut connection = server.connect();
    for n in 0..ROW {
        let found = connection.put(&format!("{prefix}-{n}"), [b'n'; 10]).status;
        assert_eq!(found, 200);
    }
}

#[test]
fn after_many_new_names_an_existing_one_is_replaced() {
    directory_only!("system calls on files");
    let server = TestServer::start(&["--threads", "1"]);
    let future = SystemTime::now() + Duration::from_secs(24 * 3600);
    for size in [100, 300_000] {
        let row = |what: &str| store_new_names(&server, &format!("{size}-{what}"));
        // A value placed by hand, with a date that the clock of versions does not reach.
        server.dir.place("by-hand", "old");
        server.dir.date("by-hand", future);
        let before = server.get("by-hand").must("etag").to_owned();
        row("replaced");
        let stored = server.put("by-hand", pattern(1, size));
        assert_eq!(stored.status, 200);
        assert_ne!(stored.must("etag"), before);
        assert!(server.dir.read("by-hand") == pattern(1, size));
        assert!(server.get("by-hand").body == pattern(1, size));

        row("conditional");
        let created = |key: &str| {
            let lines = "If-None-Match: *\r\nContent-Length: 3\r\n";
            let mut raw = server.begin("PUT", &format!("/{key}"), lines);
            raw.ask("new").status
        };
        assert_eq!(created("by-hand"), 412);
        assert_eq!(created(&format!("created-{size}")), 200);
        assert!(server.dir.read("by-hand") == pattern(1, size));

        let (directory, link) = (format!("directory-{size}"), format!("link-{size}"));
        fs::create_dir(server.dir.file(&directory)).expect("a directory");
        symlink("elsewhere", server.dir.file(&link)).expect("a link");
        for occupied in [&directory, &link] {
            row(occupied);
            assert_eq!(server.put(occupied, pattern(2, size)).status, 409);
        }
        assert!(server.dir.file(&directory).is_dir());
        assert!(server.dir.file(&link).is_symlink());
    }
    server.dir.assert_nothing_staged();
}

#[test]
fn new_names_skip_the_stat_and_existing_ones_skip_the_link() {
    directory_only!("system calls on files");
    let calls = ["-e", "trace=newfstatat,linkat"];
    let trace = needed!(Trace::with(&calls, "how often names are looked at"));
    let mut server = trace.around(Launch::new(&["--threads", "1"])).start();
    for name in ["a", "b", "c"] {
        store_new_names(&server, name);
    }
    for name in ["a", "b", "c"] {
        store_new_names(&server, name);
    }
    server.stop();
    let calls = trace.calls();
    let names = ["\"a-", "\"b-", "\"c-"];
    let of_value = |call: &&Call| names.iter().any(|name| call.args.contains(name));
    let count = |name: &str| {
        let all = calls.iter().filter(of_value).filter(|c| c.name == name);
        all.count()
    };
    let (looks, links) = (count("newfstatat"), count("linkat"));
    // One stat for each of the first new names, then one for each replaced value.
    assert!((3 * ROW + 1..4 * ROW).contains(&looks), "{looks} looks");
    assert_eq!(links, 3 * ROW + 1, "one guess was wrong");
}
