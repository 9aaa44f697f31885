//! Checks the architecture: modules import each other one way only. Reads the sources and fails on an import that is not
//! on the list, on a circle of imports inside a module, on a file without its `//!`, and on status codes and I/O errors in
//! the wrong module.

mod imports;

use imports::Imports;

use crate::support::prelude::*;

/// Which modules a module may import. It may always import itself; a module without a row imports no other.
const ALLOWED: &[(&str, &[&str])] = &[
    ("main", &["client", "commands", "config", "server", "log"]),
    (
        "lib",
        &[
            "access",
            "commands",
            "config",
            "server",
            "net",
            "http",
            "s3",
            "store",
            "transfer",
            "value",
            "client",
            "lifecycle",
            "failpoint",
            "metrics",
            "log",
            "sandbox",
            "certificates",
            "file_error",
        ],
    ),
    (
        "server",
        &[
            "access",
            "config",
            "net",
            "http",
            "s3",
            "sandbox",
            "store",
            "lifecycle",
            "metrics",
        ],
    ),
    (
        "config",
        &[
            "access",
            "commands",
            "net",
            "http",
            "s3",
            "sandbox",
            "store",
            "server",
            "log",
            "client",
            "failpoint",
            "file_error",
        ],
    ),
    (
        "net",
        &[
            "access",
            "http",
            "lifecycle",
            "metrics",
            "log",
            "failpoint",
            "certificates",
        ],
    ),
    (
        "http",
        &["access", "s3", "store", "metrics", "log", "failpoint"],
    ),
    ("access", &["transfer", "value", "metrics", "file_error"]),
    (
        "commands",
        &["access", "http", "lifecycle", "store", "file_error"],
    ),
    (
        "store",
        &[
            "s3",
            "transfer",
            "value",
            "failpoint",
            "metrics",
            "file_error",
        ],
    ),
    ("s3", &["transfer", "value", "metrics", "client"]),
    ("transfer", &["value", "metrics"]),
    ("value", &[]),
    ("client", &["certificates"]),
    ("certificates", &["file_error"]),
    ("file_error", &[]),
    ("lifecycle", &[]),
    ("failpoint", &[]),
    ("metrics", &[]),
    ("log", &["metrics"]),
    ("sandbox", &[]),
];

/// Files that import nothing of this crate, not even from their own module.
const LEAVES: &[&str] = &[
    "failpoint.rs",
    "file_error.rs",
    "lifecycle.rs",
    "sandbox.rs",
    "value/key.rs",
    "value/error.rs",
    "http/values/range.rs",
];

#[test]
fn modules_import_only_the_modules_below_them() {
    let faults: Vec<String> = sources()
        .iter()
        .flat_map(|source| forbidden_edges(&source.name, &source.code))
        .collect();
    let is_right = faults.is_empty();
    assert!(
        is_right,
        "edges that are not on the list:\n{}",
        faults.join("\n")
    );
}

/// Modules whose files import each other one way only.
const WITHOUT_CIRCLES: &[&str] = &[
    "access", "config", "metrics", "net", "http", "s3", "store", "transfer", "value",
];

#[test]
fn no_module_has_a_circle_of_imports_inside() {
    let sources = sources();
    let files = sources.iter();
    let imports = Imports::new(files.map(|s| (s.name.as_str(), s.code.as_str())));
    let rooms = WITHOUT_CIRCLES.iter();
    let circles: Vec<String> = rooms.flat_map(|room| imports.circles(room)).collect();
    let is_right = circles.is_empty();
    assert!(
        is_right,
        "files that import each other in a circle:\n{}",
        circles.join("\n")
    );
}

#[test]
fn every_file_says_what_it_owns() {
    for source in sources() {
        let is_right = source.text.starts_with("//! ");
        assert!(is_right, "src/{} does not open with `//!`", source.name);
    }
}

#[test]
fn status_codes_are_in_two_files_and_io_errors_outside_http() {
    let with_statuses = ["http/response.rs", "http/refusal/table.rs"];
    for Source { name, code, .. } in sources() {
        let has_status = code.contains("StatusCode::") || code.contains("StatusCode as");
        assert!(
            with_statuses.contains(&&*name) || !has_status,
            "src/{name} makes a status code"
        );
        let is_right = !name.starts_with("http/") || !code.contains("io::Error");
        assert!(is_right, "src/{name} knows io::Error");
    }
}

#[test]
fn the_check_itself_finds_planted_faults() {
    let found = |name: &str, text: &str| forbidden_edges(name, &code_of(text)).len();
    assert_eq!(found("store/mod.rs", "use crate::http::body;"), 1);
    assert_eq!(
        found(
            "store/object.rs",
            "use crate::{metrics, net::stream::{A, B}, http};"
        ),
        2
    );
    assert_eq!(
        found("http/service.rs", "let x = crate::net::reactor::go();"),
        1
    );
    assert_eq!(found("store/mod.rs", "use super::net;"), 1);
    assert_eq!(
        found("store/deep/file.rs", "use super::super::super::http;"),
        1
    );
    assert_eq!(
        found("main.rs", "use data_server::{config::Args, store::Store};"),
        1
    );
    assert_eq!(found("lifecycle.rs", "use crate::metrics::Counter;"), 1);
    assert_eq!(found("value/key.rs", "use super::error::Error;"), 1);
    assert_eq!(found("http/service.rs", "use crate::Config;"), 1);

    assert_eq!(
        found(
            "net/reactor.rs",
            "use crate::http::Service; use super::stream::Stream;"
        ),
        0
    );
    assert_eq!(
        found(
            "store/mod.rs",
            "pub(crate) mod key; // see crate::http\n/// crate::net"
        ),
        0
    );
    assert_eq!(
        found(
            "store/mod.rs",
            "a();\n#[cfg(test)]\nmod tests {\n    use crate::http::X;\n}\n"
        ),
        0
    );
    assert_eq!(
        found(
            "store/mod.rs",
            "#[cfg(test)]\nmod tests {\n    fn f() {}\n}\nuse crate::http::X;\n"
        ),
        1
    );
}

/// One file of `src/`: its path below it, its text, and its code without comments and tests.
/// The framing guard takes them out of the heads of HTTP/1, so whoever reads one finds none.
#[test]
fn fields_that_are_taken_out_of_heads_are_read_nowhere() {
    let sources = sources();
    let guard = sources.iter().find(|s| s.name == "http/head/framing.rs");
    let guard = &guard.expect("the framing guard").code;
    let (_, after) = guard.split_once("fn is_unread").expect("the function");
    let (names, _) = after.split_once("\n}\n").expect("its end");
    let names = names.split("b\"").skip(1);
    let names: Vec<&str> = names.filter_map(|n| n.split('"').next()).collect();
    assert!(names.len() > 10, "{names:?}");
    // What is passed over there by its name is not read.
    let passed_over = ("http/head/mod.rs", ["user-agent", "cookie"]);
    // Where the log tells these, the guard keeps them.
    let told = ("http/exchange/request_log.rs", ["user-agent", "referer"]);
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for Source { name, code, .. } in &sources {
        let words: Vec<&str> = code.split(|c| !is_word(c)).collect();
        for field in &names {
            let constant = field.to_uppercase().replace('-', "_");
            let is_named = code.contains(&format!("\"{field}\"")) || words.contains(&&*constant);
            let is_guard = name == "http/head/framing.rs";
            let may_be = is_guard
                || !name.starts_with("http/")
                || [passed_over, told]
                    .iter()
                    .any(|(of, fields)| of == name && fields.contains(field));
            assert!(may_be || !is_named, "src/{name} names {field}");
        }
    }
}

struct Source {
    name: String,
    text: String,
    code: String,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&root, &mut files);
    let is_right = files.len() > 10;
    assert!(is_right, "only {} files in {}", files.len(), root.display());
    let read = |file: PathBuf| {
        let text = fs::read_to_string(&file).expect("a source file");
        let name = file.strip_prefix(&root).expect("below src");
        let name = name.to_str().expect("text").to_owned();
        Source {
            name,
            code: code_of(&text),
            text,
        }
    };
    files.into_iter().map(read).collect()
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a directory of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The text without comments and without modules under `#[cfg(test)]`, which end at a `}` indented as they begin.
fn code_of(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            let indent = &line[..line.len() - line.trim_start().len()];
            let opens = lines.next();
            let opens = opens.is_some_and(|item| item.trim_end().ends_with('{'));
            let end = format!("{indent}}}");
            if opens {
                lines.by_ref().find(|line| *line == end);
            }
            continue;
        }
        code.push_str(line.split_once("//").map_or(line, |(before, _)| before));
        code.push('\n');
    }
    code
}

/// The edges of this file that are not allowed, each as a line to read.
fn forbidden_edges(name: &str, code: &str) -> Vec<String> {
    let from = room(name);
    let mut allowed = ALLOWED.iter();
    let allowed = allowed.find(|(room, _)| *room == from);
    let allowed = allowed.map_or(&[][..], |(_, to)| to);
    let leaf = LEAVES.contains(&name);
    let may = |to: &str| {
        !leaf
            && (to == from
                || allowed.contains(&to)
                || matches!(from, "main" | "lib") && !is_room(to))
    };
    let own = if leaf {
        names_after(code, "super::")
    } else {
        vec![]
    };
    let named = targets(name, code).into_iter().chain(own);
    let all = named.filter(|to| !may(to));
    let all = all.map(|to| format!("src/{name}: {from} -> {to}"));
    all.collect()
}

fn room(name: &str) -> &str {
    name.split_once('/')
        .map_or_else(|| name.trim_end_matches(".rs"), |(room, _)| room)
}

fn is_room(name: &str) -> bool {
    ALLOWED.iter().any(|(room, _)| *room == name)
}

/// The modules of the crate's root that this file names: `crate::x`, `data_server::x`, or enough `super::`.
fn targets(name: &str, code: &str) -> Vec<String> {
    let below_root = name.matches('/').count() + usize::from(!name.ends_with("mod.rs"));
    let supers = "super::".repeat(below_root.max(1));
    let from_root = ["crate::", "data_server::", &supers];
    let all = from_root.iter();
    let all = all.flat_map(|prefix| names_after(code, prefix));
    all.filter(|to| to != "super" && to != "self").collect()
}

/// The first names after each `prefix`, with `{a::b, c}` taken apart.
fn names_after(code: &str, prefix: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        match rest.strip_prefix('{') {
            Some(group) => names.extend(split_group(group)),
            None => names.push(first_name(rest)),
        }
    }
    names
}

/// The first name of each part of `a, b::{c, d}, e}`, up to the brace that closes it.
fn split_group(group: &str) -> Vec<String> {
    let mut names = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.push(first_name(&group[start..at]));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn first_name(path: &str) -> String {
    let all = path.trim_start();
    let all = all.chars().take_while(|c| c.is_alphanumeric() || *c == '_');
    all.collect()
}
