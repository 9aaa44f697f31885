//! docs/clients.md by its sections.

use std::fs;
use std::path::Path;

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
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
    for line in read("docs/clients.md").lines() {
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
    let page = read("docs/clients.md");
    let preamble = sessions(&section(""));
    assert!(preamble > 0, "a server before the first section");
    let names = page.lines().filter_map(heading);
    let names = names.filter(|name| sessions(&section(name)) > preamble);
    names.map(str::to_owned).collect()
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
    let texts = sources.map(|path| fs::read_to_string(path).expect("a module"));
    texts.collect()
}
