//! docs/clients.md by its sections.

use std::fs;
use std::path::Path;

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn page() -> String {
    read("docs/clients.md")
}

/// The name of the section that begins with this line.
fn heading(line: &str) -> Option<&str> {
    line.strip_prefix("## ")
}

/// The page with the lines of all sections but this one left empty, so that its lines keep their numbers. What stands
/// before the first section stays: it starts the server.
pub(crate) fn section(name: &str) -> String {
    let mut section = None;
    let mut text = String::new();
    for line in page().lines() {
        section = heading(line).map(str::to_owned).or(section);
        if section.as_deref().is_none_or(|section| section == name) {
            text += line;
        }
        text.push('\n');
    }
    text
}

/// The sections that have sessions.
pub(crate) fn sections_with_lines() -> Vec<String> {
    let page = page();
    let names = page.lines().filter_map(heading);
    let before = has_lines(&section(""));
    assert!(before, "the page starts a server before its first section");
    let preamble = sessions(&section(""));
    names
        .filter(|name| sessions(&section(name)) > preamble)
        .map(str::to_owned)
        .collect()
}

fn has_lines(text: &str) -> bool {
    sessions(text) > 0
}

fn sessions(text: &str) -> usize {
    text.lines().filter(|line| line.trim() == "```sh").count()
}

/// The source of all modules.
pub(crate) fn sources() -> String {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let entries = fs::read_dir(dir).expect("the modules");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let sources = paths.filter(|path| path.extension().is_some_and(|it| it == "rs"));
    sources
        .map(|path| fs::read_to_string(path).expect("a module"))
        .collect()
}
