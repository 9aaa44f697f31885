//! docs/clients.md by its sections, and the lines of docs/caching.md for build caches.

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

/// The programs of docs/caching.md, each with its lines.
fn lines_of_caches() -> Vec<(String, String)> {
    let page = read("docs/caching.md");
    let (_, section) = page.split_once("\n## Build caches\n").expect("a section");
    let mut blocks = section.split("```");
    let block = blocks
        .nth(1)
        .and_then(|block| block.strip_prefix("console\n"));
    let programs = block.expect("a block of lines").split("# ").skip(1);
    let both = programs.map(|part| part.split_once('\n').expect("lines"));
    let name = |heading: &str| heading.split(',').next().unwrap_or_default().to_owned();
    both.map(|(heading, lines)| (name(heading), lines.to_owned()))
        .collect()
}

/// The names of the programs of docs/caching.md.
pub(crate) fn build_caches() -> Vec<String> {
    lines_of_caches()
        .into_iter()
        .map(|(name, _)| name)
        .collect()
}

/// The lines of docs/caching.md for this program.
#[track_caller]
pub(crate) fn cache_lines(name: &str) -> String {
    let mut all = lines_of_caches().into_iter();
    let found = all.find(|(program, _)| program == name);
    found
        .expect("a program of the page")
        .1
        .trim_end()
        .to_owned()
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
