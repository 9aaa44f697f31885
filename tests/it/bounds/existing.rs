//! A directory that had values before its bounds: they stay until `--evict-existing` was given once, and what no bound
//! names for ever.

use super::{BLOCK, comes_to, place_old, store_all};
use crate::support::prelude::*;

const TWO: [&str; 2] = ["--bound", r#"prefix = "c/", max-size = "8KiB""#];

const THERE_BEFORE: &str = "the bound has values that were there before it, and removes nothing: so many would go; \
                            data-server bounds lists them, and --evict-existing, given once, allows it";

/// A directory with five values below `c/`, the oldest last, and others beside them.
fn filled() -> DataDir {
    let dir = DataDir::in_memory();
    let below = [
        ("c/1", 100),
        ("c/2", 200),
        ("c/3", 300),
        ("c/4", 400),
        ("c/5", 500),
    ];
    let beside = [("c", 900), ("cc/1", 900), ("d/1", 900)];
    place_old(&dir, &below);
    place_old(&dir, &beside[1..]);
    dir
}

#[test]
fn values_that_were_there_before_the_bound_go_once_it_is_said_and_no_others() {
    directory_only!("bounds");
    let dir = filled();
    let all = "c/1 c/2 c/3 c/4 c/5 cc/1 d/1";
    let launch = |more: &[&str]| Launch::new(&[&TWO, more].concat()).on(&dir).start();
    let mut server = launch(&[]);
    let told = server.event(THERE_BEFORE);
    let would_go = (
        told.field("prefix"),
        told.number("values"),
        told.number("bytes"),
    );
    assert_eq!(would_go, ("c/".to_owned(), 3, 3 * 4096));
    server.put("c/6", BLOCK).says(507, "--evict-existing");
    server.store("d/2", BLOCK);
    assert_eq!(server.ask("DELETE", "d/2").status, 200);
    super::assert_has(&server, all);
    server.stop();

    let mut server = launch(&["--evict-existing"]);
    comes_to(&server, "c/1 cc/1 d/1");
    store_all(&server, "c/6 c/7");
    super::assert_has(&server, "c/6 c/7 cc/1 d/1");
    server.stop();

    let server = launch(&[]);
    assert_eq!(server.events(THERE_BEFORE).len(), 0);
    store_all(&server, "c/8");
    super::assert_has(&server, "c/7 c/8 cc/1 d/1");
}

#[test]
fn each_bound_is_allowed_by_itself_and_one_of_an_empty_prefix_from_its_first_start() {
    directory_only!("bounds");
    let dir = filled();
    let empty = ["--bound", r#"prefix = "new/", max-keys = 1"#];
    let other = ["--bound", r#"prefix = "d/", max-keys = 0"#];
    let mut server = Launch::new(&[empty, other].concat()).on(&dir).start();
    store_all(&server, "new/1 new/2");
    assert_eq!(server.put("d/2", "").status, 507);
    server.stop();
    super::assert_has(&server, "c/1 c/2 c/3 c/4 c/5 cc/1 d/1 new/2");
    // One that holds more is another bound.
    let all = ["--max-size", "8KiB", "--bound", empty[1]];
    let server = Launch::new(&all).on(&dir).start();
    assert_eq!(server.event(THERE_BEFORE).field("prefix"), "");
    assert_eq!(server.put("new/3", BLOCK).status, 507);
    assert_eq!(server.dir.names().len(), 8);
}

/// What was stored while no bound could evict it was stored to stay.
#[test]
fn an_approval_ends_with_the_bound_and_is_of_what_it_removes() {
    directory_only!("bounds");
    let cache = r#"prefix = "c/", max-keys = 2"#;
    let quota = format!("{cache}, full = \"refuse\"");
    let of_age = format!("{quota}, max-age = \"20m\"");
    let old = |dir: &DataDir, key| place_old(dir, &[(key, 30)]);
    for between in ["", &quota, &of_age] {
        let dir = DataDir::in_memory();
        let run = |bound: &str, more: &[&str]| {
            let given = ["--bound", bound];
            let given = if bound.is_empty() { &[] } else { &given[..] };
            Launch::new(&[given, more].concat()).on(&dir).start()
        };
        let mut server = run(cache, &[]);
        store_all(&server, "c/1 c/2");
        server.stop();
        // A restart, and a bound of less, are no other bound.
        let mut server = run(cache, &[]);
        store_all(&server, "c/3");
        super::assert_has(&server, "c/2 c/3");
        server.stop();
        run(between, &[]).stop();
        old(&dir, "c/4");
        let mut server = run(cache, &[]);
        let told = server.event(THERE_BEFORE);
        assert_eq!(told.number("values"), 1, "after {between:?}");
        server.put("c/5", BLOCK).says(507, "--evict-existing");
        super::assert_has(&server, "c/2 c/3 c/4");
        server.stop();
        let mut server = run(cache, &["--evict-existing"]);
        comes_to(&server, "c/2 c/3");
        server.stop();
        // Nobody has allowed an age: neither its absence nor a bound of size tells of one.
        old(&dir, "c/6");
        let mut server = run(&of_age, &[]);
        assert_eq!(server.event(THERE_BEFORE).number("values"), 1);
        super::assert_has(&server, "c/2 c/3 c/6");
        server.stop();
        let server = run(&of_age, &["--evict-existing"]);
        comes_to(&server, "c/2 c/3");
    }
}

#[test]
fn bounds_of_each_name_say_what_would_go_of_each() {
    directory_only!("bounds");
    let dir = DataDir::in_memory();
    place_old(
        &dir,
        &[("a/1", 3), ("a/2", 2), ("a/3", 1), ("b/1", 9), ("x", 9)],
    );
    let each = ["--bound", r#"prefix = "{name}/", max-keys = 2"#];
    let server = Launch::new(&each).on(&dir).start();
    let told = server.event(THERE_BEFORE);
    assert_eq!((told.number("values"), told.number("bytes")), (1, 4096));
    let path = dir.path().to_str().expect("text");
    let printed = Launch::new(&["bounds", path, each[0], each[1]])
        .bare()
        .run();
    assert!(
        printed
            .printed()
            .contains("would go now: 1 values, 4.0 KiB"),
        "{}",
        printed.stdout
    );
}

#[test]
fn a_command_says_what_bounds_hold_and_what_would_go_beside_a_server_too() {
    directory_only!("bounds");
    let dir = filled();
    let path = dir.path().to_str().expect("text");
    let server = Launch::new(&TWO).on(&dir).start();
    let file = dir.write_private(
        "bounds.toml",
        "[[bound]]\nprefix = 'c/'\nmax-size = '8KiB'\n",
    );
    let by_line = ["bounds", path, TWO[0], TWO[1]];
    let by_file = ["--config", &file, "bounds", path];
    for args in [by_line, by_file] {
        let ended = Launch::new(&args).bare().run();
        let printed = ended.printed();
        for part in [
            "\"c/\" (max-size 8.0 KiB): 5 values, 20.0 KiB\n",
            "oldest: used 8h 20m",
            "would go now: 3 values, 12.0 KiB\n",
            "removes nothing of it until a server is started with --evict-existing\n",
            "next: c/5 (4.0 KiB, used 8h 20m",
        ] {
            assert!(printed.contains(part), "{part}: {printed}");
        }
        let next: Vec<_> = printed
            .lines()
            .filter(|line| line.contains("next: "))
            .collect();
        let is_in_order = next.iter().zip(["c/5", "c/4", "c/3", "c/2", "c/1"]);
        let is_right = is_in_order.clone().all(|(line, key)| line.contains(key));
        assert!(is_right, "{printed}");
    }
    super::assert_has(&server, "c/1 c/2 c/3 c/4 c/5 cc/1 d/1");
    drop(server);
    let none = Launch::new(&["bounds", path]).bare().run();
    none.says(2, "give --max-size, --bound");
    let gone = Launch::new(&["bounds", "/nowhere", "--max-size", "1"])
        .bare()
        .run();
    assert_eq!(gone.code, Some(1), "{}", gone.stderr);
}

/// Of a server that runs, the command has what it knows this moment: no note of uses is as new.
#[test]
fn the_command_asks_the_server_and_says_where_it_has_its_answer() {
    directory_only!("bounds");
    let dir = DataDir::in_memory();
    let path = dir.path().to_str().expect("text");
    let bounds = "[[bound]]\nprefix = 'c/'\nmax-size = '1MiB'\n[[bound]]\nprefix = 'home/{name}/'\nmax-keys = 3\nfull = 'refuse'\n";
    let file = dir.write_private("server.toml", &format!("dir = {path:?}\n{bounds}"));
    let mut server = Launch::new(&["--config", &file]).on(&dir).start();
    super::store_all(&server, "c/1 c/2 c/3 home/ann/1 home/bob/1 home/bob/2");
    server.get("c/1");
    let run = |args: &[&str]| Launch::new(args).bare().run().printed().to_owned();
    let printed = run(&["bounds", path]);
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(lines[0], "as the server has it now", "{printed}");
    for line in [
        "\"c/\" (max-size 1.0 MiB): 3 values, 12.0 KiB",
        "\"home/{name}/\" (each max-keys 3): 3 values, 12.0 KiB",
        "  home/bob/: 2 values, 8.0 KiB",
        "  home/ann/: 1 values, 4.0 KiB",
    ] {
        assert!(lines.contains(&line), "{line}: {printed}");
    }
    let json = |args: &[&str]| -> serde_json::Value {
        let printed = run(&[&["bounds", "--json"], args].concat());
        serde_json::from_str(&printed).unwrap_or_else(|_| panic!("JSON: {printed}"))
    };
    // The file of options names the directory, before the command and behind it.
    for told in [
        json(&["--config", &file, "--count", "2"]),
        json(&["--count", "2", path]),
    ] {
        assert_eq!(told["source"], "server", "{told}");
        assert_eq!(told["uses_seconds_ago"], 0);
        let next = told["bounds"][0]["next"].as_array().expect("values");
        let next: Vec<_> = next.iter().map(|it| &it["key"]).collect();
        assert_eq!(next, ["c/2", "c/3"]);
        assert_eq!(told["bounds"][1]["names"][0]["keys"], 2);
    }
    server.stop();
    let told = json(&["--config", &file, "--count", "1"]);
    assert_eq!(told["source"], "files", "{told}");
    assert!(told["uses_seconds_ago"].is_u64(), "{told}");
    assert_eq!(told["bounds"][0]["next"][0]["key"], "c/2");
    let printed = run(&["--config", &file, "bounds"]);
    assert!(
        printed.starts_with("by the files, with uses up to "),
        "{printed}"
    );
}
