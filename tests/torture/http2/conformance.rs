//! h2spec, which sends what RFC 9113 and RFC 7541 allow and forbid, and looks at the answers.
//!
//! `.ci/run setup` installs it to `target/tools`. Without it the test says LEFT OUT, or fails where
//! `DATA_SERVER_H2SPEC` is `required`. It asks for a value that is longer than the first window of a client, so a
//! stream is open for as long as a case needs it; what it sends by POST is read to its end behind the early answer,
//! 405.

use std::env;

use super::{sealed_server, server};
use crate::prelude::*;

/// h2spec 2.2.1 has so many cases; later ones have more.
const CASES: usize = 146;

/// In the clear the first bytes decide between HTTP/1 and HTTP/2, so a preface that is none is a request of HTTP/1, and
/// is answered 400 as such. The case wants no answer.
const NO_PREFACE: &str = "Sends invalid connection preface";

fn program() -> Option<PathBuf> {
    let program = tool("h2spec");
    if program.is_none() {
        let form = env::var_os("DATA_SERVER_H2SPEC");
        let is_required = form.is_some_and(|form| form == "required");
        assert!(!is_required, "there is no h2spec, and it is required");
        let why = "there is no h2spec: .ci/run setup installs it, where there is Go";
        left_out("conformance of HTTP/2", why);
    }
    program
}

/// How many cases there were, and those that failed.
fn run(program: &Path, server: &TestServer, options: &[&str]) -> (usize, Vec<String>) {
    let port = server.addr.port().to_string();
    let mut h2spec = Command::new(program);
    h2spec.args(words("--strict --timeout 10 --path /large --port"));
    h2spec.arg(port).args(options);
    let output = h2spec.output().expect("h2spec runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let cases = text.lines().find_map(|line| {
        let (cases, rest) = line.split_once(" tests, ")?;
        rest.contains(" passed, ").then(|| cases.parse().ok())?
    });
    let list = text.split("Failures:").nth(1).unwrap_or_default();
    // A case that fails is a line with a cross, its number and what it does.
    let failed = list.lines().filter_map(|line| {
        let (_, case) = line.split_once('×')?;
        Some(case.split_once(": ")?.1.trim().to_owned())
    });
    let cases = cases.unwrap_or_else(|| panic!("no count of cases in {text}"));
    (cases, failed.collect())
}

/// Runs it some times, for a case that depends on the moment would fail in one of them.
fn conforms(name: &str, server: &TestServer, options: &[&str], expected: &[&str]) {
    let program = needed!(program());
    for _ in 0..scaled(2, 20) {
        let (cases, failed) = run(&program, server, options);
        assert!(cases >= CASES, "{cases} cases");
        assert_eq!(failed, expected, "{name}");
        let passed = format!("{} of {cases} cases passed", cases - failed.len());
        counted!("http2: h2spec --strict, {name}: {passed}");
    }
}

#[test]
fn each_case_of_h2spec_passes_over_tls() {
    let (_authority, server) = sealed_server(&[]);
    conforms("TLS", &server, &["--tls", "--insecure"], &[]);
}

#[test]
fn each_case_of_h2spec_but_one_passes_in_the_clear() {
    conforms("in the clear", &server(&[]), &[], &[NO_PREFACE]);
}
