//! Proves compression on request (RFC 9110, sections 8.4, 8.8.3.3 and 12.5.3): a coded body decodes to the value, a
//! coded representation has an entity tag of its own, and only a client that asks for it gets one.

use crate::support::prelude::*;

/// Text that can be compressed, of this length.
fn text(seed: u64, length: usize) -> Vec<u8> {
    let words = pattern(seed, length);
    let all = words.iter();
    let all = all.map(|b| b"etaoin shrdlu\n"[usize::from(b % 14)]);
    all.collect()
}

fn get(raw: &mut Raw, key: &str, lines: &str) -> Response {
    ask(raw, "GET", &format!("/{key}"), lines, b"")
}

/// The body without its coding.
pub(crate) fn decoded(got: &Response) -> Vec<u8> {
    match got.header("content-encoding") {
        Some("gzip") => {
            let mut value = Vec::new();
            let mut decoder = flate2::read::GzDecoder::new(&got.body[..]);
            decoder.read_to_end(&mut value).expect("gzip");
            value
        }
        None => got.body.clone(),
        Some(other) => panic!("Content-Encoding: {other}"),
    }
}

/// Servers with `k<length>.txt` of several sizes; the small ones are cached, and not cached.
fn each_server(test: impl Fn(&TestServer, &[(String, Vec<u8>)])) {
    for cache in ["64MiB", "0"] {
        let args = ["--compress", "--cache", cache];
        let server = Launch::new(&args).on(&DataDir::temporary()).start();
        let values: Vec<_> = [1025, 5_000, 30_000, 200_000, 800_000]
            .into_iter()
            .map(|length| (format!("k{length}.txt"), text(7, length)))
            .collect();
        for (key, value) in &values {
            server.store(key, value);
        }
        if cache != "0" {
            let mut raw = server.connect();
            eventually("small values are kept", || {
                get(&mut raw, "k5000.txt", "");
                server.proc().has_open(&server.dir.file("k5000.txt"))
            });
        }
        test(&server, &values);
    }
}

fn assert_decodes(raw: &mut Raw, key: &str, value: &[u8]) {
    let plain = get(raw, key, "");
    assert_eq!(plain.header("content-encoding"), None);
    assert_eq!(plain.must("accept-ranges"), "bytes");
    let vary = plain.all("vary");
    assert_eq!(vary, "accept-encoding", "12.5.5: it depends on it here too");
    assert_eq!(plain.length(), value.len());
    for coding in ["gzip", "x-gzip"] {
        let got = get(raw, key, &format!("Accept-Encoding: {coding}\r\n"));
        assert_eq!(got.must("content-encoding"), "gzip", "/{key}");
        assert!(decoded(&got) == *value, "/{key} in {coding}");
        let is_right = got.body.len() < value.len() * 9 / 10;
        assert!(is_right, "/{key} in {coding}: {}", got.body.len());
        assert_eq!(got.all("vary"), "accept-encoding");
        assert_eq!(got.must("content-type"), "text/plain; charset=utf-8");
        assert_eq!(got.must("last-modified"), plain.must("last-modified"));
        assert!(!got.closes());
    }
}

/// Each coding has a strong tag of its own, by 8.8.3.3, which is answered with 304; and HEAD has the headers of GET.
fn assert_own_tags_and_heads(raw: &mut Raw, key: &str) {
    // A response without a body may omit its framing (RFC 9112, 6.1).
    let headers = |got: &Response| {
        let kept = |name: &str| name != "date" && name != "transfer-encoding";
        let headers = got.headers.iter().filter(|(name, _)| kept(name)).cloned();
        headers.collect::<BTreeSet<_>>()
    };
    let mut tags = Vec::new();
    for coding in ["gzip", "identity"] {
        let accept = format!("Accept-Encoding: {coding}\r\n");
        let plain = get(raw, key, &accept);
        let head = ask(raw, "HEAD", &format!("/{key}"), &accept, b"");
        assert_eq!(headers(&head), headers(&plain), "/{key} in {coding}");
        let tag = plain.must("etag").to_owned();
        assert!(tag.starts_with('"') && !tags.contains(&tag), "{tag} twice");
        let condition = format!("{accept}If-None-Match: {tag}\r\n");
        for method in ["GET", "HEAD"] {
            let got = ask(raw, method, &format!("/{key}"), &condition, b"");
            let found = (got.status, got.must("etag"));
            assert_eq!(found, (304, &tag[..]), "/{key} in {coding}");
            assert_eq!(got.all("vary"), "accept-encoding", "15.4.5");
            assert_eq!(got.must("last-modified"), plain.must("last-modified"));
            assert!(!got.must("date").is_empty());
            for name in ["content-type", "transfer-encoding", "content-range"] {
                assert_eq!(got.header(name), None, "{method} /{key}");
            }
            // 8.6: if present, it is that of the 200.
            let length = got.header("content-length");
            assert!(length.is_none() || length == plain.header("content-length"));
        }
        tags.push(tag);
    }
}

fn assert_parts_are_never_coded(raw: &mut Raw, key: &str, value: &[u8]) {
    let line = "Accept-Encoding: gzip, br\r\nRange: bytes=5-99\r\n";
    let got = get(raw, key, line);
    let found = (got.status, got.header("content-encoding"));
    assert_eq!(found, (206, None), "/{key}");
    assert!(got.body == value[5..100]);
    assert_eq!(got.must("etag"), get(raw, key, "").must("etag"));
    let beyond = "Accept-Encoding: gzip\r\nRange: bytes=9999999-\r\n";
    assert_eq!(get(raw, key, beyond).status, 416);
    // 13.1.5: ranges are of the plain bytes, whose tag is another.
    let coded = get(raw, key, "Accept-Encoding: gzip\r\n");
    let lines = format!("Range: bytes=5-99\r\nIf-Range: {}\r\n", coded.must("etag"));
    let got = get(raw, key, &lines);
    assert_eq!(got.status, 200, "/{key}");
    assert!(decoded(&got) == *value);
}

#[test]
fn values_of_every_size_are_coded_and_tagged_rightly_and_parts_are_never_coded() {
    directory_only!("compression");
    each_server(|server, values| {
        let mut raw = server.connect();
        for (key, value) in values {
            assert_decodes(&mut raw, key, value);
            assert_own_tags_and_heads(&mut raw, key);
            assert_parts_are_never_coded(&mut raw, key, value);
        }
        // If-Match takes the tag of any coding of the current version, and of no other version.
        let (key, _) = &values[1];
        let coded = get(&mut raw, key, "Accept-Encoding: gzip\r\n");
        let coded = coded.must("etag");
        let swap = format!("If-Match: {coded}\r\n");
        for (seed, status) in [(8, 200), (9, 412)] {
            let path = format!("/{key}");
            let swapped = ask(&mut raw, "PUT", &path, &swap, &text(seed, 5000));
            assert_eq!(swapped.status, status);
        }
        let line = format!("If-None-Match: {coded}\r\n");
        let got = get(&mut server.connect(), key, &line);
        assert_eq!(got.status, 200, "the old version's tag");
    });
}

/// A cache between server and clients names the forms that it has, whatever this client takes. By 9110, 13.1.1 and
/// 15.4.5 the tag of a form is good for a client that gets this form alone.
#[test]
fn the_tag_of_the_compressed_form_stands_for_no_other_form() {
    directory_only!("compression");
    each_server(|server, values| {
        let mut raw = server.connect();
        for (key, value) in values {
            let coded = get(&mut raw, key, "Accept-Encoding: gzip\r\n");
            let (coded, plain) = (coded.must("etag").to_owned(), get(&mut raw, key, ""));
            let plain = plain.must("etag");
            assert_ne!(coded, plain);
            for accept in [
                "",
                "Accept-Encoding: identity\r\n",
                "Accept-Encoding: gzip;q=0\r\n",
                "Accept-Encoding: br, *;q=0, identity\r\n",
            ] {
                let mut asked = |lines: &str| get(&mut raw, key, &format!("{accept}{lines}"));
                for list in [coded.clone(), format!("\"x\", W/{coded}")] {
                    let got = asked(&format!("If-None-Match: {list}\r\n"));
                    let found = (got.status, got.header("content-encoding"), got.must("etag"));
                    assert_eq!(found, (200, None, plain), "{accept}");
                    assert!(got.body == *value);
                }
                let both = asked(&format!("If-None-Match: {coded}, {plain}\r\n"));
                assert_eq!((both.status, both.must("etag")), (304, plain), "{accept}");
                for range in ["", "Range: bytes=5-99\r\n"] {
                    let got = asked(&format!("If-Match: {coded}\r\n{range}"));
                    assert_eq!(got.status, 412, "{accept}{range}");
                    let got = asked(&format!("If-Range: {coded}\r\n{range}"));
                    let seen = (got.status, got.must("etag"));
                    assert_eq!(seen, (200, plain), "{accept}{range}");
                    assert!(got.body == *value);
                }
            }
            // One that takes it gets it, and never a part of the other form.
            for condition in ["If-Match", "If-Range"] {
                for range in ["", "Range: bytes=5-99\r\n", "Range: bytes=0-0,900-999\r\n"] {
                    let lines = format!("Accept-Encoding: gzip\r\n{condition}: {coded}\r\n{range}");
                    let got = get(&mut raw, key, &lines);
                    let found = (got.status, got.header("content-encoding"), got.must("etag"));
                    assert_eq!(found, (200, Some("gzip"), &*coded), "{lines}");
                    assert!(decoded(&got) == *value);
                }
            }
            // A digest is of the value itself.
            let lines = format!(
                "Accept-Encoding: gzip\r\nWant-Repr-Digest: sha-256=1\r\nIf-Match: {coded}\r\n"
            );
            assert_eq!(get(&mut raw, key, &lines).status, 412);
            let range = "Accept-Encoding: gzip\r\nRange: bytes=5-99\r\n";
            let got = get(
                &mut raw,
                key,
                &format!("{range}If-Match: {coded}, {plain}\r\n"),
            );
            assert_eq!((got.status, got.must("etag")), (206, plain));
        }
    });
}

#[test]
fn only_compressible_values_are_coded_and_none_by_default() {
    directory_only!("compression");
    let coded = |server: &TestServer, key: &str| {
        let got = get(&mut server.connect(), key, "Accept-Encoding: br, gzip\r\n");
        assert!(decoded(&got) == server.dir.read(key), "/{key}");
        (got.header("content-encoding").is_some(), got.all("vary"))
    };
    let server = TestServer::start(&["--compress"]);
    for length in [0, 1, 1024] {
        server.store("short.txt", text(1, length));
        assert!(!coded(&server, "short.txt").0, "{length} bytes");
    }
    for key in words("a.png a.jpg a.zip a.gz a a.mp4 a.epub a.woff2") {
        server.store(key, text(1, 5000));
        assert_eq!(coded(&server, key), (false, String::new()), "/{key}");
    }
    for key in words("a.txt a.html a.json a.svg a.js a.css a.wasm a.ttf") {
        server.store(key, text(1, 5000));
        let found = coded(&server, key);
        assert_eq!(found, (true, "accept-encoding".into()), "/{key}");
    }
    let server = TestServer::start(&[]);
    server.store("a.txt", text(1, 5000));
    assert_eq!(coded(&server, "a.txt"), (false, String::new()));
}

#[test]
fn a_coded_answer_over_http_1_0_ends_with_the_connection() {
    let server = needed!(TestServer::of_directory("compression", &["--compress"]));
    let value = text(3, 700_000);
    server.store("k.txt", &value);
    let mut raw = server.connect();
    raw.send("GET /k.txt HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n");
    let mut got = raw.head();
    let found = (got.status, got.header("transfer-encoding"));
    assert_eq!(found, (200, None), "RFC 9112, 6.1");
    got.body = raw.rest();
    assert!(decoded(&got) == value);
}

#[test]
fn a_value_truncated_while_it_is_coded_breaks_the_connection() {
    directory_only!("compression");
    let server = TestServer::start(&["--compress", "--threads", "1"]);
    server.store("k.txt", text(4, 8_000_000));
    let mut raw = Raw::connect_narrow(server.addr);
    raw.send("GET /k.txt HTTP/1.1\r\nHost: t\r\nAccept-Encoding: gzip\r\n\r\n");
    assert_eq!(raw.head().status, 200);
    server.dir.set_len("k.txt", 1000);
    let is_right = !raw.rest().ends_with(b"\r\n0\r\n\r\n");
    assert!(is_right, "a cut value must not look whole");
    assert_eq!(server.get("k.txt").length(), 1000);
}

#[test]
fn values_by_hand_and_by_put_are_coded_while_others_are_served() {
    directory_only!("compression");
    let server = TestServer::start(&["--compress", "--threads", "1"]);
    server.dir.place("big.txt", text(5, 4_000_000));
    server.store("small", "x");
    // More clients than compute threads, and none of them reads on.
    let mut waiting: Vec<Raw> = (0..8).map(|_| Raw::connect_narrow(server.addr)).collect();
    for raw in &mut waiting {
        raw.send("GET /big.txt HTTP/1.1\r\nHost: t\r\nAccept-Encoding: gzip\r\n\r\n");
    }
    for raw in &mut waiting {
        assert_eq!(raw.head().must("content-encoding"), "gzip");
    }
    assert_eq!(server.get("small").body, b"x");
    let line = "Accept-Encoding: gzip\r\n";
    let got = get(&mut server.connect(), "big.txt", line);
    let is_right = decoded(&got) == server.dir.read("big.txt");
    assert!(is_right, "slow readers hold no compute thread");
}
