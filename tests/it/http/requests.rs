//! Requests that said more than the server understood, or less than it took them for, were answered 200: a part of a
//! form in base64 was stored as text, a type that curl adds by itself was kept. Proves that what a request says is
//! understood or refused.

use crate::support::prelude::*;

/// Posts a form with one file `f`, whose part has these lines too, in a request with these.
fn post(server: &TestServer, lines: &str, part: &str, data: &str) -> Response {
    let form = format!(
        "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n{part}\r\n{data}\r\n--B--\r\n"
    );
    let lines = format!(
        "{lines}Content-Type: multipart/form-data; boundary=B\r\nContent-Length: {}\r\n",
        form.len()
    );
    server.request("POST", "/-/upload", &lines, form.as_bytes())
}

#[test]
fn what_a_part_of_a_form_says_of_its_data_is_understood_or_refused() {
    let server = TestServer::start(&[]);
    for coding in ["binary", "7BIT"] {
        let part = format!("Content-Transfer-Encoding: {coding}\r\nX-Own: 1\r\n");
        assert_eq!(post(&server, "", &part, coding).status, 200, "{coding}");
        assert_eq!(server.get("f").body, coding.as_bytes());
        assert_eq!(server.ask("DELETE", "f").status, 200);
    }
    // Of each kind one: src/http/forms has the others.
    for part in ["Content-Transfer-Encoding: base64", "Content-MD5: AAAA"] {
        let refused = post(&server, "", &format!("{part}\r\n"), "aGVsbG8K");
        assert_eq!(refused.status, 400, "{part}");
        server.dir.assert_holds(&[]);
    }
    // Nobody would compare these with a file.
    for lines in [
        "Content-Digest: sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:\r\n",
        "Content-MD5: 1B2M2Y8AsgTpgAmY7PhCfg==\r\n",
    ] {
        post(&server, lines, "", "v").says(400, "no digest of a form");
    }
    server.dir.assert_holds(&[]);
    // Nor is one that comes behind the form without a word: its file is stored by then, which the answer tells.
    let form = b"--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nv\r\n--B--\r\n";
    let mut raw = server.connect();
    raw.send(
        "POST /-/upload HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\
         Content-Type: multipart/form-data; boundary=B\r\n\r\n",
    );
    raw.send(chunked([&form[..]]));
    let refused = raw.ask("0\r\nRepr-Digest: sha-256=:AAAA:\r\n\r\n");
    refused.says(400, "no digest of a form");
    refused.says(400, "stored before: f");
}

#[test]
fn a_compressed_picture_and_a_value_that_is_not_to_be_transformed_are_not_compressed_again() {
    let server = TestServer::start(by_engine(&["--compress"], &[]));
    let picture = pattern(1, 5000);
    server.store("a.svgz", &picture);
    let got = server.request("GET", "/a.svgz", "Accept-Encoding: gzip\r\n", b"");
    assert_eq!(got.must("content-type"), "image/svg+xml");
    assert_eq!(got.must("content-encoding"), "gzip");
    assert!(got.body == picture);
    for (key, lines, coding) in [
        ("/d/A.SVGZ", "", Some("gzip")),
        ("/a.svgz", "Content-Encoding: br\r\n", Some("br")),
        ("/a.svg", "", None),
        ("/svgz", "", None),
        ("/%C3%A9vgz", "", None),
    ] {
        assert_eq!(server.request("PUT", key, lines, b"v").status, 200);
        let got = server.request("GET", key, "", b"");
        assert_eq!(got.header("content-encoding"), coding, "{key}");
    }
    directory_only!("compression");
    let value = vec![b'a'; 5000];
    for (control, is_compressed) in [
        ("max-age=60", true),
        ("x=\"no-transform\"", true),
        ("max-age=60, No-Transform", false),
        ("public,no-transform", false),
    ] {
        let lines = format!("Content-Type: text/plain\r\nCache-Control: {control}\r\n");
        assert_eq!(server.request("PUT", "/k", &lines, &value).status, 200);
        for method in ["GET", "HEAD"] {
            let got = server.request(method, "/k", "Accept-Encoding: gzip\r\n", b"");
            let coding = got.header("content-encoding");
            assert_eq!(coding.is_some(), is_compressed, "{method} {control}");
        }
    }
}

#[test]
fn refusals_name_the_right_way() {
    TestServer::start(&[]).talk(
        "
        POST / ; 405 ; ; a form with files by POST to /-/upload
        DELETE /art/ ; 404 ; ; no folder of this name
        DELETE /art%2F ; 404 ; ; no folder of this name
        PUT /art/ ; 400 ; ; name a key in it
        PUT /a//b ; 400 ; ; a key has no empty segment: no '//'
        GET /?limt=5 ; 400 ; ; no parameter \"limt\"
        HEAD /art/?fromat=json ; 400
        GET /-/watch?prefx=a ; 400 ; ; prefix and since
        GET /?fbclid=x ; 200 ; Accept: text/html,*/*;q=0.8
        PUT /k v ; 200
        GET /k?limt=5 ; 200 ; ; =v",
    );
}
