//! A change that is refused for another reason than room evicts nothing.

use super::{BLOCK, WAYS, store_all};
use crate::support::prelude::*;

#[test]
fn what_is_refused_for_its_name_evicts_nothing() {
    directory_only!("bounds");
    let left_out = "a name that cannot be changed, below a bound";
    for way in WAYS {
        let mount = needed!(Mount::ext4(left_out));
        let dir = mount.dir();
        let beside = dir.outside("beside");
        let folders = ["folder/x", "fixed", "other", "same"].map(|folder| dir.file(folder));
        for folder in folders.iter().chain([&beside]) {
            fs::create_dir_all(folder).expect("a folder");
        }
        let other = Mounted::by(&["mount", "-t", "tmpfs", "tmpfs"], &dir.file("other"));
        let _other = needed!(available(left_out, other));
        let same = Mounted::by(&["mount", "--bind", text(&beside)], &dir.file("same"));
        let _same = needed!(available(left_out, same));
        dir.place("kept", "v");
        let args = [&*words(way), &["--max-size", "40KiB", "--evict-existing"]].concat();
        let server = Launch::new(&args).on(&dir).start();
        let fixed = ["fixed", "kept"].map(|name| dir.file(name));
        let fix = |flag: &str| run("chattr", &[flag, text(&fixed[0]), text(&fixed[1])]);
        needed!(available(left_out, fix("+i")));
        store_all(&server, "a b c d e f g h i");
        let before = dir.names();
        let body = [&BLOCK[..]; 5].concat();
        for (key, status) in [
            ("folder", 409),
            ("a/b", 409),
            ("fixed/k", 403),
            ("fixed/x/k", 403),
            ("kept", 403),
            ("other/k", 409),
            ("same/k", 409),
        ] {
            let answer = server.put(key, &body);
            assert_eq!(answer.status, status, "{way}, {key}: {answer:?}");
            assert_eq!(dir.names(), before, "{way}, {key}");
        }
        for (key, line) in [("new", "If-Match: *\r\n"), ("a", "If-None-Match: *\r\n")] {
            let path = format!("/{key}");
            assert_eq!(server.request("PUT", &path, line, &body).status, 412);
        }
        for to in ["other/a", "same/a"] {
            let to = format!("Destination: /{to}\r\n");
            let moved = server.request("MOVE", "/a", &to, b"");
            assert_eq!(moved.status, 409, "{way}: {moved:?}");
        }
        assert_eq!(dir.names(), before, "{way}");
        fix("-i").expect("it may be changed again");
        server.store("fixed/k", &body);
    }
}
