//! Proves the listing of keys in folders: in the order of whole keys, by prefix and by delimiter, page by page, as it
//! is at this moment whatever others do to the folders, with an index and without.

use super::forms::{FORMS, JSON, TEXT, walk};
use crate::support::prelude::*;

/// In the order of their bytes, which is not that of a walk through the folders: `-` comes before `/`, and `0` behind
/// it.
const KEYS: [&str; 9] = [
    "a-b", "a/b", "a/b-c", "a/b/c", "a/b/d", "a/b0", "a0", "b", "c/d/e",
];

/// Checks what each target lists: in each form, at once and in pages of few.
fn assert_lists(server: &TestServer, cases: &[(&str, &[&str])]) {
    let mut raw = server.connect();
    for (target, expected) in cases {
        // HTML has one address, without an encoded slash.
        let is_moved = target.contains("a%2Fb");
        let forms = FORMS
            .into_iter()
            .filter(|form| !is_moved || [JSON, TEXT].contains(form));
        for form in forms {
            assert_eq!(walk(&mut raw, target, form), [*expected], "{target} {form}");
            for limit in [1, 2, 3] {
                let and = if target.contains('?') { '&' } else { '?' };
                let pages = walk(&mut raw, &format!("{target}{and}limit={limit}"), form);
                assert!(pages.iter().all(|page| page.len() <= limit));
                assert_eq!(pages.concat(), *expected, "{target} by {limit} {form}");
            }
        }
        let page = ask(&mut raw, "GET", target, JSON, b"").json();
        let is_by_folder = target.contains("delimiter=/") || target.contains("%2F&");
        assert_eq!(page["prefixes"].is_array(), is_by_folder, "{target}");
    }
}

#[test]
fn keys_stand_in_the_order_of_their_bytes_and_folders_in_place_of_those_below() {
    let server = TestServer::start(&[]);
    // A key cannot be a folder too.
    let all: Vec<&str> = KEYS.into_iter().filter(|key| *key != "a/b").collect();
    for key in &all {
        server.store(key, key);
    }
    let cases: &[(&str, &[&str])] = &[
        ("/", &all),
        ("/?delimiter=", &all),
        ("/?delimiter=/", &["a-b", "a/", "a0", "b", "c/"]),
        ("/?delimiter=%2F&prefix=a", &["a-b", "a/", "a0"]),
        ("/?delimiter=/&prefix=a/", &["a/b-c", "a/b/", "a/b0"]),
        ("/?delimiter=/&prefix=a/b", &["a/b-c", "a/b/", "a/b0"]),
        ("/?delimiter=/&prefix=a/b/", &["a/b/c", "a/b/d"]),
        ("/?delimiter=/&prefix=c", &["c/"]),
        ("/?delimiter=/&prefix=c/d", &["c/d/"]),
        ("/?prefix=a/", &["a/b-c", "a/b/c", "a/b/d", "a/b0"]),
        ("/?prefix=a/b/d", &["a/b/d"]),
        ("/?prefix=a//", &[]),
        ("/?prefix=/", &[]),
        ("/?prefix=../", &[]),
        ("/?prefix=.data-server/", &[]),
        ("/a/", &["a/b-c", "a/b/c", "a/b/d", "a/b0"]),
        ("/a/?delimiter=/", &["a/b-c", "a/b/", "a/b0"]),
        ("/a/?prefix=b", &["a/b-c", "a/b/c", "a/b/d", "a/b0"]),
        ("/a/?prefix=b/", &["a/b/c", "a/b/d"]),
        ("/a/?prefix=b/d", &["a/b/d"]),
        ("/a/b/", &["a/b/c", "a/b/d"]),
        ("/a%2Fb%2f", &["a/b/c", "a/b/d"]),
        ("/a/b/c/", &[]),
        ("/gone/", &[]),
        (
            "/?after=a/b",
            &["a/b-c", "a/b/c", "a/b/d", "a/b0", "a0", "b", "c/d/e"],
        ),
        (
            "/?after=a/b/",
            &["a/b/c", "a/b/d", "a/b0", "a0", "b", "c/d/e"],
        ),
        ("/a/?after=a/b/c", &["a/b/d", "a/b0"]),
        ("/?delimiter=/&after=a/", &["a0", "b", "c/"]),
        ("/?delimiter=/&after=a/b", &["a0", "b", "c/"]),
        ("/?delimiter=/&after=a-b", &["a/", "a0", "b", "c/"]),
    ];
    assert_lists(&server, cases);
    for bad in words("/?delimiter=- /?delimiter=// /a/?delimiter=a /a/?limit=0") {
        for form in FORMS {
            assert_eq!(server.request("GET", bad, form, b"").status, 400, "{bad}");
        }
    }
}

#[test]
fn a_query_is_decoded_and_keys_are_compared_by_their_bytes() {
    let server = TestServer::start(&[]);
    let sorted = "B|a|a b|a+b|ab|abc|ab~|ab\u{e9}|b|ba".split('|');
    let sorted: Vec<&str> = sorted.collect();
    for key in sorted.iter().rev() {
        server.dir.place(key, "");
    }
    let cases: &[(&str, &[&str])] = &[
        ("/", &sorted),
        ("/?prefix=ab", &["ab", "abc", "ab~", "ab\u{e9}"]),
        ("/?prefix=ab&after=abc", &["ab~", "ab\u{e9}"]),
        ("/?after=b", &["ba"]),
        ("/?prefix=a+", &["a b"]),
        ("/?v=1&other=2&prefix=a+", &["a b"]),
        ("/?prefix=a%2B", &["a+b"]),
        ("/?prefix=%61b", &sorted[4..8]),
        ("/?prefix=ab%C3%A9", &["ab\u{e9}"]),
    ];
    assert_lists(&server, cases);
}

#[test]
fn pages_give_each_key_that_stays_once_while_others_come_and_go() {
    while_others_come_and_go("128MiB");
}

#[test]
fn so_they_do_without_an_index() {
    directory_only!("the index of listings");
    while_others_come_and_go("0");
}

fn while_others_come_and_go(index: &str) {
    const FOLDERS: usize = 50;
    let dir = DataDir::in_memory();
    let index = ["--listing-index", index];
    let args = [&["--threads", "2"][..], by_engine(&index, &[])].concat();
    let server = Launch::new(&args).on(&dir).start();
    let stay: BTreeSet<String> = (0..by_engine(2_500, 500))
        .map(|n| format!("k{:02}/{:03}", n % FOLDERS, n * 7 % 1000))
        .collect();
    for key in &stay {
        dir.place(key, "");
    }
    let (mut raw, done) = (server.connect(), Done::default());
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = server.connect();
            for n in 0.. {
                if done.is_said() {
                    break;
                }
                // Neighbours of those that stay, in their folders and in folders of their own.
                let own = if n % 3 == 0 { "x" } else { "" };
                let key = format!("/k{:02}{own}/{:03}x", n % FOLDERS, n * 31 % 1000);
                ask(&mut writer, "PUT", &key, "", b"new");
                if n % 2 == 0 {
                    ask(&mut writer, "DELETE", &key, "", b"");
                }
            }
        });
        scope.spawn(|| {
            for n in 0.. {
                if is_s3() || done.is_said() {
                    break;
                }
                let (one, other) = (dir.file(format!("moved{}", n % 3)), dir.file("k25moved"));
                let _ = fs::create_dir_all(&one).and_then(|()| fs::write(one.join("x"), ""));
                let _ = fs::rename(&one, &other);
                let _ = fs::remove_dir_all(&other);
            }
        });
        let _saying = done.when_dropped();
        for limit in [137, 1000, 2_499] {
            let pages = walk(&mut raw, &format!("/?prefix=k&limit={limit}"), JSON);
            assert!(pages.iter().all(|page| page.len() <= limit));
            let all = pages.concat();
            assert!(all.is_sorted_by(|a, b| a < b), "twice, or out of order");
            let seen: BTreeSet<String> = all.into_iter().filter(|k| !k.ends_with('x')).collect();
            assert!(seen == stay, "{} keys with limit={limit}", seen.len());
            let folders = walk(&mut raw, &format!("/?delimiter=/&limit={limit}"), JSON).concat();
            let folders = folders.into_iter().filter(|folder| folder.len() == 4);
            assert_eq!(folders.count(), FOLDERS);
        }
    });
}

#[test]
fn the_index_follows_folders_that_are_moved_and_walks_no_other() {
    file_calls_only!("the walks for pages");
    let dir = DataDir::in_memory();
    for n in 0..3_000 {
        dir.place(&format!("f{:02}/{n:04}", n % 30), "");
    }
    let server = Launch::new(&["--threads", "2"]).on(&dir).start();
    let listed = |target: &str| walk(&mut server.connect(), target, TEXT).swap_remove(0);
    // A page of few names is found without the index, which a long one makes.
    assert_eq!(listed("/?limit=10000").len(), 3_000);
    let tracer = Attached::to(&server, &["-e", "trace=getdents64"]);
    for (from, to, keys) in [("f07", "g/0/deep", 101), ("g/0/deep", "g/1/deep", 102)] {
        fs::create_dir_all(dir.file(to).parent().expect("a folder")).expect("a folder");
        fs::rename(dir.file(from), dir.file(to)).expect("a folder that is moved");
        assert_eq!(listed(&format!("/?prefix={from}/")), [""; 0]);
        assert_eq!(listed(&format!("/?prefix={to}/")).len(), keys - 1);
        // Written to where it is now, by hand.
        dir.place(&format!("{to}/x{keys}"), "v");
        assert_eq!(listed("/?limit=10000").len(), 2_900 + keys);
    }
    let walked = tracer.detach();
    let of_others = walked.iter().filter(|call| !call.args.contains("/data/g"));
    assert_eq!(of_others.count(), 0);
}
