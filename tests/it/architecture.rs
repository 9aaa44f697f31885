//! Checks the architecture: modules import each other one way only. Reads the sources and fails on an import that is
//! not on the list, on a circle of imports inside a module, on a file without its `//!`, and on status codes and I/O
//! errors in the wrong module.

mod imports;
mod profile;
mod reasons;

use imports::Imports;
use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

use crate::support::prelude::*;

/// Which modules a module may import, a line each. It may always import itself; a module without a line imports no
/// other.
const ALLOWED: &str = "
    main: client commands config server log
    lib: access commands config server net http s3 sigv4 store transfer value client lifecycle failpoint metrics log sandbox certificates file_error
    server: access config net http s3 sandbox store lifecycle metrics
    config: access commands net http s3 sandbox store server log client failpoint file_error
    net: access http lifecycle metrics log failpoint certificates
    http: access s3 store sigv4 metrics log failpoint
    access: sigv4 transfer value metrics file_error
    commands: access http lifecycle store transfer file_error
    store: s3 transfer value failpoint metrics file_error
    s3: sigv4 transfer value metrics client
    transfer: value metrics
    value:
    sigv4:
    client: certificates
    certificates: file_error
    file_error:
    lifecycle:
    failpoint:
    metrics:
    log: metrics
    sandbox:";

/// The modules of the crate, each with those that it may import.
fn rooms() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    let lines = ALLOWED.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(room, allowed)| (room.trim(), words(allowed)))
}

/// Files that import nothing of this crate, not even from their own module.
const LEAVES: &str = "failpoint.rs file_error.rs lifecycle.rs sandbox.rs value/key.rs value/error.rs http/head/range.rs";

#[test]
fn modules_import_only_the_modules_below_them() {
    let sources = sources();
    let edges = sources
        .iter()
        .flat_map(|s| forbidden_edges(&s.name, &s.code));
    let edges: Vec<String> = edges.collect();
    assert!(edges.is_empty(), "not on the list: {edges:#?}");
}

/// Modules whose files import each other one way only.
const WITHOUT_CIRCLES: &[&str] = &[
    "access", "config", "metrics", "net", "http", "s3", "sigv4", "store", "transfer", "value",
];

#[test]
fn no_module_has_a_circle_of_imports_inside() {
    let imports = Imports::new(sources().iter().map(|s| (s.name.as_str(), s.code.as_str())));
    let rooms = WITHOUT_CIRCLES.iter();
    let circles: Vec<String> = rooms.flat_map(|room| imports.circles(room)).collect();
    assert!(circles.is_empty(), "circles of imports: {circles:#?}");
}

#[test]
fn no_room_needs_one_that_needs_it() {
    let imports = Imports::new(sources().iter().map(|s| (s.name.as_str(), s.code.as_str())));
    let circles = imports.of_rooms().circles("");
    assert!(circles.is_empty(), "circles of rooms: {circles:#?}");
}

/// The features of the plain door, each with the files outside of its folder that import it. `parse` has the table of
/// the door. A file may go, and none may come.
const FEATURES: &str = "
    archives: service::parse
    bazel: service::parse
    dav: service::parse
    s3_door: service::parse
    folders: dav dav::changes dav::relocate s3_door::buckets s3_door::removal s3_door::stores service::parse
    forms: service::parse
    restic: service::parse
    share: service::parse service::parse::explained
    uploads: service::parse service::respond
    watch: service service::execute service::operation service::parse net::http1
    admin: service service::parse server
    listing: archives changes dav::find s3_door::listing service::execute service::parse ui ui::frame ui::perform
    ui: forms::perform service::parse";

#[test]
fn a_feature_is_a_folder_and_a_row_of_its_door() {
    let imports = Imports::new(sources().iter().map(|s| (s.name.as_str(), s.code.as_str())));
    let lines = FEATURES.lines().skip(1).map(str::trim);
    let found = lines.clone().map(|line| {
        let (feature, _) = line.split_once(':').expect("a feature");
        let importers = imports.importers(&format!("http::{feature}"));
        format!("{feature}: {}", importers.join(" ").replace("http::", ""))
    });
    let found: Vec<String> = found.collect();
    assert_eq!(
        found,
        lines.collect::<Vec<_>>(),
        "files that import a feature"
    );
}

/// The doors beside the plain one, each with the files outside of its folder that name it: its variant and its row, and
/// the configuration of a place to listen.
const DOORS: &str = "
    dav ; config/network.rs http/head/client.rs http/mod.rs http/service/parse.rs
    s3_door ; http/mod.rs http/service/parse.rs";

#[test]
fn a_door_goes_with_its_folder_and_its_rows() {
    for [door, rows] in table(DOORS) {
        let is_named = |text: &str| {
            let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            words.any(|word| word.eq_ignore_ascii_case(door))
        };
        let own = format!("http/{door}/");
        let sources = sources();
        let found = sources.iter().filter(|s| !s.name.starts_with(&own));
        let mut found: Vec<&str> = found
            .filter(|s| is_named(&s.text))
            .map(|s| &*s.name)
            .collect();
        found.sort_unstable();
        assert_eq!(found, words(rows), "files that name the door {door}");
    }
}

#[test]
fn every_file_says_what_it_owns() {
    for source in sources() {
        let is_right = source.text.starts_with("//! ");
        assert!(is_right, "src/{} does not open with `//!`", source.name);
    }
}

#[test]
fn comments_end_at_120_columns() {
    for folder in ["src", "tests", "benches"] {
        for file in files_of_rust(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)) {
            let text = fs::read_to_string(&file).expect("a source file");
            let mut lines = text.lines();
            let is_long =
                |line: &&str| line.trim_start().starts_with("//") && line.chars().count() > 120;
            assert_eq!(lines.find(is_long), None, "{}", file.display());
        }
    }
}

#[test]
fn status_codes_are_in_kinds_and_replies_and_io_errors_outside_http() {
    let with_statuses = ["http/service/respond.rs", "http/head/encode.rs"];
    for Source { name, code, .. } in sources() {
        let mut code = code.clone();
        for maker in ["Kind::new", "empty", "plain", "unstored"] {
            code = code.replace(&format!("{maker} ( StatusCode::"), "");
        }
        let has_status = code.contains("StatusCode::") || code.contains("StatusCode as ");
        let is_right = with_statuses.contains(&&*name) || !has_status;
        assert!(is_right, "src/{name} makes a status code");
        let is_right = !name.starts_with("http/") || !code.contains("io::Error");
        assert!(is_right, "src/{name} knows io::Error");
    }
}

/// Files, how many imports of each are forbidden, and their code, with `|` for each line end.
const PLANTED: &str = "
    store/mod.rs ; 1 ; use crate::http::body;
    store/object.rs ; 2 ; use crate::{metrics, net::stream::{A, B}, http};
    http/service.rs ; 1 ; let x = crate::net::reactor::go();
    store/mod.rs ; 1 ; use super::net;
    store/deep/file.rs ; 1 ; use super::super::super::http;
    main.rs ; 1 ; use data_server::{config::Args, store::Store};
    lifecycle.rs ; 1 ; use crate::metrics::Counter;
    value/key.rs ; 1 ; use super::error::Error;
    http/service.rs ; 1 ; use crate::Config;
    net/reactor.rs ; 0 ; use crate::http::Service;|use super::stream::Stream;
    store/mod.rs ; 0 ; pub(crate) mod key; // see crate::http|/// crate::net
    store/mod.rs ; 0 ; a();|#[cfg(test)]|mod tests {|    use crate::http::X;|}
    store/mod.rs ; 1 ; #[cfg(test)]|mod tests {|    fn f() {}|}|use crate::http::X;";

#[test]
fn the_check_itself_finds_planted_faults() {
    for [name, count, code] in table(PLANTED) {
        let found = forbidden_edges(name, &code_of(&code.replace('|', "\n")));
        assert_eq!(found.len().to_string(), count, "{name}: {code}: {found:?}");
    }
}

/// The framing guard takes them out of the heads of HTTP/1, so whoever reads one finds none.
#[test]
fn fields_that_are_taken_out_of_heads_are_read_nowhere() {
    let sources = sources();
    let guard = sources.iter().find(|s| s.name == "http/head/unread.rs");
    let guard = &guard.expect("the framing guard").text;
    let names = guard.split("b\"").skip(1);
    let names: Vec<&str> = names.filter_map(|n| n.split('"').next()).collect();
    assert!(names.len() > 10, "{names:?}");
    let told = ["user-agent", "referer", "traceparent"];
    let exceptions = [
        // What is passed over there by its name is not read.
        ("http/head/mod.rs", &["user-agent", "cookie"][..]),
        // Where these are read, the guard keeps them.
        ("http/exchange/request_log.rs", &told),
        (
            "http/head/client.rs",
            &[
                "forwarded",
                "x-forwarded-for",
                "x-forwarded-host",
                "x-forwarded-proto",
            ],
        ),
    ];
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for Source { name, code, .. } in &sources {
        let words: Vec<&str> = code.split(|c| !is_word(c)).collect();
        for field in &names {
            let constant = field.to_uppercase().replace('-', "_");
            let is_named = code.contains(&format!("\"{field}\"")) || words.contains(&&*constant);
            let is_guard = name == "http/head/unread.rs";
            let may_be = is_guard
                || !name.starts_with("http/")
                || exceptions
                    .iter()
                    .any(|(of, fields)| of == name && fields.contains(field));
            assert!(may_be || !is_named, "src/{name} names {field}");
        }
    }
}

/// One file of `src/`: its path below it, its text, and its code.
struct Source {
    name: String,
    text: String,
    code: String,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = files_of_rust(&root);
    assert!(files.len() > 10, "{files:?}");
    let read = |file: PathBuf| {
        let text = fs::read_to_string(&file).expect("a source file");
        let name = file.strip_prefix(&root).expect("below src");
        let name = name.to_str().expect("text").to_owned();
        let code = code_of(&text);
        Source { name, text, code }
    };
    files.into_iter().map(read).collect()
}

/// The files of Rust below a directory.
pub(crate) fn files_of_rust(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let below = paths.flat_map(|path| match path.extension() {
        _ if path.is_dir() => files_of_rust(&path),
        Some(extension) if extension == "rs" => vec![path],
        _ => Vec::new(),
    });
    below.collect()
}

/// The words of the code, one space between any two, a path being one word. Comments, and what is under `#[cfg(test)]`,
/// are left out.
fn code_of(text: &str) -> String {
    let mut words = Vec::new();
    add(text.parse().expect("the words of Rust"), &mut words);
    words.join(" ").replace(" :: ", "::")
}

fn add(tokens: TokenStream, words: &mut Vec<String>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                let attribute = tokens.find(|next| matches!(next, TokenTree::Group(_)));
                let attribute = attribute.expect("an attribute").to_string();
                let of: String = attribute.split_whitespace().collect();
                if of == "[cfg(test)]" {
                    tokens.find(|next| next.to_string() == ";" || is_block(next));
                } else if !of.starts_with("[doc=") {
                    words.push(attribute);
                }
            }
            TokenTree::Punct(mark) if mark.spacing() == Spacing::Joint && mark.as_char() == ':' => {
                tokens.next();
                words.push("::".to_owned());
            }
            TokenTree::Group(group) => {
                let (begin, end) = match group.delimiter() {
                    Delimiter::Brace => ("{", "}"),
                    _ => ("(", ")"),
                };
                words.push(begin.to_owned());
                add(group.stream(), words);
                words.push(end.to_owned());
            }
            TokenTree::Literal(text) => words.push(text.to_string().split_whitespace().collect()),
            other => words.push(other.to_string()),
        }
    }
}

fn is_block(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

/// The edges of this file that are not allowed, each as a line to read.
fn forbidden_edges(name: &str, code: &str) -> Vec<String> {
    let from = name.split(['/', '.']).next().expect("a name");
    let allowed = rooms().find(|(room, _)| *room == from);
    let allowed = allowed.map_or(vec![], |(_, to)| to);
    let is_leaf = words(LEAVES).contains(&name);
    let may = |to: &str| {
        let is_outside = || matches!(from, "main" | "lib") && rooms().all(|(room, _)| room != to);
        !is_leaf && (to == from || allowed.contains(&to) || is_outside())
    };
    let below_root = name.matches('/').count() + usize::from(!name.ends_with("mod.rs"));
    let target = |path: Vec<String>| {
        let supers = path.iter().take_while(|part| *part == "super").count();
        let is_from_root =
            matches!(&*path[0], "crate" | "data_server") || supers == below_root.max(1);
        let is_own = is_leaf && supers > 0;
        (is_from_root || is_own).then(|| path.into_iter().nth(supers.max(1)))?
    };
    let named = imports::named(code).into_iter().filter_map(target);
    let named: BTreeSet<String> = named.collect();
    let edges = named.iter().filter(|to| !may(to));
    let told = edges.map(|to| format!("src/{name}: {from} -> {to}"));
    told.collect()
}
