//! The page of the guarantees names the tests of each promise, and they are there.

use super::{path, sources_below, text};
use crate::support::prelude::*;

const PAGE: &str = "docs/guarantees.md";

/// Whether a name of the page, `put::atomicity` or `torture crash`, is one of a test or of a module with tests.
fn is_there(name: &str) -> bool {
    let (suite, name) = name.split_once(' ').unwrap_or(("it", name));
    let module = |name: &str| path("tests").join(suite).join(name.replace("::", "/"));
    if name.is_empty() {
        return false;
    }
    if sources(&module(name)).contains("#[test]") {
        return true;
    }
    name.rsplit_once("::").is_some_and(|(parent, test)| {
        let heads = format!("#[test]\nfn {test}() {{");
        sources(&module(parent)).contains(&heads)
    })
}

/// The sources of a module: its file, and all below its directory.
fn sources(module: &Path) -> String {
    let file = fs::read_to_string(module.with_extension("rs"));
    file.unwrap_or_default() + &sources_below(module)
}

/// The names of tests: those behind `Tests:`, and those in the last column of the tables that have one for them.
fn named(section: &str) -> Vec<&str> {
    let mut cells = Vec::new();
    let mut is_table_of_tests = false;
    for line in section.lines() {
        let Some(row) = line.strip_prefix("| ") else {
            is_table_of_tests &= line.starts_with('|');
            cells.extend(line.trim_start().strip_prefix("Tests: "));
            continue;
        };
        let last = row.trim_end_matches(" |").rsplit(" | ").next();
        if is_table_of_tests {
            cells.extend(last);
        }
        is_table_of_tests |= last == Some("tests");
    }
    let names = cells.iter();
    let names = names.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    names.collect()
}

#[test]
fn every_promise_names_tests_that_are_there() {
    let page = text(PAGE);
    let mut checked = 0;
    for section in page.split("\n## ").skip(1) {
        for part in section.split("\n### ") {
            let title = part.lines().next().expect("a title");
            let names = named(part);
            assert!(!names.is_empty(), "{PAGE}: {title} names no test");
            for name in &names {
                assert!(is_there(name), "{PAGE}: {title}: there is no test {name}");
            }
            checked += names.len();
        }
    }
    assert!(checked > 50, "{checked} names");
}

#[test]
fn a_test_that_is_gone_is_found() {
    let there = "put::atomicity|put|torture crash|docs::guarantees::a_test_that_is_gone_is_found";
    for there in there.split('|') {
        assert!(is_there(there), "{there}");
    }
    let gone = "put::atom|docs::guarantees::a_test_that_is_gone|docs::guarantees::is_there|torture put::atomicity|torture|";
    for gone in gone.split('|') {
        assert!(!is_there(gone), "{gone}");
    }
    let table = "| what | tests |\n|---|---|\n| a | `b`, `c` |\n\n| d | e |\n|---|---|\n| f | `g` |\n- h\n  Tests: `i`.\n";
    assert_eq!(named(table), ["b", "c", "i"]);
}
