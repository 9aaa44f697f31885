//! GET of an archive.

use sha2::Digest as _;

use super::{names_in, printed, program, read};
use crate::support::policy::{bearer, one_who_may, reread, rule, serve_on, write_policy};
use crate::support::prelude::*;

/// Names that are hard to write in one format or another, with the length of each value.
fn values() -> Vec<(String, Vec<u8>)> {
    let long = |c: &str, n: usize| c.repeat(n);
    let names = [
        ("a".to_owned(), 0),
        ("a b\"c%d;e.txt".to_owned(), 5),
        ("b\\c".to_owned(), 511),
        ("cc:d".to_owned(), 512),
        ("deep/er/and/deeper".to_owned(), 513),
        (format!("e/{}", long("e", 98)), 3),
        (format!("f/{}", long("f", 99)), 3),
        (format!("g/{}/{}", long("g", 200), long("h", 250)), 70_000),
        ("line\nbreak".to_owned(), 20_000),
        ("na\u{ef}ve/\u{1f980}".to_owned(), 3_000_000),
    ];
    // The store of the tests lists no name with a line break as it is.
    let names = names
        .into_iter()
        .filter(|(name, _)| !(is_s3() && name.contains('\n')));
    let values = names.enumerate();
    let values = values.map(|(n, (name, len))| (name, pattern(n as u64, len)));
    values.collect()
}

/// Places the values below `folder`.
fn place(dir: &DataDir, folder: &str) -> Vec<(String, Vec<u8>)> {
    let values = values();
    for (name, value) in &values {
        dir.place(&format!("{folder}{name}"), value);
    }
    values
}

#[test]
fn a_tar_has_all_values_below_the_folder_in_the_order_of_keys() {
    directory_only!("times of files");
    let server = TestServer::start(&[]);
    let values = place(&server.dir, "in/it/");
    server.dir.place_each("in/its in/is", "no");
    let got = server.request("GET", "/in/it/?archive=tar", "", b"");
    assert_eq!(got.status, 200);
    assert_eq!(got.must("content-type"), "application/x-tar");
    let found = got.must("content-disposition");
    assert_eq!(found, "attachment; filename=\"it.tar\"");
    assert_eq!(read(&got.body), values);
    // The times are those of the values.
    let mut archive = tar::Archive::new(&got.body[..]);
    for entry in archive.entries().expect("members") {
        let entry = entry.expect("a member");
        let name = String::from_utf8(entry.path_bytes().into_owned()).expect("UTF-8");
        let modified = server.dir.modified(&format!("in/it/{name}"));
        let modified = modified
            .duration_since(SystemTime::UNIX_EPOCH)
            .expect("a time");
        assert_eq!(entry.header().mtime().expect("a time"), modified.as_secs());
        assert_eq!(entry.header().uid().expect("a user"), 0);
    }
    // The root.
    let all = read(&server.request("GET", "/?archive=tar", "", b"").body);
    assert_eq!(all.len(), values.len() + 2);
    assert_eq!(all[0].0, "in/is");
}

/// Nor is its client told that there is one.
#[test]
fn a_folder_that_the_client_may_not_list_ends_no_archive() {
    directory_only!("rights of folders");
    let dir = DataDir::in_memory();
    dir.place_each("d/in/a d/out/b", "v");
    let all = rule("anonymous", "d/", &["read", "list"]);
    let path = write_policy(&dir, &all);
    std::os::unix::fs::chown(&path, Some(65534), None).expect("another owner");
    chmod(dir.file("d/out"), 0o700);
    let args = ["--access", &path];
    let server = needed!(served_by_nobody_with(
        &dir,
        &args,
        "folders without permission"
    ));
    let get = || server.request("GET", "/d/?archive=tar", "", b"");
    get().says(403, "permission denied");
    fs::write(&path, all.replace("d/", "d/in/")).expect("a file of rules");
    reread(&server);
    assert_eq!(read(&get().body).len(), 1);
}

/// What listings leave out is not left out of an archive without a word.
#[test]
fn a_folder_that_cannot_be_read_ends_the_archive() {
    directory_only!("rights of folders");
    let dir = DataDir::in_memory();
    dir.place_each("d/a d/sub/b other/k", "v");
    for n in 0..2_500 {
        dir.place(&format!("many/{n:04}"), pattern(n, 50));
    }
    dir.place("many/sub/b", "v");
    let server = needed!(served_by_nobody(&dir, "folders without permission"));
    let get = |target: &str| server.request("GET", target, "", b"");
    for mode in [0o700, 0o744] {
        for folder in ["d/sub", "many/sub"] {
            chmod(dir.file(folder), mode);
        }
        for rest in "d/?archive=tar d/?archive=zip many/?archive=zip d/sub/?archive=tar".split(' ')
        {
            get(&format!("/{rest}")).says(403, "permission denied");
        }
        for name in ["sub/", "sub/b"] {
            get(&format!("/d/?archive=tar&files={name}")).says(403, "permission denied");
        }
        assert_eq!(read(&get("/other/?archive=tar").body).len(), 1);
        assert_eq!(read(&get("/d/?archive=tar&files=a").body).len(), 1);
        if !is_http2() {
            let mut raw = server.begin("GET", "/many/?archive=tar", "");
            assert_eq!(raw.head().status, 200);
            let rest = raw.rest();
            let is_right = rest.len() > 1_000_000 && !rest.ends_with(b"0\r\n\r\n");
            assert!(is_right, "an end");
        }
    }
    chmod(dir.file("d/sub"), 0o755);
    assert_eq!(read(&get("/d/?archive=tar").body).len(), 2);
}

/// Of more values than a page of keys has, and of more than are sent at once.
#[test]
fn an_archive_of_many_values_has_them_all() {
    let server = TestServer::start(&[]);
    let names: Vec<String> = (0..scaled(2500, 25_000))
        .map(|n| format!("{n:06}"))
        .collect();
    for name in &names {
        server.dir.place(&format!("many/{name}"), name);
    }
    let got = server.request("GET", "/many/?archive=tar", "", b"");
    let members = read(&got.body);
    assert!(members.iter().map(|(name, _)| name).eq(&names));
    assert!(members.iter().all(|(name, data)| name.as_bytes() == data));
    let mut python = needed!(program("python3"));
    let zip = server.request("GET", "/many/?archive=zip", "", b"").body;
    fs::write(server.dir.outside("many.zip"), zip).expect("a file");
    let script = "import sys, zipfile\n\
        z = zipfile.ZipFile(sys.argv[1])\n\
        assert z.testzip() is None\n\
        assert all(z.read(n) == n.encode() for n in z.namelist())\n\
        print(len(z.namelist()))";
    let count = printed(
        python
            .args(["-c", script])
            .arg(server.dir.outside("many.zip")),
    );
    assert_eq!(count.trim(), names.len().to_string());
}

/// As Java's `ZipInputStream` does: from its beginning, without the directory at its end. (Programs of Java refuse a
/// member that is not deflated and whose length follows it.)
#[test]
fn a_zip_is_read_as_a_stream() {
    let server = TestServer::start(&[]);
    let values = place(&server.dir, "d/");
    let zip = server.request("GET", "/d/?archive=zip", "", b"").body;
    let number = |at: usize, len: usize| {
        let bytes = zip[at..at + len].iter().rev();
        bytes.fold(0_u64, |n, &byte| n << 8 | u64::from(byte))
    };
    let mut at = 0;
    for (name, value) in &values {
        assert!(zip[at..].starts_with(b"PK\x03\x04"), "{name}");
        // Bit 3, the method, and no length.
        assert_eq!((number(at + 6, 2) & 8, number(at + 8, 2)), (8, 8), "{name}");
        assert_eq!(number(at + 18, 8), 0, "{name}");
        let (name_len, extra) = (number(at + 26, 2), number(at + 28, 2));
        let data = at + 30 + usize::try_from(name_len + extra).expect("a length");
        let mut inflating = flate2::bufread::DeflateDecoder::new(&zip[data..]);
        let mut inflated = Vec::new();
        inflating.read_to_end(&mut inflated).expect("deflated");
        assert!(inflated == *value, "{name}");
        let end = data + usize::try_from(inflating.total_in()).expect("a length");
        assert!(zip[end..].starts_with(b"PK\x07\x08"), "{name}");
        assert_eq!(number(end + 8, 4), inflating.total_in(), "{name}");
        assert_eq!(number(end + 12, 4), value.len() as u64, "{name}");
        at = end + 16;
    }
    assert!(zip[at..].starts_with(b"PK\x01\x02"), "the directory");
}

/// Another writer's key leads no program of Windows out of the folder into which a zip is unpacked.
#[test]
fn a_zip_has_no_name_that_leads_out_of_its_folder_on_windows() {
    let server = TestServer::start(&[]);
    for (n, name) in ["..%5C..%5Cevil", "C:%5Cevil", "%5Cevil", "b%5Cc"]
        .iter()
        .enumerate()
    {
        server.store(&format!("d/{name}"), n.to_string());
    }
    let whole = server.request("GET", "/d/?archive=zip", "", b"");
    let names = names_in(&whole.body);
    assert_eq!(names, [".._.._evil", "C__evil", "_evil", "b\\c"]);
    let selected = server.request("GET", "/d/?archive=zip&files=C:%5Cevil", "", b"");
    assert_eq!(names_in(&selected.body), ["C__evil"]);
}

#[test]
fn python_reads_the_same_values_from_a_tar_and_from_a_zip() {
    let server = TestServer::start(&[]);
    let values = place(&server.dir, "d/");
    let _ = needed!(program("python3"));
    let script = "import sys, hashlib, tarfile, zipfile\n\
        path = sys.argv[1]\n\
        if path.endswith('tar'):\n\
        \x20   t = tarfile.open(path)\n\
        \x20   members = [(m.name, t.extractfile(m).read(), m.mtime) for m in t]\n\
        else:\n\
        \x20   z = zipfile.ZipFile(path)\n\
        \x20   members = [(i.filename, z.read(i), i.date_time[0] - 2000) for i in z.infolist()]\n\
        \x20   assert all(i.external_attr >> 16 == 0o100644 for i in z.infolist())\n\
        for name, data, time in members:\n\
        \x20   assert time > 20, time\n\
        \x20   print(repr(name.encode()), hashlib.sha256(data).hexdigest())";
    let mut both = Vec::new();
    for format in ["tar", "zip"] {
        let got = server.request("GET", &format!("/d/?archive={format}"), "", b"");
        let path = server.dir.outside(&format!("d.{format}"));
        fs::write(&path, &got.body).expect("a file");
        both.push(printed(
            Command::new("python3").args(["-c", script]).arg(path),
        ));
    }
    assert_eq!(both[0], both[1]);
    assert_eq!(both[0].lines().count(), values.len());
    for ((name, value), line) in values.iter().zip(both[0].lines()) {
        let (_, digest) = line.rsplit_once(' ').expect("a digest");
        let expected = crate::support::s3::hex(&sha2::Sha256::digest(value));
        assert_eq!(digest, expected, "{name}");
    }
}

#[test]
fn other_programs_unpack_what_the_server_packs() {
    let server = TestServer::start(&[]);
    let values = place(&server.dir, "d/");
    // An old unzip changes a name with a line break.
    server.dir.remove("d/line\nbreak");
    let values: Vec<_> = values
        .into_iter()
        .filter(|(name, _)| !name.contains('\n'))
        .collect();
    for (name, format, args) in [
        ("tar", "tar", &["-xf"][..]),
        ("bsdtar", "tar", &["-xf"]),
        ("bsdtar", "zip", &["-xf"]),
        ("unzip", "zip", &["-q"]),
    ] {
        let mut command = needed!(program(name), continue);
        let got = server.request("GET", &format!("/d/?archive={format}"), "", b"");
        let into = TempDir::new().expect("a folder");
        let path = into.path().join("archive");
        fs::write(&path, &got.body).expect("a file");
        let command = command.args(args).arg(&path).current_dir(into.path());
        printed(command.env("LC_ALL", "C.UTF-8"));
        for (key, value) in &values {
            if name == "bsdtar" && format == "zip" && key.contains('\\') {
                // It takes that for a folder.
                continue;
            }
            let found = fs::read(into.path().join(key));
            assert_eq!(found.ok().as_ref(), Some(value), "{name} {format}: {key:?}");
        }
    }
}

#[test]
fn a_head_and_a_name_tell_of_the_archive_alone() {
    let server = TestServer::start(&[]);
    server.dir.place("na\u{ef}ve \"x\"/a", "v");
    let target = "/na%C3%AFve%20%22x%22/?archive=zip";
    let got = server.request("HEAD", target, "", b"");
    let seen = (got.status, got.must("content-type"));
    assert_eq!(seen, (200, "application/zip"));
    assert_eq!(
        got.must("content-disposition"),
        "attachment; filename=\"na_ve _x_.zip\"; filename*=UTF-8''na%C3%AFve%20%22x%22.zip"
    );
    let root = server.request("GET", "/?archive=tar&v=1", "", b"");
    let expected = "attachment; filename=\"archive.tar\"";
    assert_eq!(root.must("content-disposition"), expected);
    // A selection is not taken for the whole.
    server.dir.place("d/sub/x", "x");
    server.dir.place("d/y", "y");
    for (target, name) in [
        ("/d/?archive=tar&files=sub/&files=y", "d (2 selected).tar"),
        (
            "/?archive=zip&files=d/sub/&files=d/y",
            "archive (2 selected).zip",
        ),
        ("/d/?archive=tar&files=sub/", "sub.tar"),
    ] {
        let got = server.request("GET", target, "", b"");
        let expected = format!("attachment; filename=\"{name}\"");
        assert_eq!(got.must("content-disposition"), expected, "{target}");
    }
    server
        .request("GET", "/?archive=rar", "", b"")
        .says(400, "bad archive: it is tar or zip");
    // Of a value it is a parameter that means nothing.
    server.store("k", "v");
    assert_eq!(server.request("GET", "/k?archive=tar", "", b"").body, b"v");
}

/// The end of what came is no end of a body, in any framing.
#[test]
fn an_archive_of_a_value_that_cannot_be_read_breaks_off() {
    directory_only!("a hand cuts a file");
    http1_only!("the last chunk");
    for format in ["tar", "zip"] {
        let server = TestServer::start(&["--threads", "1"]);
        server.store("d/a", "first");
        server.store("d/b", pattern(1, 40_000_000));
        server.store("d/c", "last");
        let mut raw = Raw::connect_narrow(server.addr);
        raw.begin("GET", &format!("/d/?archive={format}"), "");
        assert_eq!(raw.head().status, 200);
        raw.take(1_000_000);
        server.dir.set_len("d/b", 1000);
        let rest = raw.rest();
        assert!(!rest.ends_with(b"0\r\n\r\n"), "{format}: an end");
        assert!(rest.len() < 39_000_000, "{format}");
        // What fails before the first byte is an error.
        let dir = DataDir::temporary();
        dir.place("d/a", "v");
        let server = needed!(served_by_nobody(&dir, "a file without rights"), continue);
        chmod(dir.file("d/a"), 0);
        let got = server.request("GET", &format!("/d/?archive={format}"), "", b"");
        assert_eq!(got.status, 403);
    }
}

#[test]
fn the_server_in_c_knew_no_archives() {
    directory_only!("the mode of the C server");
    let server = TestServer::start(&["--compat"]);
    assert_eq!(server.request("GET", "/?archive=tar", "", b"").status, 404);
    assert_eq!(server.request("PUT", "/?archive=tar", "", b"v").status, 204);
}

/// Each client takes the first bytes of an archive of two sparse values, of 10 GB together, and waits for the others
/// there.
#[test]
fn memory_does_not_grow_with_the_archives() {
    const CLIENTS: usize = 64;
    directory_only!("sparse files");
    let server = TestServer::start(&[]);
    for name in ["d/a", "d/b"] {
        server.store(name, "v");
        server.dir.set_len(name, 5_000_000_000);
    }
    let here = AtomicUsize::new(0);
    let len = scaled(4_000_000, 400_000_000);
    thread::scope(|scope| {
        for n in 0..CLIENTS {
            let (server, here) = (&server, &here);
            scope.spawn(move || {
                let mut raw = server.connect();
                let format = if n % 2 == 0 { "tar" } else { "zip" };
                let target = format!("/d/?archive={format}");
                raw.send(format!("GET {target} HTTP/1.1\r\nHost: t\r\n\r\n"));
                assert_eq!(raw.head().status, 200);
                let mut buffer = vec![0; 1 << 16];
                assert_eq!(raw.stream_to(len, &mut buffer, |_| {}), len);
                here.fetch_add(1, Ordering::AcqRel);
                let all = || here.load(Ordering::Acquire) == CLIENTS;
                eventually("all clients are in the middle", all);
            });
        }
    });
    let peak = server.proc().peak_rss_kib();
    say(&format!("{CLIENTS} archives at once: {} MiB", peak / 1024));
    assert!(peak < by_protocol(96, 128) * 1024, "{peak} KiB resident");
}

/// Of so many new keys that the memory which was reserved for the directory is not enough.
#[test]
fn a_zip_has_the_keys_that_are_stored_while_it_is_sent() {
    http1_only!("the last chunk");
    let server = TestServer::start(&["--threads", "1"]);
    server.dir.place("d/a", pattern(1, 40_000_000));
    // Some keys are found before the first value is sent, and those in this folder behind them.
    for n in 0..1100 {
        server.dir.place(&format!("d/k{n:04}"), "v");
    }
    server.dir.place("d/z/a", "v");
    let mut raw = Raw::connect_narrow(server.addr);
    raw.send("GET /d/?archive=zip HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
    assert_eq!(raw.head().status, 200);
    raw.take(1_000_000);
    for n in 0..300 {
        server
            .dir
            .place(&format!("d/z/{n:03}{}", "z".repeat(200)), "v");
    }
    let rest = raw.rest();
    assert!(rest.ends_with(b"0\r\n\r\n"), "it breaks off");
    let records = rest.windows(4).filter(|it| it == b"PK\x01\x02").count();
    assert_eq!(records, 1402);
}

#[test]
fn a_parameter_of_listings_is_refused_beside_archive() {
    let server = TestServer::start(&[]);
    server.store("d/a", "v");
    for parameter in ["prefix=a", "after=a", "limit=1", "delimiter=/"] {
        let name = parameter.split('=').next().expect("a name");
        let says = format!("has no parameter {name:?}: it has archive");
        for target in [
            format!("/d/?archive=tar&{parameter}"),
            format!("/d/?{parameter}&archive=zip"),
        ] {
            server.request("GET", &target, "", b"").says(400, &says);
            server.request("PUT", &target, "", b"").says(400, &says);
        }
    }
}

/// A selection that is ignored would give the whole folder.
#[test]
fn what_looks_like_a_selection_and_is_none_is_refused() {
    let server = TestServer::start(&[]);
    server.store("d/a", "v");
    for (query, says) in [
        ("archive=tar&file=a", "no parameter \"file\""),
        ("fils=a&archive=zip", "no parameter \"fils\""),
        ("archive=tar&Files=a", "no parameter \"Files\""),
        ("archive=tar&archive=zip", "an archive has archive once"),
        ("archiv=tar", "no parameter \"archiv\""),
        ("Archive=tar&files=a", "no parameter \"Archive\""),
        ("files=a", "no parameter \"files\""),
    ] {
        let target = format!("/d/?{query}");
        server.request("GET", &target, "", b"").says(400, says);
    }
    let got = server.request("GET", "/d/?archive=tar&files=a&v=1&utm_source=x", "", b"");
    assert_eq!(got.status, 200);
}

/// With curl -T the name of the file goes behind the `/`, and without the `/` a value would get the name of the folder.
#[test]
fn an_archive_is_none_of_a_key() {
    let server = TestServer::start(&[]);
    server.store("d/a", "v");
    for target in ["/d/s.tar?archive=tar", "/s?archive=tar", "/s?x&archive=zip"] {
        let put = server.request("PUT", target, "", &super::tar([]));
        put.says(400, "-T - < FILE");
    }
    server.dir.assert_holds(&["d/a"]);
    let got = server.request("GET", "/d?archive=tar", "", b"");
    got.says(404, "the path of a folder ends with '/'");
    let lines = "Accept: text/html\r\n";
    let got = server.request("GET", "/d?archive=tar", lines, b"");
    assert_eq!((got.status, got.must("location")), (302, "d/?archive=tar"));
    // Other queries of a key mean nothing.
    let put = server.request("PUT", "/k?v=1", "", b"v");
    assert_eq!(put.status, 200);
}

#[test]
fn a_folder_that_is_not_there_has_no_archive() {
    let server = TestServer::start(&[]);
    server.store("d/sub/a", "v");
    let read_it =
        |server: &TestServer, target: &str| read(&server.request("GET", target, "", b"").body);
    for method in ["GET", "HEAD"] {
        for (target, status) in [("/d/?archive=zip", 200), ("/?archive=tar", 200)] {
            let got = server.request(method, target, "", b"");
            assert_eq!(got.status, status, "{method} {target}");
        }
    }
    server.talk(
        "
        GET /gone/?archive=tar ; 404 ; ; there is no folder of this name
        HEAD /gone/?archive=tar ; 404
        GET,HEAD /d/gone/?archive=zip ; 404
        GET,HEAD /d/sub/a/?archive=tar ; 404",
    );
    // The root is there, whatever it has.
    assert_eq!(read_it(&TestServer::start(&[]), "/?archive=tar"), []);
    let folders = needed!(TestServer::of_directory("a folder without a value", &[]));
    fs::create_dir(folders.dir.file("e")).expect("a folder");
    assert_eq!(read_it(&folders, "/e/?archive=tar"), []);
}

#[test]
fn an_archive_of_a_selection_has_it_alone_in_the_order_of_keys() {
    let server = TestServer::start(&[]);
    for key in ["a", "a b&c+d", "b", "sub/x", "sub/y/z", "sub2/x"] {
        server.dir.place(&format!("d/{key}"), key);
    }
    for (query, expected) in [
        ("files=b&files=a", "a b"),
        ("files=sub/&files=b&files=a", "a b sub/x sub/y/z"),
        // Each once, however often it is selected.
        (
            "files=sub/x&files=sub/&files=sub/y/&files=sub/",
            "sub/x sub/y/z",
        ),
        ("files=sub/y/z&files=b&files=b", "b sub/y/z"),
        // What is not there is left out: a value, a folder, and a folder in place of a value.
        ("files=gone&files=b&files=gone/&files=sub2&files=a/", "b"),
        ("files=a%20b%26c%2Bd&x=y", "a%20b&c+d"),
        ("files=a+b%26c%2Bd", "a%20b&c+d"),
    ] {
        let expected = words(expected)
            .into_iter()
            .map(|name| name.replace("%20", " "));
        let expected: Vec<_> = expected.collect();
        let got = |format: &str| {
            let target = format!("/d/?archive={format}&{query}");
            let got = server.request("GET", &target, "", b"");
            assert_eq!(got.status, 200, "{query}");
            assert_eq!(server.request("HEAD", &target, "", b"").status, 200);
            got
        };
        let tar = read(&got("tar").body);
        let is_right = tar.iter().map(|(name, _)| name).eq(&expected);
        assert!(is_right, "{query}: {tar:?}");
        assert!(tar.iter().all(|(name, data)| name.as_bytes() == data));
        assert_eq!(names_in(&got("zip").body), expected, "{query}");
    }
    let of_root = server.request("GET", "/?archive=tar&files=d/sub/&files=d/b", "", b"");
    let names: Vec<_> = read(&of_root.body)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["d/b", "d/sub/x", "d/sub/y/z"]);
    for (query, status) in [
        ("files=gone", 404),
        ("files=gone/&files=sub", 404),
        ("files=", 400),
        ("files=a&files=", 400),
        ("files=/", 400),
        ("files=a//b", 400),
        ("files=/a", 400),
        ("files=../e", 400),
        ("files=./", 400),
        ("files=a%00", 400),
        ("files=%FF", 400),
        ("%66iles=a%FFb", 400),
        (&format!("files={}", "x".repeat(256)), 414),
        ("files=a&prefix=a", 400),
    ] {
        for format in ["tar", "zip"] {
            for method in ["GET", "HEAD"] {
                let target = format!("/d/?archive={format}&{query}");
                let got = server.request(method, &target, "", b"");
                assert_eq!(got.status, status, "{method} {query}");
            }
        }
    }
    // A key may have the sign that stands for what is no UTF-8.
    server.dir.place("d/\u{fffd}", "v");
    let got = server.request("GET", "/d/?archive=tar&files=%EF%BF%BD", "", b"");
    assert_eq!(read(&got.body), [("\u{fffd}".to_owned(), b"v".to_vec())]);
    let none = server.request("GET", "/d/?archive=tar&files=%FF", "", b"");
    none.says(400, "bad files: percent-encoded UTF-8");
    let own = server.request("GET", "/?archive=tar&files=.data-server/", "", b"");
    assert_eq!(own.status, 400);
    let put = server.request("PUT", "/d/?archive=tar&files=a", "", &super::tar([]));
    put.says(
        400,
        "no parameter \"files\": it has archive, and is stored whole",
    );
}

/// Of a folder with more keys than a page, between others; and as many names as there may be.
#[test]
fn an_archive_of_a_long_selection_has_it_whole() {
    let server = TestServer::start(&[]);
    let many: Vec<String> = (0..2500).map(|n| format!("many/{n:04}")).collect();
    for name in many.iter().map(String::as_str).chain(["a", "n", "z"]) {
        server.dir.place(name, name);
    }
    let got = server.request("GET", "/?archive=tar&files=z&files=many/&files=a", "", b"");
    let names = read(&got.body).into_iter().map(|(name, _)| name);
    let expected = ["a".to_owned()].into_iter().chain(many.iter().cloned());
    assert!(names.eq(expected.chain(["z".to_owned()])));
    let query = many.iter().map(|name| format!("&files={name}"));
    let query: Vec<_> = query.collect();
    let most = query[..1000].concat();
    let got = server.request("GET", &format!("/?archive=zip{most}"), "", b"");
    assert_eq!(names_in(&got.body), many[..1000]);
    let more = server.request("GET", &format!("/?archive=tar{most}&files=a"), "", b"");
    more.says(400, "an archive has at most 1000 names in files");
    let longer = format!("/?archive=zip{}", query.concat().repeat(2));
    assert_eq!(server.request("GET", &longer, "", b"").status, 431);
}

/// The longest query that is taken: as many names as there may be, of nothing that is there but of what begins with
/// these.
fn longest(format: &str, first: &[&str]) -> String {
    let names = first.iter().map(|&name| name.to_owned());
    let names = names.chain((first.len()..1000).map(|n| format!("z{n:057}")));
    let query: Vec<_> = names.map(|name| format!("&files={name}")).collect();
    let query = format!("?archive={format}{}", query.concat());
    assert!(query.len() > 63 << 10, "{}", query.len());
    query
}

/// Each client takes the first bytes of the first value, while the other names wait.
#[test]
fn memory_does_not_grow_with_long_selections() {
    const CLIENTS: usize = 64;
    directory_only!("sparse files");
    let server = TestServer::start(&[]);
    server.store("d/a", "v");
    server.dir.set_len("d/a", 5_000_000_000);
    let mut clients: Vec<Raw> = (0..CLIENTS).map(|_| server.connect()).collect();
    for (n, raw) in clients.iter_mut().enumerate() {
        let query = longest(if n % 2 == 0 { "tar" } else { "zip" }, &["a"]);
        raw.send(format!("GET /d/{query} HTTP/1.1\r\nHost: t\r\n\r\n"));
    }
    let mut buffer = vec![0; 1 << 16];
    for raw in &mut clients {
        assert_eq!(raw.head().status, 200);
        let len = 1_000_000;
        assert_eq!(raw.stream_to(len, &mut buffer, |_| {}), len);
    }
    let peak = server.proc().peak_rss_kib();
    say(&format!(
        "{CLIENTS} selections at once: {} MiB",
        peak / 1024
    ));
    assert!(peak < 96 * 1024, "{peak} KiB resident");
}

/// Of names that may not be read, for which a reactor waits for nothing. The last byte of the request and that of a
/// small one arrive together, in this order: without a turn for others the selection would be looked up to its end, and
/// be logged, first.
#[test]
fn others_are_answered_while_a_long_selection_is_looked_up() {
    http1_only!("a head that waits for its last byte");
    directory_only!("values in memory");
    let dir = DataDir::temporary();
    let policy = one_who_may("ann", &["list"]) + &rule("ann", "small", &["read"]);
    dir.place("small", "v");
    let mut server = serve_on(&dir, &policy, &["--threads", "1", "--access-log"]);
    let mut small = server.connect();
    let kinds = ["tar", "zip"].map(|format| ["GET", "HEAD"].map(|method| (format, method)));
    for (format, method) in kinds.into_iter().flatten() {
        for _ in 0..3 {
            let (query, lines) = (longest(format, &[]), bearer("ann"));
            let head = format!("{method} /{query} HTTP/1.1\r\nHost: t\r\n{lines}\r\n");
            let (but_last, last) = head.split_at(head.len() - 1);
            let mut long = server.connect();
            long.send(but_last);
            eventually("the head has arrived", || long.is_taken());
            // When this is answered, it is read.
            ask(&mut small, "GET", "/small", &bearer("ann"), b"");
            server.signal(Signal::STOP);
            long.send(last);
            eventually("its last byte has arrived", || long.is_taken());
            small.send(format!("GET /small HTTP/1.1\r\nHost: t\r\n{lines}\r\n"));
            eventually("the other has arrived", || small.is_taken());
            server.signal(Signal::CONT);
            assert_eq!(small.answer().body, b"v");
            let none = long.head();
            assert_eq!(none.status, 404);
            if method == "GET" {
                long.take(none.length());
            }
        }
    }
    server.stop();
    let logged = server.logged("access").into_iter();
    let keys: Vec<_> = logged.map(|line| line.field("key")).collect();
    assert_eq!(keys, ["/small", "/small", "/"].repeat(12));
}

#[test]
fn a_head_of_a_selection_looks_up_to_its_first_value() {
    directory_only!("the rights of files");
    let dir = DataDir::temporary();
    dir.place_each("d/a d/b", "v");
    let server = needed!(served_by_nobody(&dir, "a file without rights"));
    chmod(dir.file("d/b"), 0);
    for format in ["tar", "zip"] {
        let ask = |method: &str, names: &str| {
            let target = format!("/d/?archive={format}{names}");
            server.request(method, &target, "", b"").status
        };
        assert_eq!(ask("HEAD", "&files=0&files=a&files=b"), 200);
        assert_eq!(ask("HEAD", "&files=b"), 403);
        assert_eq!(ask("GET", "&files=0&files=a&files=b"), 403);
    }
}
