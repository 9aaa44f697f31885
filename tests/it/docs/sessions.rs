//! The sessions of a page are judged rightly: patterns, and sessions that are wrong.

use crate::support::prelude::*;
use crate::support::session::{ADDRESS, fits, missing_tools, run};

#[test]
fn a_pattern_fits_whole_lines() {
    for (line, pattern) in [
        ("200", "200"),
        ("", ""),
        ("etag: \"18ea\"", "etag: \"...\""),
        ("a-b-c", "a...b...c"),
        ("anything", "..."),
    ] {
        assert!(fits(line, pattern), "{line} {pattern}");
    }
    for (line, pattern) in [
        ("200", "20"),
        ("200", "2000"),
        ("", "200"),
        ("etag: \"18ea\" ", "etag: \"...\""),
        ("a-c", "a...b...c"),
        ("aa", "aa...a"),
    ] {
        assert!(!fits(line, pattern), "{line} {pattern}");
    }
}

#[test]
fn a_wrong_session_is_found() {
    let why = "a command that sessions need does not run here";
    only_where!(missing_tools().is_empty(), "wrong sessions", why);
    let page = |session: &str| {
        format!(
            "```sh\ndata-server\n#> listening on http://{ADDRESS}\n```\n\n```sh\nS=http://{ADDRESS}\n{session}```\n"
        )
    };
    let right = "echo v | curl -sS -T - $S/k\ncurl -sS $S/k\n#> v\necho a; echo b\n#> a\n#> ...\n";
    assert_eq!(run(&page(right)), Ok(3));
    for (wrong, at) in [
        ("curl -sS $S/k\n#> v\n", "no such key"),
        ("echo a; echo b\n#> a\n", "and print\na\nb"),
        ("echo a\n#> a\n#> b\n", "should print\na\nb"),
        ("echo a\n", "should print\n\nand print\na"),
        ("cat missing\n", "No such file"),
        ("exit\n", "printed so far"),
    ] {
        let found = run(&page(wrong)).expect_err(wrong);
        assert!(found.contains(at), "{wrong}: {found}");
    }
    // A server that does not start says why, and is not waited for.
    let no_server = page("").replace("data-server\n", "data-server --threads 0\n");
    let no_server = no_server.replace(ADDRESS, "127.0.0.1:8081");
    let why = run(&no_server).expect_err("a server that does not start");
    assert!(why.contains("give a whole number"), "{why}");
    let unchecked =
        run("```console\n$ echo a\n#> a\n```\n").expect_err("output that is not checked");
    assert!(unchecked.contains("not run"), "{unchecked}");
}
