//! Proves what the fields of a MOVE and a COPY mean: Destination, Overwrite, and the preconditions of both ends.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::send;
use crate::support::prelude::*;

const METHODS: [&str; 2] = ["MOVE", "COPY"];

#[test]
fn a_destination_is_a_path_or_an_address_of_this_server() {
    directory_only!("moves");
    let args = "--allowed-host t --allowed-host other.example --trusted-proxy 127.0.0.1";
    let server = TestServer::start(&words(args));
    server.dir.place("b", "v");
    let host = "X-Forwarded-Host: outside.example";
    for (to, status) in [
        ("/a", 204),
        ("/%61", 204),
        ("http://t/a", 204),
        ("HTTPS://T/a", 204),
        ("http://t:80/a", 204),
        ("http://other.example/a", 204),
        ("http://localhost/a", 204),
        ("http://outside.example/a", 204),
        ("http://t:81/a", 502),
        ("http://other.example:81/a", 502),
        ("http://evil.example/a", 502),
        ("ftp://t/a", 502),
        ("http:///a", 400),
        ("http://u@t/a", 502),
        ("//t/a", 400),
        ("a", 400),
        ("*", 400),
        ("", 400),
        ("t:80", 400),
        ("/a?x", 400),
        ("/a#x", 400),
        ("/a b", 400),
        ("/a%zz", 400),
        ("/%00", 400),
        ("/..", 400),
        ("/-/metrics", 400),
        ("/.data-server/x", 400),
        ("/b", 403),
        ("/%62", 403),
        ("/", 400),
        ("/in/", 400),
        ("http://t/in/", 400),
    ] {
        let is_made = if status == 204 { "=v" } else { "=old" };
        server.talk(&format!(
            "place a old\nCOPY /b {to} ; {status} ; {host}\nGET /a ; 200 ; ; {is_made}"
        ));
    }
    server.talk(
        "
        MOVE,COPY /b /a ; 400 ; Destination: /c ; percent-encoded, without query and fragment
        MOVE,COPY /gone /c ; 404 ; ; the path of a folder ends with '/'
        MOVE,COPY / /c ; 400 ; ; a folder is moved and copied to a folder
        MOVE,COPY /in/ /c ; 400 ; ; a folder is moved and copied to a folder
        MOVE,COPY /in%2F /c ; 400 ; ; a folder is moved and copied to a folder",
    );
    for method in METHODS {
        let without = server.request(method, "/b", "", b"");
        without.says(400, "need one Destination");
    }
}

/// A client that no proxy speaks for says nothing of the host.
#[test]
fn the_host_of_a_proxy_counts_only_where_proxies_are_trusted() {
    directory_only!("moves");
    for args in [&[][..], &["--trusted-proxy", "10.9.0.0/16"]] {
        let server = TestServer::start(args);
        server.dir.place("b", "v");
        let lines = "X-Forwarded-Host: outside.example\r\n";
        let to = "http://outside.example/a";
        let answer = send(&mut server.connect(), "COPY", "/b", to, lines);
        assert_eq!(answer.status, 502, "{args:?}");
    }
}

/// As `WebDAV` clients send it: with the address that they have, of which the server knows only a part.
#[test]
fn a_destination_behind_a_proxy_is_without_the_path_that_the_proxy_has_in_front_of_the_server() {
    directory_only!("moves");
    let host = "X-Forwarded-Host: site.example\r\n";
    for trusts in [true, false] {
        let trust = [
            "--trusted-proxy",
            if trusts { "127.0.0.1" } else { "10.9.0.0/16" },
        ];
        let server = TestServer::start(&trust);
        for method in METHODS {
            for (prefix, to, key) in [
                ("/files", "https://site.example/files/c", Some("c")),
                (
                    "/files/",
                    "http://site.example/files/a/c%20d",
                    Some("a/c d"),
                ),
                (
                    "/files",
                    "https://site.example/files/files/c",
                    Some("files/c"),
                ),
                ("/a/b", "https://site.example/a/b/c", Some("c")),
                ("/files", "https://site.example/c", None),
                ("/files", "https://site.example/filesc", None),
                ("/files", "https://site.example/files", None),
                ("/files", "https://evil.example/files/c", None),
                // One that says nothing of use, and paths with it and without.
                ("/a/../b", "https://site.example/c", Some("c")),
                ("/files", "/files/c", Some("c")),
                ("/files", "/files/files/c", Some("files/c")),
                ("/files", "/filesc", Some("filesc")),
                ("/files", "/c", Some("c")),
            ] {
                server.dir.place("from/x", "v");
                let lines = format!("X-Forwarded-Prefix: {prefix}\r\n{host}");
                let answer = send(&mut server.connect(), method, "/from/x", to, &lines);
                // Of a proxy that is not trusted, a path is one of this server.
                let key = match to.strip_prefix('/') {
                    Some(path) if !trusts => Some(path),
                    _ => key.filter(|_| trusts),
                };
                let expected = if key.is_some() { 201 } else { 502 };
                assert_eq!(answer.status, expected, "{method} {prefix} {to}");
                if let Some(key) = key {
                    assert_eq!(server.dir.read(key), b"v", "{to}");
                    assert_eq!(server.ask("DELETE", &key.replace(' ', "%20")).status, 200);
                }
            }
            // A folder.
            server.dir.place("of/x", "v");
            let lines = format!("X-Forwarded-Prefix: /files\r\n{host}");
            let to = if trusts {
                "/files/to/"
            } else {
                "https://site.example/files/to/"
            };
            let answer = send(&mut server.connect(), method, "/of/", to, &lines);
            let found = answer.status / 100;
            assert_eq!(found, if trusts { 2 } else { 5 }, "{method} {answer:?}");
            assert_eq!(server.get("to/x").status, if trusts { 200 } else { 404 });
            server.request("DELETE", "/to/", "Depth: infinity\r\n", b"");
        }
    }
}

#[test]
fn overwrite_and_preconditions_of_both_ends_are_kept() {
    directory_only!("moves");
    for args in [&[][..], &["--durability", "disk"]] {
        let server = Launch::new(args).start();
        for method in METHODS {
            let rows = "
                place a source
                place b destination
                METHOD /a /b ; 412 ; Overwrite: F
                METHOD /a /b ; 412 ; Overwrite: F | Destination-If-Match: @b
                METHOD /a /b ; 412 ; If-Match: @b
                METHOD /a /b ; 412 ; If-None-Match: @a
                METHOD /a /b ; 412 ; If-None-Match: *
                METHOD /a /b ; 412 ; If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT
                METHOD /a /b ; 412 ; Destination-If-Match: @a
                METHOD /a /b ; 412 ; Destination-If-None-Match: @b
                METHOD /a /b ; 412 ; Destination-If-None-Match: *
                METHOD /a /b ; 412 ; Destination-If-None-Match: b
                METHOD /a /c ; 412 ; Destination-If-Match: *
                METHOD /a /b ; 400 ; Overwrite: t
                METHOD /a /b ; 400 ; Overwrite: 0
                METHOD /a /b ; 400 ; Overwrite: T, F
                METHOD /a /b ; 400 ; Overwrite:
                GET /b ; 200 ; ; =destination
                METHOD /a /b ; 204 ; If-Match: @a | Destination-If-Match: @b | Overwrite: T | Depth: infinity
                PUT /a again ; 200
                METHOD /a /new ; 201 ; Overwrite: F | Destination-If-None-Match: *
                DELETE /new ; 200";
            server.talk(&rows.replace("METHOD", method));
        }
    }
}

/// What is asked of values and folders, and the status: none of it takes a body.
const WITHOUT_BODY: [(&str, &str, &str, u16); 7] = [
    ("COPY", "/a", "/copy", 201),
    ("MOVE", "/copy", "/moved", 201),
    ("DELETE", "/moved", "", 200),
    ("MKCOL", "/made/", "", 415),
    ("COPY", "/in/", "/other/", 200),
    ("MOVE", "/other/", "/out/", 201),
    ("DELETE", "/out/", "", 200),
];

#[test]
fn a_short_body_that_is_not_used_leaves_the_connection_open() {
    directory_only!("moves");
    let server = TestServer::start(&["--max-body", "10"]);
    server.store_each("a in/k", "v");
    let mut raw = server.connect();
    let length = |length: usize| (format!("Content-Length: {length}\r\n"), vec![b'G'; length]);
    let in_chunks = |length: usize| {
        let body = crate::support::in_chunks(&vec![b'G'; length], 1000);
        ("Transfer-Encoding: chunked\r\n".to_owned(), body)
    };
    for ((framing, body), is_empty, is_short) in [
        (length(0), true, true),
        (length(4), false, true),
        (length(64 << 10), false, true),
        (in_chunks(0), true, true),
        (in_chunks(4), false, true),
        (in_chunks(60 << 10), false, true),
        (length(100 << 10), false, false),
        (in_chunks(100 << 10), false, false),
    ] {
        for (method, target, to, status) in WITHOUT_BODY {
            let case = format!("{method} {target} {framing} {}", body.len());
            let lines = format!("Destination: {to}\r\nDepth: infinity\r\n{framing}");
            let answer = ask(&mut raw, method, target, &lines, &body);
            let made = method == "MKCOL" && is_empty;
            assert_eq!(answer.status, if made { 201 } else { status }, "{case}");
            if made {
                server.request("DELETE", target, "Depth: infinity\r\n", b"");
            }
            // A stream of HTTP/2 ends alone.
            assert_eq!(answer.closes(), !is_short && !is_http2(), "{case}");
            if !is_short {
                raw = server.connect();
            }
            assert_eq!(raw.get("a").body, b"v", "{case}");
        }
    }
}

#[test]
fn nothing_is_done_whose_body_breaks_off() {
    directory_only!("moves");
    let server = TestServer::start(&[]);
    server.store_each("a in/k", "v");
    for (method, target, to) in [
        ("COPY", "/a", "/b"),
        ("MOVE", "/a", "/b"),
        ("DELETE", "/a", ""),
        ("MKCOL", "/made/", ""),
        ("COPY", "/in/", "/out/"),
        ("MOVE", "/in/", "/out/"),
        ("DELETE", "/in/", ""),
    ] {
        let mut raw = server.connect();
        let lines = format!("Destination: {to}\r\nDepth: infinity\r\nContent-Length: 4\r\n");
        raw.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: t\r\n{lines}\r\n123"
        ));
        raw.break_off();
    }
    server.dir.assert_holds(&["a", "in/k"]);
}

#[test]
fn the_methods_are_announced() {
    directory_only!("moves");
    let server = TestServer::start(&["--cors-origin", "https://app.example"]);
    let mut raw = server.connect();
    raw.put("a", "v");
    assert_eq!(send(&mut raw, "MOVE", "/a", "/b", "").status, 201);
    let page = "Origin: https://app.example\r\nAccess-Control-Request-Method: MOVE\r\n";
    let options = ask(&mut raw, "OPTIONS", "/b", page, b"");
    for field in ["allow", "access-control-allow-methods"] {
        assert!(options.must(field).contains("MOVE, COPY"), "{options:?}");
    }
    let unknown = ask(&mut raw, "BREW", "/b", "", b"");
    unknown.says(
        405,
        "this path takes GET, HEAD, PUT, DELETE, MOVE, COPY, MKCOL, OPTIONS",
    );
    assert!(unknown.must("allow").contains("MOVE, COPY"));
    for (option, status) in [("--read-only", 403), ("--compat", 404)] {
        let server = TestServer::start(&[option]);
        let answer = send(&mut server.connect(), "MOVE", "/b", "/c", "");
        assert_eq!(answer.status, status, "{option}");
        // The text names only what is there.
        let unknown = server.request("BREW", "/b", "", b"").text();
        assert!(!unknown.contains("MOVE"), "{option}: {unknown}");
    }
}

#[test]
fn a_name_that_is_a_digest_takes_its_value_alone() {
    directory_only!("moves");
    let dir = DataDir::temporary();
    let config = dir.outside("config.toml");
    fs::write(
        &config,
        "[[content]]\nprefix = \"cas/\"\nname = \"sha256\"\n",
    )
    .unwrap();
    let server = Launch::new(&["--config", config.to_str().unwrap(), "--max-body", "1MiB"])
        .on(&dir)
        .start();
    let mut raw = server.connect();
    raw.put("a", "v");
    let right = "4c94485e0c21ae6c41ce1dfe7b6bfaceea5ab68e40a2476f50208e526f506080";
    let wrong = right.replace('4', "5");
    for method in ["COPY", "MOVE"] {
        let refused = send(&mut raw, method, "/a", &format!("/cas/{wrong}"), "");
        refused.says(400, "digest");
        assert_eq!(send(&mut raw, method, "/a", "/cas/a", "").status, 400);
        let done = send(&mut raw, method, "/a", &format!("/cas/{right}"), "");
        assert!(done.status < 300, "{done:?}");
    }
    server.dir.place("large", vec![0; 2 << 20]);
    for method in METHODS {
        assert_eq!(send(&mut raw, method, "/large", "/b", "").status, 413);
    }
}

/// Texts that a client may name as the destination, as a regular expression.
const TEXTS: &str = "[ -~]{0,12}|/[a%2Fc.\\-/?#:@]{0,8}|https?://(t|x|t:80)/[a-c%/]{0,5}";

/// Whatever a client names as the destination: the value goes to the key that a GET of that path finds, or stays.
#[test]
fn any_destination_is_a_key_or_refused() {
    directory_only!("moves");
    let server = TestServer::start(&[]);
    server.dir.place("source", "v");
    let config = ProptestConfig::with_cases(scaled(200, 2000));
    let made = std::cell::Cell::new(0);
    let tried = TestRunner::new(config).run(&TEXTS, |to| {
        let mut raw = server.connect();
        let answer = send(&mut raw, "COPY", "/source", &to, "");
        let statuses = [201, 204, 400, 403, 409, 414, 501, 502];
        prop_assert!(statuses.contains(&answer.status), "{to:?} {answer:?}");
        if answer.status < 300 {
            let text = to.trim();
            let path = text.find("://").map_or(text, |at| {
                let rest = &text[at + 3..];
                &rest[rest.find('/').unwrap_or(0)..]
            });
            let found = server.request("GET", path, "", b"");
            prop_assert_eq!(
                (found.status, &found.body[..]),
                (200, &b"v"[..]),
                "{:?}",
                to
            );
            let removed = server.request("DELETE", path, "", b"");
            prop_assert_eq!(removed.status, 200);
            made.set(made.get() + 1);
        }
        Ok(())
    });
    tried.expect("a key or a refusal");
    assert!(made.get() > 0, "nothing was copied");
}

#[test]
fn what_would_be_dropped_and_change_what_is_done_is_refused() {
    directory_only!("moves");
    TestServer::start(&[]).talk(
        "
        PUT /a v ; 200
        MOVE,COPY /a /b ; 400 ; X-Delete-After: 60 ; take no x-delete-after
        MOVE,COPY /a /b ; 400 ; X-Delete-At: 32503680000 ; take no x-delete-at
        MOVE,COPY /a /b ; 400 ; Destination-If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT ; take no destination-if-unmodified-since
        MOVE,COPY /a /b ; 400 ; Destination-If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT ; take no destination-if-modified-since",
    );
}

/// As of a PUT, whose conditions are decided before its body is read.
#[test]
fn nothing_is_copied_over_what_may_not_be_replaced() {
    directory_only!("free space");
    TestServer::start(&["--min-free", "1000TB"]).talk(
        "
        place a {v200000}
        place b v
        COPY /a /b ; 507
        COPY /a /b ; 412 ; Overwrite: F ; the destination has a value, which is not to be replaced",
    );
}

/// A condition that is not tested does not hold.
#[test]
fn no_change_is_made_under_the_field_if_of_webdav() {
    directory_only!("moves");
    let server = TestServer::start(&[]);
    let lines = "If: (<urn:uuid:181d4fae-7d8c-11d0-a765-00a0c91e6bf2>)\r\nDestination: /b\r\n";
    server.dir.place("a", "v");
    fs::create_dir(server.dir.file("folder")).expect("a folder");
    let upload = Resumable::create(&mut server.connect(), "part", "", b"first ");
    for (method, path) in [
        ("POST", "/-/upload"),
        ("PATCH", &upload.path),
        ("DELETE", &upload.path),
        ("MOVE", "/a"),
        ("COPY", "/a"),
        ("PUT", "/a"),
        ("DELETE", "/a"),
        ("MKCOL", "/new"),
        ("DELETE", "/folder/"),
        ("PUT", "/folder/?archive=tar"),
    ] {
        let problem = format!("{lines}Accept: application/problem+json\r\n");
        let refused = server.request(method, path, &problem, b"");
        assert_eq!(refused.status, 501, "{method} {path} {refused:?}");
        let text = String::from_utf8_lossy(&refused.body);
        assert!(text.contains("problem:if-field"), "{text}");
    }
    assert_eq!(server.request("GET", "/a", lines, b"").status, 200);
    server.dir.assert_holds(&["a", "folder"]);
}
