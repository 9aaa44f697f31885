//! Checks the documents: their sessions run and print what they show, their links have targets, and their tables are
//! complete.

mod configuration;
mod guarantees;
mod sessions;

use crate::architecture::files_of_rust;
use crate::support::prelude::*;
use crate::support::s3::VersityGw;
use crate::support::session::{missing_tools, run};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Every document, by its path in the repository.
fn pages() -> Vec<String> {
    let pages = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"];
    let mut pages: Vec<String> = pages.map(String::from).into();
    for entry in fs::read_dir(path("docs")).expect("docs") {
        let name = entry.expect("an entry").file_name();
        let name = Path::new(&name);
        if name.extension().is_some_and(|extension| extension == "md") {
            pages.push(format!("docs/{}", name.display()));
        }
    }
    assert!(pages.len() >= 14, "{pages:?}");
    pages
}

/// A test for each page that has sessions, and the list of these pages.
macro_rules! sessions {
    ($($test:ident: $page:literal,)*) => {
        const WITH_SESSIONS: &[&str] = &[$($page),*];
        $(#[test] fn $test() { play($page); })*
    };
}

sessions! {
    the_session_of_the_readme_runs: "README.md",
    the_sessions_of_http_run: "docs/http.md",
    the_sessions_of_folders_run: "docs/folders.md",
    the_sessions_of_uploads_run: "docs/uploads.md",
    the_session_of_archives_runs: "docs/archives.md",
    the_sessions_of_caching_run: "docs/caching.md",
    the_sessions_of_watch_run: "docs/watch.md",
    the_sessions_of_browsers_run: "docs/browsers.md",
    the_sessions_of_observability_run: "docs/observability.md",
    the_sessions_of_operations_run: "docs/operations.md",
    the_sessions_of_s3_run: "docs/s3.md",
    the_sessions_of_access_run: "docs/access.md",
    the_sessions_of_tls_run: "docs/tls.md",
    the_session_of_webdav_runs: "docs/webdav.md",
    the_session_of_the_door_of_s3_runs: "docs/s3-door.md",
    the_sessions_of_sites_run: "docs/sites.md",
    the_session_of_http2_runs: "docs/http2.md",
}

fn play(page: &str) {
    let missing = missing_tools();
    let why = format!("{missing:?} does not run here");
    only_where!(missing.is_empty(), &format!("the sessions of {page}"), &why);
    if page == OF_STORES && (VersityGw::required().is_none() || !is_on_path("nginx")) {
        return;
    }
    match run(&text(page)) {
        Ok(held) => assert!(held > 0, "{page} shows no output"),
        Err(why) => panic!("{page}, {why}"),
    }
}

/// Its sessions need a store, and nginx.
const OF_STORES: &str = "docs/s3.md";

/// The lines of the README are some of those that the page runs.
#[test]
fn the_readme_shows_lines_of_the_example_with_a_store() {
    let (page, readme) = (text(OF_STORES), text("README.md"));
    let mut sections = readme.split("## ");
    let section = sections.find(|section| section.starts_with("More than one machine"));
    let lines = section.expect("a section").lines();
    let shown = lines.filter(|l| l.starts_with("data-server ") || l.starts_with("curl "));
    let shown: Vec<&str> = shown.collect();
    assert!(shown.len() > 3, "{shown:?}");
    for line in shown {
        let is_run = page.lines().any(|run| run.starts_with(line));
        assert!(is_run, "{OF_STORES} does not run {line}");
    }
}

/// Its sections are played by `tests/clients`, each with the program that it is about.
const OF_CLIENTS: &str = "docs/clients.md";

#[test]
fn every_page_with_a_session_is_played() {
    for page in pages().into_iter().filter(|page| page != OF_CLIENTS) {
        let has_session = text(&page).lines().any(|line| line.trim() == "```sh");
        let expected = WITH_SESSIONS.contains(&page.as_str());
        assert_eq!(has_session, expected, "{page}");
    }
}

#[test]
fn the_readme_is_short() {
    let readme = text("README.md");
    assert!(readme.lines().count() <= 200, "lines");
    assert!(readme.len() <= 14 << 10, "{} bytes", readme.len());
}

/// The text outside fenced blocks.
fn prose(page: &str) -> String {
    let mut is_code = false;
    let lines = page.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The text between each `open` and the next `close`.
fn between<'a>(text: &'a str, open: &'a str, close: char) -> impl Iterator<Item = &'a str> {
    let parts = text.split(open).skip(1);
    parts.filter_map(move |part| part.split_once(close).map(|(inner, _)| inner))
}

/// The anchors that GitHub makes of the headings.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let kept = heading.trim_start_matches('#').trim().to_lowercase();
        let is_kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
        let kept = kept.chars().filter(is_kept);
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut followed = 0;
    for page in pages() {
        let prose = prose(&text(&page));
        for link in between(&prose, "](", ')').filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let place = path(&page);
            let target = match file {
                "" => place,
                _ => place.parent().expect("a directory").join(file),
            };
            assert!(target.exists(), "{page}: {link} leads nowhere");
            if !anchor.is_empty() {
                let there = anchors(&prose_of(&target));
                let is_right = there.contains(anchor);
                assert!(is_right, "{page}: {link}: no such heading: {there:?}");
            }
            followed += 1;
        }
    }
    assert!(followed > 30, "{followed}");
}

fn prose_of(file: &Path) -> String {
    prose(&fs::read_to_string(file).expect("a page"))
}

/// Files and directories that a page names between backticks.
#[test]
fn every_file_that_is_named_exists() {
    let mut looked_at = 0;
    for page in pages().into_iter().filter(|page| page != "CHANGELOG.md") {
        let prose = prose(&text(&page));
        for code in prose.split('`').skip(1).step_by(2) {
            let name = code.split([' ', ':']).next().expect("a word");
            let first = name.split('/').next().unwrap_or_default();
            if ["src", "tests", "benches", "docs"].contains(&first) {
                assert!(path(name).exists(), "{page}: there is no {name}");
                looked_at += 1;
            }
        }
    }
    assert!(looked_at > 40, "{looked_at}");
}

/// The words between backticks in the first column of the page's tables.
fn first_column(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows.filter_map(|row| Some(row.split_once(" |")?.0));
    let words = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    words.map(str::to_owned).collect()
}

#[test]
fn the_table_of_metrics_names_what_is_scraped() {
    let places = "--listen 127.0.0.1:0 --listen https://127.0.0.1:0 --tls-self-signed";
    let options = format!("{places} --durability disk --access-log");
    let bound = ["--bound", "max-size = 4096, max-keys = 9"];
    let server = Launch::new(&[&words(&options)[..], &bound].concat())
        .listen("")
        .in_the_clear()
        .start();
    // Only a bound that has evicted a value tells how old it was.
    server.store("evicted", "value");
    server.store("k", "value");
    assert_eq!(server.get("k").status, 200);
    let scraped = server.get("-/metrics").text();
    let families = scraped.lines();
    let families = families.filter_map(|line| line.strip_prefix("# TYPE "));
    let there: BTreeSet<&str> = families.filter_map(|line| line.split(' ').next()).collect();
    assert!(there.len() > 20, "{there:?}");

    let page = text("docs/observability.md");
    let (_, section) = page.split_once("## Metrics").expect("a section");
    let column = first_column(section.split("\n## ").next().expect("a section"));
    let told = there.iter().filter(|name| {
        let name = name.strip_prefix("data_server_").unwrap_or(name);
        column.contains(name)
    });
    assert_eq!(told.count(), there.len(), "{column:?} of {there:?}");
    assert_eq!(column.len(), there.len(), "{column:?} and {there:?}");
}

/// The pages name all metrics that the source declares, those of a store and of rights among them, and no other.
#[test]
fn the_pages_name_every_declared_metric() {
    let source = [
        sources_below(&path("src/metrics")),
        text("src/http/admin/metrics.rs"),
    ]
    .concat();
    let declared = between(&source, "\"data_server_", '"').map(str::to_owned);
    let of_process = between(&source, "\"process_", '"').map(|name| format!("process_{name}"));
    let declared: BTreeSet<String> = declared.chain(of_process).collect();
    let mut named = BTreeSet::new();
    for page in ["docs/observability.md", "docs/access.md", "docs/s3.md"] {
        let text = text(page);
        let (_, section) = text.split_once("\n## Metrics\n").expect("a section");
        let section = section.split("\n## ").next().expect("its text");
        let rows = section.lines().filter_map(|line| {
            let (head, _) = line.strip_prefix("- ")?.split_once(": ")?;
            Some(format!("| {head} |"))
        });
        let rows = rows.collect::<Vec<_>>().join("\n");
        let rows = if rows.is_empty() { section } else { &rows };
        named.extend(first_column(rows));
    }
    assert!(declared.len() > 60, "{declared:?}");
    let differ: Vec<_> = declared.symmetric_difference(&named).collect();
    assert!(differ.is_empty(), "on one side only: {differ:?}");
}

#[test]
fn the_table_of_errors_names_what_the_source_answers() {
    let page = text("docs/http.md");
    let (_, section) = page.split_once("## Errors").expect("a section");
    let names = first_column(section);
    assert!(names.len() > 25, "{names:?}");
    // Rows of one line or of several.
    let source = sources_below(&path("src/http"));
    let source = source.split_whitespace().collect::<Vec<_>>().join(" ");
    for name in &names {
        let quoted = format!("\"{name}\"");
        assert!(source.contains(&quoted), "no answer is {name}");
    }
    let answered = problems(&source);
    assert!(answered.len() > 25, "{answered:?}");
    let untold: Vec<_> = answered.difference(&names).collect();
    assert!(untold.is_empty(), "not in the page: {untold:?}");
}

/// The names of problems, which follow their statuses: `S::NOT_FOUND, "no-such-path"`.
fn problems(source: &str) -> BTreeSet<String> {
    let is_name = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
    let follows_status = |before: &str| {
        let word = before.strip_suffix(", ");
        let word = word.and_then(|before| before.rsplit("::").next());
        word.is_some_and(|word| {
            word.len() > 3 && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
        })
    };
    let quotes: Vec<usize> = source.match_indices('"').map(|(at, _)| at).collect();
    let pairs = quotes.windows(2);
    let names = pairs.filter(|pair| follows_status(&source[..pair[0]]));
    let names = names.map(|pair| &source[pair[0] + 1..pair[1]]);
    let all = names
        .filter(|name| !name.is_empty() && is_name(name))
        .map(str::to_owned);
    all.collect()
}

/// The text of all files of Rust below a directory.
fn sources_below(dir: &Path) -> String {
    let files = files_of_rust(dir).into_iter();
    let texts = files.map(|file| fs::read_to_string(file).expect("a source file"));
    texts.collect()
}

/// What people copy from the page has nothing that its own check doubts.
#[test]
fn the_access_file_of_build_caches_has_no_warning() {
    let page = text("docs/caching.md");
    let (_, rules) = page.split_once("```toml\n[[subject]]\n").expect("the file");
    let (rules, _) = rules.split_once("```").expect("its end");
    let digests = rules.split("sha256:...");
    let rules = digests
        .enumerate()
        .fold(String::new(), |text, (at, part)| match at {
            0 => text + part,
            at => format!("{text}sha256:{}{part}", at.to_string().repeat(64)),
        });
    let dir = DataDir::temporary();
    let file = dir.write_private("access.toml", &format!("[[subject]]\n{rules}"));
    let checked = Launch::new(&["access", "check", &file]).bare().run();
    assert_eq!(checked.printed(), format!("{file}: ok, 5 rules"));
}
