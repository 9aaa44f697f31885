//! The options of bounds: in the help and the manual, in a file with the lines of its mistakes, and where they cannot
//! be had.

use super::{BLOCK, place_old};
use crate::support::prelude::*;

#[test]
fn the_help_and_the_manual_tell_of_bounds() {
    for page in [["--help"], ["man"]] {
        let ended = Launch::new(&page).bare().run();
        let text = ended.printed().replace("\\-", "-").replace('\n', " ");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in
            "--max-size|those used longest ago make room for new ones|--bound|[[bound]]|max-keys|\
            max-age|min-age|{name}/|\"refuse\"|507|--evict-existing"
                .split('|')
        {
            assert!(text.contains(part), "{page:?} lacks {part}");
        }
        let is_right = !text.contains("BoundOptions");
        assert!(is_right, "{page:?}: a heading for people");
    }
}

const MISTAKES: &str = "
[[bound]]|max-size = 'many' ; 1 ; max-size: give a number of bytes
[[bound]]|max-size = 1||[[bound]]|prefix = 'a/' ; 4 ; it bounds nothing: give max-size, max-keys or max-age
threads = 1|[[bound]]|max-keys = 1|ful = 'evict' ; 2 ; unknown field `ful`
[[bound]]|max-keys = 1|full = 'drop' ; 1 ; unknown variant `drop`
[[bound]]|max-keys = 1|of = 'write' ; 1 ; of: there is no max-age
[[bound]]|max-age = 'soon' ; 1 ; max-age: give a time such as 30s, 12h or 7days
[[bound]]|prefix = '{name}x'|max-keys = 1 ; 1 ; prefix: {name} stands once, for a whole segment
[[bound]]|max-keys = [1] ; 1 ; bound
[[bounds]]|max-keys = 1 ; 1 ; there are no sections such as [bounds]
[bound]|max-keys = -1 ; 1 ; invalid value
";

#[test]
fn a_mistake_in_a_bound_of_a_file_is_told_with_its_line() {
    let dir = DataDir::temporary();
    for [text, line, why] in table(MISTAKES) {
        let file = dir.write_private("bounds.toml", &text.replace('|', "\n"));
        let ended = Launch::new(&["config", "check", &file]).bare().run();
        ended.says(2, why);
        let place = format!("data-server: {file}:{line}: ");
        assert!(ended.stderr.starts_with(&place), "{text}: {}", ended.stderr);
    }
}

#[test]
fn bounds_of_a_file_hold_each() {
    directory_only!("bounds");
    let dir = DataDir::in_memory();
    let text = "[[bound]]\nprefix = 'ä b/'\nmax-keys = 1\nfull = 'refuse'\n\
                [[bound]]\nprefix = 'b/'\nmax-size = 8192\nmin-age = '1m'\n";
    let file = dir.write_private("bounds.toml", text);
    let server = Launch::new(&["--config", &file]).on(&dir).start();
    server.store("%C3%A4%20b/1", "");
    assert_eq!(server.put("%C3%A4%20b/2", "").status, 507);
    super::store_all(&server, "b/1 b/2 b/3");
    dir.assert_holds(&["b/2", "b/3", "ä b/1"]);
}

#[test]
fn what_may_evict_without_a_bound_is_a_mistake() {
    let dir = DataDir::temporary();
    let file = dir.write_private("bounds.toml", "threads = 1\nevict-existing = true\n");
    let path = text(dir.path());
    for args in [&["--evict-existing", path][..], &["config", "check", &file]] {
        let ended = Launch::new(args).bare().run();
        ended.says(
            2,
            "--evict-existing: there is no bound that could evict; give --max-size or --bound",
        );
    }
    let with = "evict-existing = true\n[[bound]]\nmax-keys = 1\n";
    let file = dir.write_private("bounds.toml", with);
    let checked = Launch::new(&["config", "check", &file]).bare().run();
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    let store = ["--store", "s3://values", "--evict-existing"];
    let ended = Launch::new(&store).bare().run();
    ended.says(2, "--evict-existing cannot be had with --store");
}

#[test]
fn a_store_has_its_own_rules_and_what_only_reads_removes_nothing() {
    for option in [["--max-size", "1GiB"], ["--bound", "max-keys = 1"]] {
        let store = ["--store", "s3://values", option[0], option[1]];
        let ended = Launch::new(&store).bare().run();
        let why = "cannot be had with --store: have the store remove what is old, by its own lifecycle rules";
        ended.says(2, &format!("{} {why}", option[0]));
    }
    directory_only!("bounds");
    let dir = DataDir::in_memory();
    place_old(&dir, &[("a", 100), ("b", 100)]);
    let bounds = ["--max-size", "1", "--bound", r#"max-age = "1m""#];
    let args = [&bounds[..], &["--evict-existing", "--read-only"]].concat();
    let mut server = Launch::new(&args).on(&dir).start();
    for key in ["a", "b"] {
        assert_eq!(server.get(key).body, BLOCK);
    }
    server.stop();
    assert_eq!(dir.names(), [b"a", b"b"]);
}
