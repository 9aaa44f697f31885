//! Whatever a test can say for why it was left out is listed in `tests/run`: no machine is the first to be told of a
//! reason that is not.

use std::os::unix::fs::symlink;

use proc_macro2::{TokenStream, TokenTree};

use super::files_of_rust;
use crate::support::prelude::*;

/// Reasons that are no text in the source, and what they can be: a file, the expression, an example. A program that is
/// named first and that is there is a reason, whatever it says.
const COMPUTED: &str = r#"
    src/store/directory/folders.rs ; & page ; sed: a function of the store that has this name
    tests/support/src/mount.rs ; & why ; sed: what a program says that is there
    tests/it/security/sandbox/mod.rs ; & ended . stderr ; data-server: --sandbox require: this kernel has no Landlock
    tests/it/docs/sessions.rs ; why ; ["rsync"] does not run here"#;

/// Files of what tests may need, whose errors are reasons.
const NEEDS: &str = "
    tests/support/src/mount.rs tests/support/src/running.rs tests/it/archives/mod.rs tests/systemd/container.rs tests/systemd/image.rs
    tests/systemd/package.rs tests/torture/disk.rs tests/torture/nbd.rs tests/torture/clocks.rs";

/// A program that is on the path of [`unlisted`].
const PROGRAM: &str = "sed";

#[test]
fn every_reason_to_leave_a_test_out_is_listed() {
    let mut said: BTreeMap<String, String> = BTreeMap::new();
    let mut unknown = Vec::new();
    for (name, words) in sources() {
        for (reason, text) in reasons(&words) {
            match reason.or_else(|| computed(&name, &text)) {
                Some(reason) => drop(said.insert(reason, name.clone())),
                None => unknown.push(format!("{name} ; {text}")),
            }
        }
        if NEEDS.split_whitespace().any(|file| file == name) {
            let errors = errors(&words).into_iter();
            said.extend(errors.map(|reason| (reason, name.clone())));
        }
    }
    assert!(unknown.is_empty(), "in which words? {unknown:#?}");
    assert!(said.len() > 40, "few were found: {said:#?}");
    let unlisted = unlisted(said.keys());
    assert_eq!(unlisted, [""; 0], "in {said:#?}");
}

#[test]
fn a_reason_that_is_not_listed_is_found() {
    let planted = [
        r#"f(left_out("what", "no bindfs"))"#,
        r#"only_where!(is(), "what", "a cat sat on it")"#,
        r#"fn f() { let why = "another"; let why = format!("{program} fell"); left_out(&what, &why); }"#,
    ];
    let found = planted.map(|source| {
        let found = reasons(&words_of(source));
        found[0].0.clone().expect("a reason")
    });
    let expected = ["no bindfs", "a cat sat on it", "sed fell"];
    assert_eq!(found, expected);
    assert_eq!(unlisted(found.iter()).len(), 3);
    let missing = "bindfs: No such file or directory (os error 2)".to_owned();
    assert_eq!(unlisted([&missing].into_iter()).len(), 1);
    let none = words_of("/// left_out(a, b)\nfn left_out(what: &str, why: &str) {}");
    assert_eq!(reasons(&none), []);
}

/// The sources of the tests, and those of the server, which have tests too: each with its words.
fn sources() -> Vec<(String, Vec<String>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = ["src", "tests"].map(|dir| files_of_rust(&root.join(dir)));
    let read = |file: PathBuf| {
        let name = file.strip_prefix(root).expect("below the root");
        let text = fs::read_to_string(&file).expect("a source file");
        (name.to_str().expect("text").to_owned(), words_of(&text))
    };
    // This file has planted ones, and the other is what says them.
    let here = |(name, _): &(String, _)| {
        !name.ends_with("architecture/reasons.rs") && name != "tests/support/src/report.rs"
    };
    files.into_iter().flatten().map(read).filter(here).collect()
}

/// The words of Rust, without comments.
fn words_of(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    add(text.parse().expect("the words of Rust"), &mut words);
    words
}

fn add(tokens: TokenStream, words: &mut Vec<String>) {
    for token in tokens {
        let TokenTree::Group(group) = token else {
            words.push(token.to_string());
            continue;
        };
        let [open, close] = match group.delimiter() {
            proc_macro2::Delimiter::Parenthesis => ["(", ")"],
            proc_macro2::Delimiter::Brace => ["{", "}"],
            _ => ["[", "]"],
        };
        words.push(open.to_owned());
        add(group.stream(), words);
        words.push(close.to_owned());
    }
}

/// The reasons that these words say: as text, if there is one, and as an expression.
fn reasons(words: &[String]) -> Vec<(Option<String>, String)> {
    let mut reasons = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let (open, argument) = match &**word {
            "left_out" => (at + 1, 1),
            "only_where" => (at + 2, 2),
            _ => continue,
        };
        let is_call = words.get(open).is_some_and(|word| word == "(");
        let is_declared = at > 0 && ["fn", "."].contains(&&*words[at - 1]);
        if !is_call || is_declared {
            continue;
        }
        let arguments = arguments(&words[open + 1..]);
        let reason = arguments[argument];
        let text = first_text(reason).or_else(|| {
            let name = reason.iter().rfind(|word| *word != "&")?;
            is_name(reason).then(|| bound(&words[..at], name)).flatten()
        });
        reasons.push((text, reason.join(" ")));
    }
    reasons
}

/// What is between these parentheses, which are open, by its commas.
fn arguments(words: &[String]) -> Vec<&[String]> {
    let (mut depth, mut begin, mut found) = (0, 0, Vec::new());
    for (at, word) in words.iter().enumerate() {
        match &**word {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth == 0 => {
                found.push(&words[begin..at]);
                return found;
            }
            ")" | "]" | "}" => depth -= 1,
            "," if depth == 0 => {
                found.push(&words[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    panic!("a call without an end: {words:?}");
}

fn is_name(words: &[String]) -> bool {
    let names = words.iter().filter(|word| *word != "&");
    names.count() == 1
}

/// The text that this name was last given.
fn bound(before: &[String], name: &str) -> Option<String> {
    let is_let = |at: &usize| matches!(&*before[*at], "let" | "const");
    let lets = (0..before.len()).rev().filter(is_let);
    let mut ends = lets.map(|at| {
        let end = before[at..].iter().position(|word| word == ";");
        &before[at..end.map_or(before.len(), |end| at + end)]
    });
    let of_name = |words: &&[String]| {
        let pattern = words.iter().take_while(|word| *word != "=");
        pattern.clone().count() < words.len() && pattern.into_iter().any(|word| word == name)
    };
    let last = ends.find(of_name)?;
    let texts = last.iter().rev().map(std::slice::from_ref);
    texts.into_iter().find_map(first_text)
}

/// The first text among these words, as it is said.
fn first_text(words: &[String]) -> Option<String> {
    let text = words.iter().find(|word| word.starts_with('"'))?;
    let mut said = String::new();
    for (at, part) in text.trim_matches('"').split('{').enumerate() {
        if at == 0 {
            said.push_str(part);
        } else {
            said.push_str(PROGRAM);
            said.push_str(part.split_once('}')?.1);
        }
    }
    // As `tests/run` counts them.
    let only = said.find(" only: ").map(|at| at + " only".len());
    said.truncate(only.unwrap_or(said.len()));
    Some(said)
}

/// What the errors of these words say.
fn errors(words: &[String]) -> Vec<String> {
    let makes = |at: &usize| matches!(&*words[*at], "Err" | "ok_or" | "ok_or_else" | "map_err");
    let calls = (0..words.len()).filter(makes);
    let calls = calls.filter(|at| words.get(at + 1).is_some_and(|word| word == "("));
    let said = calls.filter_map(|at| first_text(arguments(&words[at + 2..])[0]));
    said.collect()
}

fn computed(name: &str, text: &str) -> Option<String> {
    let mut rows = table(COMPUTED);
    let row = rows.find(|[file, expression, _]| *file == name && *expression == text);
    row.map(|[_, _, example]| example.to_owned())
}

/// Those of the reasons that `tests/run` does not list where none of the programs is there that tests look for.
fn unlisted<'a>(reasons: impl Iterator<Item = &'a String>) -> Vec<String> {
    let bare = TempDir::new().expect("a directory");
    for program in ["bash", "cat", "dirname", "nproc", PROGRAM] {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).map(|dir| dir.join(program));
        let found = found.into_iter().find(|path| path.is_file());
        symlink(found.expect(program), bare.path().join(program)).expect("a link");
    }
    let lines: Vec<String> = reasons
        .map(|reason| format!("1 left out: {reason}\n"))
        .collect();
    let mut command = Command::new(bare.path().join("bash"));
    command.args(["tests/run", "unlisted"]);
    command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("PATH", bare.path());
    command.env_remove("DATA_SERVER_PROGRAMS");
    let ran = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut ran = ran.spawn().expect("bash");
    let mut input = ran.stdin.take().expect("its input");
    input.write_all(lines.concat().as_bytes()).expect("lines");
    drop(input);
    let ended = ran.wait_with_output().expect("its end");
    assert!(ended.status.success());
    let said = String::from_utf8(ended.stdout).expect("text");
    said.lines().map(str::to_owned).collect()
}
