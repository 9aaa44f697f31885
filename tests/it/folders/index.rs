//! Listings of a large directory took every disk thread: with 1,000,000 keys, 40 clients that asked for `/?limit=1`
//! kept a GET waiting for 22 s and a PUT for 38 s, and the server was not ready.
//!
//! The tests compare counts and orders of events, not times. strace delays walks of the directory while it is attached.

use rustix::fs::{Advice, fadvise};

use crate::support::prelude::*;

/// Far longer than a test: a walk continues when strace detaches.
const HELD: &str = "inject=getdents64:delay_enter=300000000";

/// A server on a directory in memory with this many keys, named by their numbers.
fn with_keys(keys: usize, args: &[&str]) -> TestServer {
    let dir = DataDir::in_memory();
    for n in 0..keys {
        File::create(dir.file(format!("{n:06}"))).expect("a value by hand");
    }
    Launch::new(args).on(&dir).start()
}

fn ask(server: &TestServer, query: &str) -> Raw {
    server.begin("GET", &format!("/{query}"), "Accept: text/plain\r\n")
}

fn keys(raw: &mut Raw) -> Vec<String> {
    let answer = raw.answer();
    assert_eq!(answer.status, 200);
    let text = answer.text();
    text.lines().map(str::to_owned).collect()
}

fn listed(server: &TestServer, query: &str) -> Vec<String> {
    keys(&mut ask(server, query))
}

/// The listings that wait for a thread, and those that have one.
fn jobs(server: &TestServer) -> [u64; 2] {
    let scrape = Scrape::of(server.addr);
    let sum = |what: &str| {
        let of = |pool: &str| scrape.count(&format!("data_server_{pool}_{what}"), &[]);
        of("disk") + of("listing")
    };
    [sum("queue_length"), sum("threads_busy")]
}

#[test]
fn forty_listings_delay_no_read_write_or_probe() {
    file_calls_only!("what waits for listings");
    let server = TestServer::start(&["--threads", "1", "--cache", "0"]);
    let value = pattern(1, 300 << 10);
    server.dir.place("cold", &value);
    let file = File::open(server.dir.file("cold")).expect("the value");
    file.sync_all().expect("the value on the disk");
    fadvise(&file, 0, None, Advice::DontNeed).expect("the value out of memory");

    let tracer = Attached::to(&server, &["-e", "trace=getdents64", "-e", HELD]);
    // Each client asks for another page.
    let listings = (1..=40).map(|limit| ask(&server, &format!("?limit={limit}")));
    let mut listings: Vec<Raw> = listings.collect();
    let comes = || jobs(&server).iter().sum::<u64>() == 40;
    eventually("all of them are in", comes);
    assert!(server.get("cold").body == value);
    assert_eq!(server.put("new", &value).status, 200);
    assert_eq!(server.get("-/ready").status, 200);
    let [waiting, busy] = jobs(&server);
    assert!(busy <= 4, "{busy} threads list, {waiting} listings wait");
    for listing in &mut listings {
        let unanswered = listing.silent_for(Duration::from_millis(1));
        unanswered.expect("a listing that waits, or this proves nothing");
    }
    tracer.detach();
    for (listing, limit) in listings.iter_mut().zip(1..) {
        assert_eq!(keys(listing), ["cold", "new"][..2.min(limit)]);
    }
}

#[test]
fn a_page_of_a_large_directory_needs_no_walk() {
    const KEYS: usize = 20_000;
    file_calls_only!("the walks for pages of a large directory");
    let server = with_keys(KEYS, &["--threads", "2"]);
    let dir = &server.dir;
    assert_eq!(listed(&server, "?limit=1"), ["000000"]);
    let tracer = Attached::to(&server, &["-e", "trace=getdents64"]);
    thread::scope(|scope| {
        for client in 0..10 {
            let server = &server;
            scope.spawn(move || {
                for page in 0..10 {
                    let first = (client * 10 + page) * 150;
                    let found = listed(server, &format!("?after={first:06}&limit=100"));
                    let expected = (first + 1..=first + 100).map(|n| format!("{n:06}"));
                    assert!(found.iter().eq(&expected.collect::<Vec<_>>()), "{first}");
                }
            });
        }
    });
    // Changes by the server and by hand show at once.
    for round in 0..50 {
        let [own, by_hand] = [format!("000000-{round:02}"), format!("000000-{round:02}-x")];
        server.store(&own, "x");
        dir.place(&by_hand, "x");
        let query = format!("?prefix=000000-{round:02}");
        assert_eq!(listed(&server, &query), [&*own, &*by_hand]);
        fs::rename(dir.file(&by_hand), dir.file("moved")).expect("a rename by hand");
        assert_eq!(listed(&server, &query), [&*own]);
        assert_eq!(listed(&server, "?prefix=m"), ["moved"]);
        fs::remove_file(dir.file("moved")).expect("a removal by hand");
        assert_eq!(server.ask("DELETE", &own).status, 200);
        assert_eq!(listed(&server, &query), [""; 0]);
        assert_eq!(listed(&server, "?prefix=m"), [""; 0]);
    }
    fs::create_dir(dir.file("000000-directory")).expect("a directory");
    symlink("000000", dir.file("000000-link")).expect("a link");
    assert_eq!(listed(&server, "?prefix=000000"), ["000000"]);
    let walked = tracer.detach();
    let of_others = |call: &&Call| !call.args.contains("000000-directory");
    let walked = walked.iter().filter(of_others).count();
    assert_eq!(walked, 0, "reads of the directory for 353 pages");
    let all =
        listed(&server, "?limit=10000").len() + listed(&server, "?after=009999&limit=10000").len();
    assert_eq!(all, KEYS);
}

#[test]
fn the_index_is_compact_and_bounded() {
    const KEYS: usize = 50_000;
    directory_only!("the index of listings");
    let server = with_keys(KEYS, &["--threads", "1", "--listing-index", "4MiB"]);
    let told = |name: &str| {
        let name = format!("data_server_listing_index_{name}");
        Scrape::of(server.addr).count(&name, &[])
    };
    assert_eq!(listed(&server, "?limit=1"), ["000000"]);
    let bytes = told("bytes");
    assert_eq!(told("keys"), 50_000);
    assert!(bytes < 60 * 50_000, "{bytes} bytes for 50,000 names of 6");
    // Names that are added later count too, and an index that becomes too large is dropped.
    for n in 0..10_000 {
        File::create(server.dir.file(format!("x{n:099}"))).expect("a value by hand");
    }
    eventually("the index is given up", || told("bytes") == 0);
    for after in ["", "009999"] {
        assert_eq!(listed(&server, &format!("?limit=1&after={after}")).len(), 1);
    }
    assert_eq!(told("bytes"), 0);
    server
        .event("the keys take more memory than --listing-index: each listing walks the directory");
}

/// On this file system names change without an event of this kernel: here in the directory that it mirrors.
#[test]
fn names_created_beneath_a_mount_are_listed_at_once() {
    directory_only!("the index of listings");
    let place = TempDir::new().expect("a directory");
    let [behind, mount] = ["behind", "mount"].map(|name| place.path().join(name));
    fs::create_dir(&behind).expect("a directory");
    for n in 0..1_000 {
        File::create(behind.join(format!("{n:06}"))).expect("a value by hand");
    }
    // The mount caches nothing of a directory.
    let options = ["-o", "attr_timeout=0,entry_timeout=0,negative_timeout=0"];
    let bindfs = [&["bindfs"], &options[..], &[text(&behind)]].concat();
    let mounted = Mounted::by(&bindfs, &mount);
    let mounted = needed!(available("listings on a FUSE file system", mounted));
    // Read-only, because the test needs only walks.
    let server = Launch::new(&["--threads", "1", "--read-only"]);
    let server = server.on(&DataDir::at(&mount)).start();
    for round in 0..10 {
        let name = format!("000000-{round}");
        File::create(behind.join(&name)).expect("a value by hand");
        assert_eq!(listed(&server, &format!("?prefix={name}")), [&*name]);
        fs::remove_file(behind.join(&name)).expect("a removal by hand");
        assert_eq!(listed(&server, &format!("?prefix={name}")), [""; 0]);
    }
    drop((server, mounted));
}

/// A folder that can be read and not searched opens, and each look-up in it fails.
#[test]
fn a_folder_that_cannot_be_searched_is_left_out_of_listings_and_told_once() {
    directory_only!("rights of folders");
    let dir = DataDir::in_memory();
    dir.place_each("a closed/k z", "v");
    chmod(dir.file("closed"), 0o744);
    let server = needed!(served_by_nobody(
        &dir,
        "folders without the right to search"
    ));
    for _ in 0..3 {
        assert_eq!(listed(&server, "?limit=10"), ["a", "z"]);
    }
    chmod(dir.file("closed"), 0o755);
    assert_eq!(listed(&server, "?limit=10"), ["a", "closed/k", "z"]);
    server.event("listings have again what could not be read");
    let told = server.events("listings leave out what cannot be read");
    assert_eq!(told.len(), 1, "{told:?}");
}

/// Each PUT below any bound was 503 for ever, and listings of large folders were 500.
#[test]
fn a_damaged_folder_and_a_damaged_value_are_left_out_and_end_no_service() {
    directory_only!("files of the directory");
    let fill = |at: &Path| {
        for (folder, values) in [("old/bad", 3), ("old/good", 1), ("c", 1_500), ("c/bad", 1)] {
            fs::create_dir_all(at.join(folder)).expect("a folder");
            for n in 0..values {
                fs::write(at.join(format!("{folder}/{n}")), "v").expect("a value");
            }
        }
    };
    let mount = needed!(Mount::damaged(
        fill,
        ["old/bad", "c/bad/0"],
        "a damaged folder"
    ));
    let bound = r#"prefix = "c/", max-size = "10MiB", full = "refuse""#;
    let server = Launch::new(&["--bound", bound]).on(&mount.dir()).start();
    eventually("values are counted", || {
        server.put("c/new", "v").status != 503
    });
    for (key, stored) in [("c/new", 200), ("old/good/1", 200)] {
        assert_eq!(server.put(key, "v").status, stored);
    }
    for _ in 0..3 {
        assert_eq!(listed(&server, "?prefix=c/&limit=2"), ["c/0", "c/1"]);
        let found = listed(&server, "?prefix=old/");
        assert_eq!(found, ["old/good/0", "old/good/1"]);
    }
    let count = server.ask("DELETE", "c/");
    count.says(409, "the 1501 values below it");
    let told = || server.events("listings leave out what cannot be read");
    eventually("both are told", || told().len() >= 2);
    let paths: Vec<_> = told().iter().map(|told| told.field("path")).collect();
    assert_eq!(paths, ["old/bad", "c/bad/0"]);
    let metrics = server.get("-/metrics").text();
    assert!(metrics.contains("data_server_unreadable 2\n"), "{metrics}");
    let is_right = metrics.contains("data_server_bound_keys{prefix=\"c/\"} 1501\n");
    assert!(is_right, "{metrics}");
    // Who takes all of a folder is told of it.
    let copied = server.request("COPY", "/old/", "Destination: /new/\r\n", b"");
    copied.says(409, r#""copied":2,"stayed":1"#);
    copied.says(409, "old/bad/");
    let archive = server.request("GET", "/old/?archive=tar", "", b"");
    archive.says(500, "list");
    let copied = server.request("COPY", "/c/bad/", "Destination: /new/\r\n", b"");
    copied.says(409, r#""copied":0,"stayed":1,"why":[{"name":"c/bad/0""#);
    let removed = server.request("DELETE", "/old/", "Depth: infinity\r\n", b"");
    removed.says(409, r#""removed":2"#);
    removed.says(409, "old/bad/");
}

/// Each listing above it was 500.
#[test]
fn a_mount_that_is_dead_is_left_out_of_listings_and_told_once() {
    directory_only!("what is mounted below the directory");
    let server = TestServer::start(&["--threads", "1"]);
    server.dir.place_each("a z", "v");
    let behind = TempDir::new().expect("a directory");
    let mount = server.dir.file("folder");
    fs::create_dir(&mount).expect("a directory");
    let mut daemon = Command::new("bindfs")
        .args(["-f", "--no-allow-other"])
        .args([behind.path(), &mount])
        .spawn();
    let (what, why) = ("listings above a dead mount", "bindfs does not run here");
    only_where!(daemon.is_ok(), what, why);
    let daemon = daemon.as_mut().expect("bindfs");
    let unmounted = Unmounted(&mount);
    File::create(behind.path().join("k")).expect("a value by hand");
    let all = || listed(&server, "?limit=10");
    only_where!(
        comes_true(|| daemon.try_wait().is_ok_and(|ended| ended.is_some())
            || all() == ["a", "folder/k", "z"])
            && daemon.try_wait().is_ok_and(|ended| ended.is_none()),
        what,
        "FUSE does not work here"
    );
    daemon.kill().expect("it ran");
    daemon.wait().expect("it ran");
    for _ in 0..3 {
        assert_eq!(all(), ["a", "z"]);
    }
    let told = server.event("listings leave out what cannot be read");
    assert_eq!(told.field("path"), "folder");
    drop(unmounted);
    server.dir.place("folder/k", "v");
    assert_eq!(all(), ["a", "folder/k", "z"]);
    let told = server.events("listings leave out what cannot be read");
    assert_eq!(told.len(), 1, "{told:?}");
}

struct Unmounted<'a>(&'a std::path::Path);

impl Drop for Unmounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

/// Nothing told of what is never listed, or told a wrong reason each five minutes.
#[test]
fn what_is_never_listed_is_told_once() {
    use std::os::unix::ffi::OsStrExt;
    directory_only!("links and names of files");
    let server = with_keys(3_000, &["--threads", "1"]);
    for n in 0..3 {
        let link = server.dir.file(format!("link-{n}"));
        symlink("000000", link).expect("a link");
        let name = [b"latin-\xe9-", &[b'0' + n][..]].concat();
        fs::write(
            server.dir.path().join(std::ffi::OsStr::from_bytes(&name)),
            "v",
        )
        .expect("a file");
    }
    for _ in 0..3 {
        assert_eq!(listed(&server, "?prefix=l"), [""; 0]);
        assert_eq!(server.get("link-0").status, 404);
    }
    let told = |what: &str| server.events(what).len();
    let link = "symbolic links are not listed, and followed with --follow-symlinks alone, and not out of the directory: mount another directory here instead (mount --bind); no other link is logged";
    assert_eq!(told(link), 1);
    let name = "names that are not UTF-8 are no keys, so they are not listed or served; no other is logged";
    assert_eq!(told(name), 1);
}

#[test]
fn a_folder_that_is_mounted_twice_is_named_as_the_reason_of_walks() {
    directory_only!("the index of listings");
    let server = with_keys(3_000, &["--threads", "1"]);
    server.dir.place("a/k", "v");
    let (from, to) = (server.dir.file("a"), server.dir.file("b"));
    let bind = ["mount", "--bind", text(&from)];
    let _bound = needed!(available("a folder mounted twice", Mounted::by(&bind, &to)));
    assert_eq!(listed(&server, "?prefix=b"), ["b/k"]);
    assert_eq!(listed(&server, "?limit=1"), ["000000"]);
    let told = server.event("a folder lies at two places below the directory (mount --bind), so changes of its names cannot be told apart: each listing walks the directory");
    assert!(["a", "b"].contains(&&*told.field("folder")), "{told:?}");
}
