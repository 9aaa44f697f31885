//! PUT of an archive.

use tar::EntryType;

use super::{ended, header, members, printed, program, tar};
use crate::support::prelude::*;

const PROBLEM: &str = "Accept: application/problem+json\r\n";

/// Unpacks into `folder`.
fn put(server: &TestServer, folder: &str, lines: &str, tar: &[u8]) -> Response {
    server.request("PUT", &format!("/{folder}?archive=tar"), lines, tar)
}

#[test]
fn each_member_is_a_value_with_the_type_of_its_name() {
    let server = TestServer::start(&[]);
    let long = pattern(1, 3_000_000);
    let list = [
        ("./a.html", &b"<p>"[..]),
        ("b/c.png", b"png"),
        ("b/empty", b""),
        ("long", &long),
        ("a.html", b"<p>again"),
    ];
    let put = put(&server, "in/", "", &tar(list));
    assert_eq!(put.status, 200);
    assert_eq!(put.must("content-type"), "application/json");
    let told = put.json();
    assert_eq!(told["stored"], 5);
    assert_eq!(told["bytes"], 3_000_014);
    assert_eq!(told["existing"], 0);
    server
        .dir
        .assert_holds(&["in/a.html", "in/b/c.png", "in/b/empty", "in/long"]);
    // Of two members with one name, the later one stays.
    let page = server.get("in/a.html");
    assert_eq!(page.body, b"<p>again");
    assert!(page.must("content-type").starts_with("text/html"));
    assert_eq!(server.get("in/b/c.png").must("content-type"), "image/png");
    assert_eq!(server.get("in/long").body, long);
    assert_eq!(
        server
            .request("PUT", "/?archive=tar", "", &tar([("root", &b"v"[..])]))
            .status,
        200
    );
    assert_eq!(server.get("root").body, b"v");
}

#[test]
fn what_python_and_tar_pack_is_stored_in_each_of_their_formats() {
    let server = TestServer::start(&[]);
    let from = TempDir::new().expect("a folder");
    let names = ["a", "deep/er/x", "na\u{ef}ve", &"n".repeat(150), "empty"];
    for (n, name) in names.iter().enumerate() {
        let path = from.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        let len = if *name == "empty" { 0 } else { 400 * n + 1 };
        fs::write(path, pattern(n as u64, len)).expect("a file");
    }
    fs::create_dir(from.path().join("folder")).expect("a folder");
    let pack = "import sys, tarfile\n\
        t = tarfile.open(sys.argv[1], 'w', format=getattr(tarfile, sys.argv[2] + '_FORMAT'))\n\
        t.add('.')\n\
        t.close()";
    let out = TempDir::new().expect("a folder");
    for (name, format) in [
        ("python3", "PAX"),
        ("python3", "GNU"),
        ("tar", "--format=posix"),
        ("tar", "--format=gnu"),
        ("bsdtar", "--format=pax"),
    ] {
        let mut command = needed!(program(name), continue);
        let path = out.path().join("made");
        if name == "python3" {
            command.args(["-c", pack]).arg(&path).arg(format);
        } else {
            command.arg("-cf").arg(&path).args([format, "."]);
        }
        printed(command.env("LC_ALL", "C.UTF-8").current_dir(from.path()));
        let put = put(
            &server,
            &format!("{name}{format}/"),
            "",
            &fs::read(path).expect("a tar"),
        );
        let found = (put.status, &put.json()["stored"]);
        assert_eq!(found, (200, &names.len().into()), "{put:?}");
        for key in names {
            let value = fs::read(from.path().join(key)).expect("a file");
            let stored = server.dir.read(format!("{name}{format}/{key}"));
            assert!(stored == value, "{name} {format}: {key}");
        }
    }
}

/// Several that are published at once take no more room than there is for one.
#[test]
fn a_tar_finds_the_room_that_each_of_its_members_finds() {
    let server = TestServer::start(&["--max-staged-per-client", "256KiB"]);
    let value = pattern(1, 90_000);
    let names: Vec<_> = (0..40).map(|n| format!("{n:02}")).collect();
    let list = names.iter().map(|name| (&**name, &*value));
    let stored = put(&server, "in/", "", &tar(list));
    let seen = (stored.status, &stored.json()["stored"]);
    assert_eq!(seen, (200, &40.into()), "{stored:?}");
}

#[test]
fn with_a_condition_only_new_values_are_stored() {
    let server = TestServer::start(&[]);
    server.store("in/b", "old");
    let list = [("a", &b"new"[..]), ("b", b"new"), ("c", b"new")];
    let told = put(&server, "in/", "If-None-Match: *\r\n", &tar(list)).json();
    let expected =
        serde_json::json!({"stored": 2, "bytes": 6, "existing": 1, "existing_keys": ["in/b"]});
    assert_eq!(told, expected);
    assert_eq!(server.get("in/b").body, b"old");
    assert_eq!(put(&server, "in/", "", &tar(list)).json()["stored"], 3);
    assert_eq!(server.get("in/b").body, b"new");
}

/// Each is one member behind a good one.
#[test]
fn a_member_that_is_no_plain_value_is_refused_and_those_before_it_stay() {
    let dir = DataDir::temporary();
    let args = ["--max-body", "1000", "--max-key-depth", "4"];
    let server = Launch::new(&args).on(&dir).start();
    let file = |name: &[u8]| (header(name, EntryType::Regular, 0), 400, "bad-key");
    let kind = |kind| (header(b"x", kind, 0), 400, "bad-archive");
    let sized = |kind, len, status, name| (header(b"x", kind, len), status, name);
    let cases = [
        file(b"../x"),
        file(b"a/../../x"),
        file(b"/etc/x"),
        file(b"a//x"),
        file(b"a/."),
        file(b"\xff"),
        file(b".."),
        (
            header(b"a/b/c/d", EntryType::Regular, 0),
            400,
            "key-too-deep",
        ),
        kind(EntryType::Symlink),
        kind(EntryType::Link),
        kind(EntryType::Char),
        kind(EntryType::Block),
        kind(EntryType::Fifo),
        kind(EntryType::GNUSparse),
        kind(EntryType::new(b'Z')),
        sized(EntryType::Directory, 512, 400, "bad-archive"),
        sized(EntryType::Regular, 1001, 413, "too-large"),
        sized(EntryType::Regular, 1 << 40, 413, "too-large"),
        sized(EntryType::XHeader, 1 << 40, 400, "bad-archive"),
        sized(EntryType::GNULongName, 1 << 20, 400, "bad-archive"),
    ];
    for (n, (header, status, name)) in cases.iter().enumerate() {
        let mut tar = members([("good", &b"v"[..])]);
        tar.extend_from_slice(header.as_bytes());
        tar.extend_from_slice(&members([("behind", &b"v"[..])]));
        let folder = format!("{n}/");
        let put = put(&server, &folder, PROBLEM, &ended(tar));
        let why = put.text();
        assert_eq!(put.status, *status, "{n}: {why}");
        let told = put.json();
        let kind = format!("urn:data-server:problem:{name}");
        assert_eq!(told["type"], kind, "{n}");
        assert!(why.contains("values stored before: 1 (1 bytes)"), "{why}");
        assert_eq!(told["stored"], serde_json::json!([format!("{folder}good")]));
        assert_eq!((&told["values"], &told["bytes"]), (&1.into(), &1.into()));
    }
    let keys: Vec<String> = (0..cases.len()).map(|n| format!("{n}/good")).collect();
    let keys: BTreeSet<&str> = keys.iter().map(String::as_str).collect();
    server
        .dir
        .assert_holds(&keys.into_iter().collect::<Vec<_>>());
    server.dir.assert_nothing_staged();
    // With the reason, a program says which member it was.
    let put = put(
        &server,
        "z/",
        "",
        &ended(header(b"l nk", EntryType::Symlink, 0).as_bytes().to_vec()),
    );
    put.says(400, "z/l%20nk: it is a symbolic link (tar --dereference packs its file), and only plain files are stored; values stored before: 0 (0 bytes)");
}

/// Neither is a shortage of the server, about which its log would warn.
#[test]
fn a_member_of_a_length_that_no_file_has_is_malformed() {
    let mut server = TestServer::start(&[]);
    let of_field = |first: u8, rest: [u8; 11]| {
        let mut header = header(b"x", EntryType::Regular, 0);
        header.as_old_mut().size[0] = first;
        header.as_old_mut().size[1..].copy_from_slice(&rest);
        header.set_cksum();
        header.as_bytes().to_vec()
    };
    let of_record = |len: &str| {
        let mut pax = tar::Builder::new(Vec::new());
        let records = [("size", len.as_bytes())];
        pax.append_pax_extensions(records).expect("records");
        let mut tar = pax.get_ref().clone();
        tar.extend_from_slice(header(b"x", EntryType::Regular, 0).as_bytes());
        tar
    };
    let cases = [
        of_field(0xff, [0xff; 11]),
        of_field(0x80, [0xff; 11]),
        of_field(0x80, [0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0, 0]), // 2^70
        of_record("9223372036854775807"),
        of_record("9223372036854775808"),
        of_record("-1"),
    ];
    for (n, malformed) in cases.into_iter().enumerate() {
        let mut tar = members([("good", &b"v"[..])]);
        tar.extend_from_slice(&malformed);
        let refused = put(&server, &format!("{n}/"), PROBLEM, &ended(tar));
        refused.says(
            400,
            "a header is malformed; values stored before: 1 (1 bytes)",
        );
        assert_eq!(server.get(&format!("{n}/x")).status, 404);
    }
    server.stop();
    let log = server.log().join("\n");
    assert!(!log.contains("out of resources"), "{log}");
}

/// A label, the names in a folder, and the remarks for all members, as `tar --label`, `--incremental` and `git archive`
/// write them.
#[test]
fn what_a_tar_says_of_itself_is_skipped() {
    let server = TestServer::start(&[]);
    let mut label = header(b"of the backup", EntryType::new(b'V'), 0);
    label.as_old_mut().size = [0; 12];
    label.set_cksum();
    let mut tar = label.as_bytes().to_vec();
    for (kind, data) in [(b'D', &b"Ya\0\0"[..]), (b'g', b"16 comment=abcd\n")] {
        let header = header(b"./", EntryType::new(kind), data.len() as u64);
        tar.extend_from_slice(header.as_bytes());
        tar.extend_from_slice(data);
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    tar.extend_from_slice(&members([("a", &b"v"[..])]));
    let stored = put(&server, "d/", "", &ended(tar));
    assert_eq!(stored.status, 200, "{}", stored.text());
    server.dir.assert_holds(&["d/a"]);
}

#[test]
fn a_member_that_tar_could_pack_as_a_file_names_the_option_for_it() {
    let server = TestServer::start(&[]);
    for (kind, option) in [
        (EntryType::Link, "--hard-dereference"),
        (EntryType::Symlink, "--dereference"),
        (EntryType::GNUSparse, "--sparse"),
    ] {
        let tar = ended(header(b"x", kind, 0).as_bytes().to_vec());
        put(&server, "d/", "", &tar).says(400, option);
        put(&server, "d/", PROBLEM, &tar).says(400, option);
    }
}

#[test]
fn what_is_no_whole_tar_is_refused() {
    let server = TestServer::start(&[]);
    let whole = tar([("a", &b"v"[..])]);
    let mut other_sum = whole.clone();
    other_sum[10] ^= 1;
    let cases: [(&[u8], u16, &str); 8] = [
        (b"", 400, "ends before its end mark"),
        (b"\x1f\x8b\x08 compressed", 415, "compressed"),
        (b"PK\x03\x04 a zip", 415, "no zip"),
        (&[b'x'; 600], 400, "does not have its sum"),
        (&whole[..600], 400, "ends before its end mark"),
        (&whole[..1024], 400, "ends before its end mark"),
        (&other_sum, 400, "does not have its sum"),
        (&[&whole[..], &whole].concat(), 400, "behind its end mark"),
    ];
    for (n, (body, status, why)) in cases.into_iter().enumerate() {
        let put = put(&server, &format!("{n}/"), "", body);
        assert_eq!(put.status, status, "{n}: {}", put.text());
        assert!(put.text().contains(why), "{n}: {}", put.text());
    }
    // A value that is whole was stored.
    server.dir.assert_holds(&["4/a", "5/a", "7/a"]);
}

/// Of one with records of pax, at many places.
#[test]
fn of_a_tar_that_is_cut_off_the_members_that_came_whole_are_stored() {
    let server = TestServer::start(&[]);
    let values = [("a", 1), ("b", 0), (&*"c".repeat(150), 700), ("d", 1024)];
    for (name, len) in values {
        server.store(&format!("from/{name}"), pattern(1, len));
    }
    let whole = server.request("GET", "/from/?archive=tar", "", b"").body;
    let mut archive = tar::Archive::new(&whole[..]);
    let entries = archive.entries().expect("members").map(|entry| {
        let entry = entry.expect("a member");
        entry.raw_file_position() + entry.size()
    });
    let ends: Vec<u64> = entries.collect();
    // One block of zeros is an end mark.
    for cut in (0..whole.len() - 512).step_by(scaled(83, 7)) {
        let folder = format!("to/{cut}/");
        let got = put(&server, &folder, "", &whole[..cut]);
        let count = ends.iter().filter(|&&end| end <= cut as u64).count();
        let says = format!("values stored before: {count} ");
        assert_eq!(got.status, 400, "{cut}");
        let are_stored = values
            .iter()
            .map(|(name, _)| server.get(&format!("{folder}{name}")).status == 200);
        let expected = (0..values.len()).map(|n| n < count);
        assert!(got.text().contains(&says), "{cut}: {}", got.text());
        assert!(are_stored.eq(expected), "{cut}");
    }
    assert_eq!(put(&server, "whole/", "", &whole).json()["stored"], 4);
}

/// As a PUT of the key is; the values before it stay.
#[test]
fn a_member_for_which_there_is_no_room_ends_the_archive() {
    directory_only!("quotas");
    let bound = r#"prefix = "in/", max-keys = 3, full = "refuse""#;
    let server = TestServer::start(&["--bound", bound]);
    let list = ["a", "b", "c", "d", "e"].map(|name| (name, &b"v"[..]));
    let got = put(&server, "in/", "", &tar(list));
    let why = r#"the bound of "in/" is full (max-keys 3): delete values first"#;
    let says = format!("in/d: {why}; values stored before: 3 (3 bytes)");
    got.says(507, &says);
    server.dir.assert_holds(&["in/a", "in/b", "in/c"]);
    server.dir.assert_nothing_staged();
}

#[test]
fn a_field_that_would_be_ignored_is_refused() {
    let server = TestServer::start(&[]);
    let whole = tar([("a", &b"v"[..])]);
    for (lines, status) in [
        ("Content-Encoding: gzip\r\n", 415),
        ("Content-Range: bytes 0-9/20\r\n", 400),
        ("Upload-Complete: ?1\r\n", 400),
        ("Repr-Digest: sha-256=:AAAA:\r\n", 400),
        ("Content-MD5: 1B2M2Y8AsgTpgAmY7PhCfg==\r\n", 400),
        ("X-Delete-After: 60\r\n", 400),
        ("If-Match: \"x\"\r\n", 400),
        ("Content-Encoding: identity\r\n", 200),
    ] {
        assert_eq!(put(&server, "d/", lines, &whole).status, status, "{lines}");
    }
    server.request("PUT", "/d/?archive=zip", "", b"x").says(
        415,
        "only a tar is unpacked, no zip and none that is compressed: send it as it is, with archive=tar",
    );
    // An address of no archive is one of a folder, as before.
    let found = server.request("PUT", "/d/?archiv=tar", "", b"x").status;
    assert_eq!(found, 400);
}

#[test]
fn a_server_that_is_read_only_or_drops_values_stores_none() {
    let whole = tar([("a", &b"v"[..])]);
    let server = TestServer::start(&["--discard"]);
    assert_eq!(put(&server, "d/", "", &whole).json()["stored"], 0);
    assert_eq!(put(&server, "d/", "", &whole[..700]).status, 400);
    server.dir.assert_holds(&[]);
    directory_only!("a directory that is only read");
    let dir = DataDir::temporary();
    let server = Launch::new(&["--read-only"]).on(&dir).start();
    assert_eq!(put(&server, "d/", "", &whole).status, 403);
}

/// The client leaves in the middle of the second member.
#[test]
fn nothing_is_stored_of_a_member_that_is_cut_off() {
    let server = TestServer::start(&[]);
    let value = pattern(1, 200_000);
    let whole = tar([("a", &b"v"[..]), ("b", &value)]);
    let mut raw = server.connect();
    raw.send(format!(
        "PUT /d/?archive=tar HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\n\r\n",
        whole.len()
    ));
    raw.send(&whole[..100_000]);
    eventually("the first is stored", || server.dir.get("d/a").is_some());
    raw.break_off();
    eventually("the upload has ended", || server.receiving() == 0);
    server.dir.assert_holds(&["d/a"]);
    server.dir.assert_nothing_staged();
    assert_eq!(server.get("d/b").status, 404);
}

/// Many values of one request, which the publisher takes together.
#[test]
fn many_short_values_are_all_stored() {
    let server = TestServer::start(&[]);
    let names: Vec<String> = (0..scaled(2000, 20_000))
        .map(|n| format!("{n:06}"))
        .collect();
    let list = names.iter().map(|name| (name.as_str(), name.as_bytes()));
    let told = put(&server, "many/", "", &tar(list)).json();
    assert_eq!(told["stored"], names.len());
    for name in &names {
        assert_eq!(server.dir.read(format!("many/{name}")), name.as_bytes());
    }
}

#[test]
fn of_a_name_that_is_too_long_for_a_key_its_beginning_is_told() {
    let server = TestServer::start(&[]);
    let name = "n".repeat(240_000);
    let mut tar = header(b"l", EntryType::GNULongName, 240_000)
        .as_bytes()
        .to_vec();
    tar.extend_from_slice(name.as_bytes());
    tar.resize(tar.len().next_multiple_of(512), 0);
    tar.extend_from_slice(&members([("short", &b"v"[..])]));
    let says = format!(
        "d/{}: bad key: a key has at most 1024 bytes; values stored before: 0 (0 bytes)",
        &name[..1022]
    );
    put(&server, "d/", "", &ended(tar)).says(414, &says);
}

/// The request of a client that sends these bytes of a tar, and no more.
fn pausing(folder: &str, sent: &[u8]) -> Vec<u8> {
    let head = format!("PUT /{folder}?archive=tar HTTP/1.1\r\nHost: t\r\n");
    let mut request = format!("{head}Content-Length: 100000000\r\n\r\n").into_bytes();
    request.extend_from_slice(sent);
    request
}

/// More values than wait for the publisher, of clients that then send nothing.
#[test]
fn clients_that_pause_in_the_middle_of_a_tar_keep_no_place_of_others() {
    let server = TestServer::start(&["--body-timeout", "0s"]);
    let names: Vec<String> = (0..250).map(|n| format!("{n:03}")).collect();
    let mut sent = members(names.iter().map(|name| (name.as_str(), &b""[..])));
    sent.extend_from_slice(header(b"long", EntryType::Regular, 500_000).as_bytes());
    let mut idle: Vec<Raw> = (0..scaled(16, 32)).map(|_| server.connect()).collect();
    thread::scope(|scope| {
        for (n, raw) in idle.iter_mut().enumerate() {
            let request = pausing(&format!("{n}/"), &sent);
            scope.spawn(move || raw.send(request));
        }
    });
    for n in 0..idle.len() {
        let key = format!("{n}/249");
        eventually("the last short value is there", || {
            server.dir.get(&key).is_some()
        });
    }
    assert_eq!(server.request("PUT", "/other", "", b"v").status, 200);
}

#[test]
fn a_value_that_is_not_published_ends_an_archive_whose_client_pauses() {
    directory_only!("a value in the way of a folder");
    let server = TestServer::start(&["--body-timeout", "0s"]);
    let mut sent = members([("x", &b"1"[..]), ("x/y", b"22"), ("x/z", b"333")]);
    sent.extend_from_slice(header(b"long", EntryType::Regular, 500_000).as_bytes());
    let mut raw = server.connect();
    raw.send(pausing("d/", &sent));
    assert_eq!(raw.head().status, 409);
    server.dir.assert_holds(&["d/x"]);
    server.dir.assert_nothing_staged();
}

/// A bound takes each member by itself; for the last it would evict the first.
#[test]
fn a_tar_that_a_bound_has_no_room_for_is_refused_at_the_member_that_would_evict_another() {
    directory_only!("bounds");
    for durability in ["os", "disk"] {
        let server = TestServer::start(&["--max-size", "40KiB", "--durability", durability]);
        for n in 0..10 {
            server.store(&format!("old/{n}"), [1; 4096]);
        }
        pass(Duration::from_millis(20)); // a tick of the clock of uses
        let names: Vec<_> = (0..12).map(|n| format!("{n:02}")).collect();
        let list = names.iter().map(|name| (&**name, &[7; 4096][..]));
        let refused = put(&server, "in/", "", &tar(list.clone()));
        refused.says(
            507,
            "the bound of all values is full (max-size 40.0 KiB): all of this",
        );
        refused.says(507, "values stored before: 10");
        let stored: Vec<_> = names
            .iter()
            .take(10)
            .map(|name| format!("in/{name}"))
            .collect();
        server
            .dir
            .assert_holds(&stored.iter().map(|key| &**key).collect::<Vec<_>>());
        assert_eq!(put(&server, "in/", "", &tar(list.take(10))).status, 200);
    }
}
