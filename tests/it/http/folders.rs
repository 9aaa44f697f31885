//! Proves the listing of keys in folders: in the order of whole keys, by prefix and by delimiter, page by page, as it is at
//! this moment whatever others do to the folders, with an index and without.

use serde_json::Value;

use crate::support::prelude::*;

/// In the order of their bytes, which is not that of a walk through the folders: `-` comes before `/`, and `0` behind it.
const KEYS: [&str; 9] = [
    "a-b", "a/b", "a/b-c", "a/b/c", "a/b/d", "a/b0", "a0", "b", "c/d/e",
];

fn with_keys(args: &[&str]) -> TestServer {
    let server = TestServer::start(args);
    for key in KEYS {
        // A key cannot be a folder too.
        if key != "a/b" {
            server.store(key, key);
        }
    }
    server
}

const JSON: &str = "Accept: application/json\r\n";

fn list(raw: &mut Raw, target: &str, lines: &str) -> Response {
    ask(raw, "GET", target, lines, b"")
}

/// The items of a page, keys and folders merged.
fn items(page: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let keys = page["keys"].as_array().expect("keys").iter();
    let folders = page["prefixes"].as_array().into_iter().flatten();
    let items = keys.map(|key| text(&key["key"])).chain(folders.map(text));
    let mut items: Vec<_> = items.collect();
    items.sort();
    items
}

fn json(got: &Response) -> Value {
    assert_eq!(got.status, 200);
    got.json()
}

/// All pages from this one on, by their links.
fn walk(raw: &mut Raw, first: &str) -> Vec<Vec<String>> {
    let (mut target, mut pages) = (first.to_owned(), Vec::new());
    loop {
        let got = list(raw, &target, JSON);
        let page = json(&got);
        pages.push(items(&page));
        let last = pages.last().and_then(|items| items.last());
        let Some(link) = got.header("link") else {
            assert!(page["next"].is_null());
            return pages;
        };
        assert_eq!(page["next"].as_str(), last.map(String::as_str));
        let next = link
            .strip_prefix('<')
            .and_then(|l| l.strip_suffix(">; rel=\"next\""));
        // Relative to the folder.
        target.truncate(target.find('?').unwrap_or(target.len()));
        target += next.expect("a link");
        assert!(pages.len() < 10_000, "no end");
    }
}

#[test]
fn keys_stand_in_the_order_of_their_bytes_and_folders_in_place_of_those_below() {
    let server = with_keys(&[]);
    let mut raw = server.connect();
    let all: Vec<&str> = KEYS.into_iter().filter(|key| *key != "a/b").collect();
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
    for (target, expected) in cases {
        let got = list(&mut raw, target, JSON);
        let page = json(&got);
        assert_eq!(items(&page), *expected, "{target}");
        assert!(page["next"].is_null(), "{target}");
        let is_by_folder = target.contains("delimiter=/") || target.contains("%2F&");
        assert_eq!(page["prefixes"].is_array(), is_by_folder, "{target}");
        let text = list(&mut raw, target, "Accept: text/plain\r\n");
        let text = text.text();
        assert!(text.lines().eq(expected.iter().copied()), "{target}");
        for limit in [1, 2, 3] {
            let and = if target.contains('?') { '&' } else { '?' };
            let pages = walk(&mut raw, &format!("{target}{and}limit={limit}"));
            assert!(pages.iter().all(|page| page.len() <= limit));
            assert_eq!(pages.concat(), *expected, "{target} by {limit}");
        }
        let head = ask(&mut raw, "HEAD", target, JSON, b"");
        let found = (head.status, head.length());
        assert_eq!(found, (200, got.body.len()), "{target}");
    }
    for bad in words("/?delimiter=- /?delimiter=// /a/?delimiter=a /a/?limit=0") {
        assert_eq!(list(&mut raw, bad, "").status, 400, "{bad}");
    }
}

#[test]
fn a_text_listing_is_a_list_of_paths() {
    let server = TestServer::start(&[]);
    for key in ["a%20b/c%25d", "%C3%A9/x", "q%3F/%23"] {
        server.store(key, key);
    }
    let mut raw = server.connect();
    let text = list(&mut raw, "/", "Accept: text/plain\r\n");
    let text = text.text();
    assert_eq!(text, "a%20b/c%25d\nq%3F/%23\n%C3%A9/x\n");
    for line in text.lines() {
        assert_eq!(server.get(line).body, line.as_bytes());
        let folder = line.split_once('/').expect("a folder").0;
        let listed = list(&mut raw, &format!("/{folder}/"), "Accept: text/plain\r\n");
        assert_eq!(listed.body, format!("{line}\n").as_bytes());
    }
    let folders = list(&mut raw, "/?delimiter=/", "Accept: text/plain\r\n");
    assert_eq!(folders.body, b"a%20b/\nq%3F/\n%C3%A9/\n");
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
            let pages = walk(&mut raw, &format!("/?prefix=k&limit={limit}"));
            assert!(pages.iter().all(|page| page.len() <= limit));
            let all = pages.concat();
            assert!(all.is_sorted_by(|a, b| a < b), "twice, or out of order");
            let seen: BTreeSet<String> = all.into_iter().filter(|k| !k.ends_with('x')).collect();
            assert!(seen == stay, "{} keys with limit={limit}", seen.len());
            let folders = walk(&mut raw, &format!("/?delimiter=/&limit={limit}")).concat();
            let folders = folders.into_iter().filter(|folder| folder.len() == 4);
            assert_eq!(folders.count(), FOLDERS);
        }
    });
}

#[test]
fn the_index_follows_folders_that_are_moved_and_walks_no_other() {
    directory_only!("hands in the directory");
    tracing_only!("the walks for pages");
    let dir = DataDir::in_memory();
    for n in 0..3_000 {
        dir.place(&format!("f{:02}/{n:04}", n % 30), "");
    }
    let server = Launch::new(&["--threads", "2"]).on(&dir).start();
    let listed = |target: &str| {
        let got = list(&mut server.connect(), target, "Accept: text/plain\r\n");
        let text = got.text();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    // A page of few names is found without the index, which a long one makes.
    assert_eq!(listed("/?limit=10000").len(), 3_000);
    let tracer = Attached::to(&server, &["-e", "trace=getdents64"]);
    let (mut from, mut walks) = ("f07".to_owned(), 0);
    for round in 0..6 {
        let to = format!("g/{round:02}/deep");
        fs::create_dir_all(dir.file(&to).parent().expect("a folder")).expect("a folder");
        fs::rename(dir.file(&from), dir.file(&to)).expect("a folder that is moved");
        assert_eq!(listed(&format!("/?prefix={from}/")), [""; 0]);
        let there = listed(&format!("/?prefix={to}/&limit=10000"));
        assert_eq!((there.len(), &*there[0]), (100, &*format!("{to}/0007")));
        assert_eq!(listed("/?delimiter=/&after=f29/"), ["g/"]);
        // Written to where it is now, by the server and by hand.
        server.store(&format!("{to}/own"), "v");
        dir.place(&format!("{to}/by-hand"), "v");
        let seen = listed(&format!("/?prefix={to}/b"));
        assert_eq!(seen, [format!("{to}/by-hand")]);
        assert_eq!(listed(&format!("/?prefix={to}/o")), [format!("{to}/own")]);
        for key in ["own", "by-hand"] {
            assert_eq!(server.ask("DELETE", &format!("{to}/{key}")).status, 200);
        }
        from = to;
        walks += 1;
    }
    fs::remove_dir_all(dir.file("g")).expect("rm -r");
    assert_eq!(listed("/?after=f29/9999"), [""; 0]);
    assert_eq!(listed("/?limit=10000").len(), 2_900);
    let walked = tracer.detach();
    let of_others = walked.iter().filter(|call| !call.args.contains("/data/g"));
    assert_eq!(of_others.count(), 0, "{walks} folders were moved");
}
