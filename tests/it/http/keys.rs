//! Proves the rules of keys: which paths are keys, which are refused and how, and that the path on disk is the key,
//! byte for byte. A path is decoded exactly once and strictly, and cut into segments after that.

use std::cell::RefCell;

use proptest::collection::vec;
use proptest::prelude::{Strategy, any};
use proptest::prop_oneof;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use crate::support::prelude::*;

/// Paths that are keys, and the name of the file each makes.
const GOOD: &[(&str, &str)] = &[
    ("a", "a"),
    ("%61", "a"),
    ("+", "+"),
    ("a%20b", "a b"),
    ("%252e", "%2e"),
    ("...", "..."),
    (".hidden", ".hidden"),
    (".data-serve", ".data-serve"),
    (".Data-Server", ".Data-Server"),
    ("..%5c..%5cetc", "..\\..\\etc"),
    ("%C3%A9", "\u{e9}"),
    ("e%CC%81", "e\u{301}"),
    ("%F0%9F%A6%80", "\u{1f980}"),
    ("%1b%5b2J", "\u{1b}[2J"),
    ("%0a", "\n"),
    ("%0D%0AX:%20y", "\r\nX: y"),
    ("%7f", "\u{7f}"),
    ("a:b@c;d,e=f&g", "a:b@c;d,e=f&g"),
    ("-", "-"),
    ("a/b/c/d/e", "a/b/c/d/e"),
    ("a%2Fb", "a/b"),
    ("%61%2fb/c", "a/b/c"),
    ("@scope%2fname", "@scope/name"),
    ("a/.../b", "a/.../b"),
    ("a/.data-server", "a/.data-server"),
    ("a/-/metrics", "a/-/metrics"),
    ("%C3%A9/%F0%9F%A6%80", "\u{e9}/\u{1f980}"),
    ("a/b%0a/c", "a/b\n/c"),
];

/// Paths that are no keys, and one with a space.
const BAD: &str = "
    . .. %2e %2E%2e .%2e ..%2foutside ../outside %2F %2Fa /a a//b a%2F/b a/%2Fb a%2F%2Fb a/. a/./b ./a ../a a/.. a/../b a/%2e%2e/b
    a%2F..%2Fb a/%2e %2e%2e%2fetc a/%00 a/b%00/c a/% a/%zz/b a/%C3/%A9 a/%FF -%2Fmetrics %2D/metrics %2d%2fhealthz
    .data-server/lock .data-server/clock .data-server/a/b .data-server-old/a %00 a%00b % a% %2 %zz %2g %%41 %c0%ae%c0%ae %C3 %A9%C3
    %ED%A0%80 %FF .data-server %2edata-server .data-server-old .data-server%2Flock .dat%61-server
    a/.data-server/lock a%2F.data-server%2Flock a/b/.data-server/c/d";
const BAD_WITH_A_SPACE: &str = "% 41";

#[test]
fn a_good_key_is_the_name_of_its_file() {
    let server = TestServer::start(&[]);
    let mut client = Client::new(server.addr);
    for (path, name) in GOOD {
        if !takes_key(name) {
            for method in ["PUT", "GET", "HEAD", "DELETE"] {
                assert_eq!(client.ask(method, path).status, 400, "{method} /{path}");
            }
            continue;
        }
        assert_eq!(client.put(path, path.as_bytes()).status, 200, "PUT /{path}");
        let found = server.dir.read(name);
        assert_eq!(found, path.as_bytes(), "the file of /{path}");
        assert_eq!(client.ask("GET", path).body, path.as_bytes(), "GET /{path}");
        assert_eq!(client.ask("HEAD", path).status, 200, "HEAD /{path}");
        let found = server.dir.names();
        assert_eq!(found, [name.as_bytes()], "the directory after PUT /{path}");
        assert_eq!(client.ask("DELETE", path).status, 200, "DELETE /{path}");
        server.dir.assert_holds(&[]);
    }
}

#[test]
fn a_bad_key_is_refused_by_every_method() {
    let server = TestServer::start(&[]);
    fs::write(server.dir.outside("outside"), "secret").expect("a file outside");
    let mut client = Client::new(server.addr);
    for path in words(BAD).into_iter().chain([BAD_WITH_A_SPACE]) {
        for method in ["GET", "HEAD", "DELETE"] {
            assert_eq!(client.ask(method, path).status, 400, "{method} /{path}");
        }
        assert_eq!(client.put(path, b"x").status, 400, "PUT /{path}");
        server.dir.assert_holds(&[]);
    }
    let outside = fs::read(server.dir.outside("outside"));
    assert_eq!(outside.expect("the file outside"), b"secret");
}

#[test]
fn what_ends_with_a_slash_is_a_listing_and_no_key() {
    let server = TestServer::start(&[]);
    let mut client = Client::new(server.addr);
    for (path, address) in [
        ("a/", None),
        ("a/b/", None),
        ("a%2F", Some("a/")),
        ("a%2fb%2f", Some("a/b/")),
    ] {
        assert_eq!(client.put(path, b"x").status, 400, "PUT /{path}");
        assert_eq!(client.ask("DELETE", path).status, 404, "DELETE /{path}");
        for method in ["GET", "HEAD"] {
            let got = client.ask(method, &format!("{path}?limit=1"));
            let kind = got.must("content-type");
            assert_eq!((got.status, kind), (200, "application/json"), "/{path}");
            let got = client.ask(method, path);
            let status = if address.is_some() { 302 } else { 200 };
            let seen = (got.status, got.header("location"));
            assert_eq!(seen, (status, address), "/{path}");
        }
    }
    for path in ["-/", "-/a", "-/a/"] {
        for (method, status) in [("GET", 404), ("DELETE", 404)] {
            assert_eq!(client.ask(method, path).status, status, "{method} /{path}");
        }
        assert_eq!(client.put(path, b"x").status, 400, "PUT /{path}");
    }
    for path in words("/ a// %2F %2F/ ../ a/../ a/%00/ .data-server/ a/.data-server/ %2D/") {
        assert_eq!(client.ask("GET", path).status, 400, "GET /{path}");
    }
    server.dir.assert_holds(&[]);
}

/// A snapshot of the file system below the directory, or a copy of the directory there: its journal may hold values of
/// any key.
#[test]
fn what_the_server_keeps_in_a_copy_of_the_directory_is_no_key() {
    directory_only!("files of the directory");
    let server = TestServer::start(&["--max-size", "1MiB"]);
    for key in ["copy/k", "copy/.data-server-2"] {
        server.store(key, "v");
    }
    for own in ["copy/.data-server/journal/0", "copy/.data-server/clock"] {
        server.dir.place(own, "another's value");
        assert_eq!(server.get(own).status, 400, "{own}");
    }
    for (listing, count) in [("?limit=9", 2), ("?prefix=copy/.data-server", 1)] {
        let listed = server.get(listing).json();
        let found = listed["keys"].as_array().map(Vec::len);
        assert_eq!(found, Some(count), "{listed}");
    }
    let counted = || server.get("-/metrics").text();
    let is_right = counted().contains("data_server_bound_keys{prefix=\"\"} 2\n");
    assert!(is_right, "{}", counted());
    let copied = server.request("COPY", "/copy/", "Destination: /to/\r\n", b"");
    copied.says(200, r#"{"copied":2,"stayed":0,"why":[]}"#);
    assert!(!server.dir.file("to/.data-server").exists());
    let archive = server.request("GET", "/copy/?archive=tar", "", b"").body;
    assert!(!archive.windows(7).any(|part| part == b"another"));
    let removed = server.request("DELETE", "/copy/", "Depth: infinity\r\n", b"");
    removed.says(409, r#""removed":2,"stayed":1"#);
    assert!(server.dir.file("copy/.data-server/clock").exists());
}

/// A store counts the prefix in: where the key itself is short enough, it is the store that refuses it.
fn is_beyond_a_store(server: &TestServer, path: &str) -> bool {
    let len = percent_encoding::percent_decode_str(path).count();
    let prefix = server.dir.bucket().map_or(0, |bucket| bucket.prefix.len());
    len <= 1024 && len + prefix > 1024
}

#[test]
fn a_segment_has_at_most_255_bytes_after_decoding_and_a_key_1024() {
    let server = TestServer::start(&["--max-key-depth", "512"]);
    let mut client = Client::new(server.addr);
    let longest = [&*"x".repeat(255); 4].join("/");
    assert_eq!(longest.len(), 1023);
    let cases = [
        ("x".repeat(255), 200),
        ("x".repeat(256), 414),
        ("x".repeat(4000), 414),
        ("%78".repeat(255), 200),
        ("%78".repeat(256), 414),
        ("%C3%A9".repeat(127) + "x", 200),
        ("%C3%A9".repeat(128), 414),
        (longest.replace('/', "%2F"), 200),
        (longest.replace('x', "%78"), 200),
        (format!("{longest}/a"), 414),
        ("a/".repeat(511) + "ab", 200),
        ("a/".repeat(512) + "a", 414),
        ("a/".repeat(3000) + "a", 414),
    ];
    for (path, status) in cases {
        let shown = format!("{} bytes of /{}...", path.len(), &path[..6]);
        let put = client.put(&path, b"v").status;
        let is_beyond = is_beyond_a_store(&server, &path);
        let status = if is_beyond { 400 } else { status };
        assert_eq!(put, status, "PUT {shown}");
        for method in ["GET", "HEAD", "DELETE"] {
            assert_eq!(client.ask(method, &path).status, status, "{method} {shown}");
        }
        server.dir.assert_holds(&[]);
    }
}

/// Any bytes, encoded in any mixture of raw and `%XX`, are stored under exactly those bytes or refused as the rules
/// say.
#[test]
fn any_bytes_in_any_encoding_follow_the_rules() {
    let server = TestServer::start(&[]);
    let client = RefCell::new(Client::new(server.addr));
    let segment = prop_oneof![
        8 => vec(any::<char>(), 1..20).prop_map(|chars| chars.into_iter().collect::<String>().into_bytes()),
        1 => vec(b'a'..=b'z', 250..257),
        1 => vec(prop_oneof![b'-'..=b'/'], 0..3),
    ];
    let bytes = prop_oneof![
        4 => vec(segment, 1..6).prop_map(|segments| segments.join(&b'/')),
        4 => vec(any::<char>(), 1..100).prop_map(|chars| chars.into_iter().collect::<String>().into_bytes()),
        2 => vec(prop_oneof![b' '..=b'~', b'.'..=b'/'], 1..300),
        1 => vec(any::<u8>(), 1..20),
        1 => vec(b'a'..=b'z', 250..260),
        1 => vec(b'a'..=b'z', 0..4).prop_map(|tail| [b".data-server", &tail[..]].concat()),
    ];
    let cases = (bytes, vec(any::<u8>(), 16));
    let mut runner = TestRunner::new(Config {
        cases: 300,
        failure_persistence: None,
        ..Config::default()
    });
    let outcome = runner.run(&cases, |(bytes, choices)| {
        let path = encode(&bytes, &choices);
        check(&server, &mut client.borrow_mut(), &bytes, &path).map_err(TestCaseError::fail)
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

fn check(server: &TestServer, client: &mut Client, bytes: &[u8], path: &str) -> Result<(), String> {
    let allowed = verdicts(bytes);
    let put = client.put(path, bytes).status;
    if !allowed.contains(&put) {
        return Err(format!("PUT /{path}: {put}, not one of {allowed:?}"));
    }
    let names = server.dir.names();
    let get = client.ask("GET", path);
    if put == 200 {
        let same = names == [bytes] && get.status == 200 && get.body == bytes;
        let deleted = client.ask("DELETE", path).status == 200 && server.dir.names().is_empty();
        return (same && deleted)
            .then_some(())
            .ok_or(format!("/{path}: {get:?} with {names:?} on disk"));
    }
    if bytes.is_empty() || bytes.ends_with(b"/") {
        // To read, it is a folder: the empty path is the directory itself. HTML has one address, without an encoded
        // slash.
        let moved = get.status == 302 && path.to_ascii_lowercase().contains("%2f");
        let listed = moved || matches!(get.status, 200 | 400 | 404 | 414);
        return (names.is_empty() && listed)
            .then_some(())
            .ok_or(format!("/{path}: {get:?}"));
    }
    // The pages of the server are not found, whatever the method.
    let same = get.status == put || (path.starts_with("-/") && get.status == 404);
    let refused = names.is_empty() && same;
    refused.then_some(()).ok_or(format!(
        "/{path}: PUT {put} but GET {} with {names:?} on disk",
        get.status
    ))
}

/// The rules of the design, said once more; a key both overlong and bad may be called either.
fn verdicts(bytes: &[u8]) -> Vec<u16> {
    let segments: Vec<_> = bytes.split(|&byte| byte == b'/').collect();
    let bad = bytes.contains(&0)
        || segments.iter().any(|s| matches!(*s, b"" | b"." | b".."))
        || bytes.starts_with(b".data-server")
        || segments[..segments.len() - 1].contains(&&b".data-server"[..])
        || bytes.starts_with(b"-/")
        || std::str::from_utf8(bytes).map_or(true, |key| !takes_key(key));
    let long = bytes.len() > 1024 || segments.iter().any(|segment| segment.len() > 255);
    match (bad, long) {
        (false, false) => vec![200],
        (true, false) => vec![400],
        (false, true) => vec![414],
        (true, true) => vec![400, 414],
    }
}

/// Encodes what must be, and of the rest what `choices` says.
fn encode(bytes: &[u8], choices: &[u8]) -> String {
    let encoded = bytes
        .iter()
        .zip(choices.iter().cycle())
        .map(|(byte, choice)| {
            let may_be_raw = byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@/".contains(byte);
            match (may_be_raw, choice % 3) {
                (true, 0 | 1) => char::from(*byte).to_string(),
                (_, 2) => format!("%{byte:02x}"),
                _ => format!("%{byte:02X}"),
            }
        });
    encoded.collect()
}

/// `a/a/.../k`, of so many segments.
fn deep(segments: usize) -> String {
    format!("{}k", "a/".repeat(segments - 1))
}

#[test]
fn a_key_that_is_stored_has_at_most_as_many_segments_as_max_key_depth() {
    for (args, most) in [(&[][..], 32), (&["--max-key-depth", "3"], 3)] {
        let server = TestServer::start(args);
        let slashes = deep(most + 1).replace('/', "%2F");
        for path in [deep(most + 1), deep(512), slashes] {
            let uploads = [
                ("PUT", ""),
                ("PUT", "Upload-Complete: ?0\r\n"),
                ("POST", "Upload-Complete: ?1\r\n"),
            ];
            for (method, lines) in uploads {
                let has_body = method == "POST";
                let length = if has_body {
                    "Content-Length: 1\r\n"
                } else {
                    ""
                };
                let lines = format!("{length}{lines}");
                let refused = server.request(method, &format!("/{path}"), &lines, b"v");
                let text = refused.text();
                assert_eq!(refused.status, 400, "{method} {text}");
                let is_right = text.contains(&format!("({most}, --max-key-depth)"));
                assert!(is_right, "{text}");
            }
        }
        server.dir.assert_holds(&[]);
        let last = deep(most);
        server.store(&last, "v");
        assert_eq!(server.get(&last).body, b"v");
    }
}

#[test]
fn a_deeper_key_that_is_there_is_read_listed_and_removed() {
    let server = TestServer::start(&["--max-key-depth", "2"]);
    let key = deep(100);
    server.dir.place(&key, "v");
    assert_eq!(server.get(&key).body, b"v");
    let list = server.get("?limit=1").body;
    assert!(String::from_utf8_lossy(&list).contains(&key), "{list:?}");
    assert_eq!(server.put(&key, "w").status, 400);
    assert_eq!(server.ask("DELETE", &key).status, 200);
    // Its folders are those of a hand.
    let (folders, _) = key.rsplit_once('/').expect("folders");
    server.dir.assert_holds(by_engine(&[folders], &[]));
}
