//! Proves that a COPY takes the room of a PUT, that a MOVE within a bound takes none, and that the account is right
//! after both.

use super::send;
use crate::support::prelude::*;

const BLOCK: [u8; 4096] = [7; 4096];

const WAYS: [&str; 3] = [
    "--durability os",
    "--durability disk",
    "--durability disk --journal off",
];

fn each_way(bounds: &[&str], test: impl Fn(&TestServer)) {
    let bounds: Vec<_> = bounds.iter().flat_map(|bound| ["--bound", bound]).collect();
    for way in WAYS {
        test(&TestServer::start(&[&*words(way), &bounds].concat()));
    }
}

#[test]
fn a_copy_is_refused_where_a_put_is_and_a_move_within_a_full_bound_is_not() {
    directory_only!("bounds");
    let quotas = [
        r#"prefix = "q/", max-size = "8KiB", full = "refuse""#,
        r#"prefix = "r/", max-keys = 1, full = "refuse""#,
    ];
    each_way(&quotas, |server| {
        let mut raw = server.connect();
        let mut ask =
            |method: &str, from: &str, to: &str| send(&mut raw, method, from, to, "").status;
        for key in ["q/1", "q/2", "free"] {
            server.store(key, BLOCK);
        }
        assert_eq!(ask("COPY", "/q/1", "/q/3"), 507);
        assert_eq!(ask("MOVE", "/free", "/q/3"), 507);
        for n in 0..20 {
            let (from, to) = [("/q/1", "/q/x/3"), ("/q/x/3", "/q/1")][n % 2];
            assert_eq!(ask("MOVE", from, to), 201, "it takes no more room");
        }
        assert_eq!(ask("COPY", "/q/1", "/q/2"), 204);
        assert_eq!(ask("MOVE", "/q/1", "/r/1"), 201);
        assert_eq!(ask("COPY", "/q/2", "/r/2"), 507);
        let found = ask("MOVE", "/free", "/q/3");
        assert_eq!(found, 201, "what has moved away is free");
        assert_eq!(server.put("q/more", BLOCK).status, 507);
        assert_eq!(ask("MOVE", "/q/2", "/q/3"), 204);
        server.store("q/more", BLOCK);
        server.dir.assert_holds(&["q/3", "q/more", "r/1"]);
    });
}

#[test]
fn a_move_within_a_bound_evicts_nothing_and_one_into_it_what_a_put_does() {
    directory_only!("bounds");
    let cache = [r#"prefix = "c/", max-keys = 3"#];
    each_way(&cache, |server| {
        let mut raw = server.connect();
        for key in ["c/1", "c/2", "c/3", "free"] {
            server.store(key, BLOCK);
            pass(Duration::from_millis(12));
        }
        assert_eq!(send(&mut raw, "MOVE", "/c/1", "/c/4", "").status, 201);
        server.dir.assert_holds(&["c/2", "c/3", "c/4", "free"]);
        assert_eq!(send(&mut raw, "MOVE", "/free", "/c/5", "").status, 201);
        server.dir.assert_holds(&["c/3", "c/4", "c/5"]);
        assert_eq!(send(&mut raw, "COPY", "/c/5", "/c/6", "").status, 201);
        server.dir.assert_holds(&["c/4", "c/5", "c/6"]);
        // Nothing goes for a move that cannot be made.
        server.dir.place("linked", BLOCK);
        fs::hard_link(server.dir.file("linked"), server.dir.file("link")).expect("a link");
        assert_eq!(send(&mut raw, "MOVE", "/linked", "/c/7", "").status, 409);
        server
            .dir
            .assert_holds(&["c/4", "c/5", "c/6", "link", "linked"]);
    });
}
