//! Who asks: signatures of requests, of URLs and of chunks, made by code of the tests; and what is refused.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::support::policy::{bearer, revise, rule, subject, write_policy};
use crate::support::prelude::*;
use crate::support::s3::{Keys, Unsigned, digest, hex, time_text};

const SECRET: &str = "planted-secret-of-ann-0123456789";
pub(super) const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

pub(super) fn ann() -> Keys {
    Keys::new("ANN", SECRET)
}

fn policy() -> String {
    let all = ["read", "write", "delete", "list"];
    let key = format!("s3-key = \"ANN\"\ns3-secret = \"{SECRET}\"\n");
    [
        subject("ann"),
        key,
        rule("ann", "b/", &all),
        rule("anonymous", "b/open", &["read"]),
    ]
    .concat()
}

/// A server with this door and the bucket `b`.
pub(super) fn start(args: &[&str]) -> TestServer {
    let dir = DataDir::temporary();
    fs::create_dir(dir.path().join("b")).expect("a bucket");
    fs::write(dir.path().join("b/open"), "open").expect("a value");
    let path = write_policy(&dir, &policy());
    let args = [&["--access", &*path], args].concat();
    Launch::new(&args)
        .listen("s3+http://127.0.0.1:0")
        .on(&dir)
        .start()
}

/// A request of now, without a query.
pub(super) fn request<'a>(
    method: &'a str,
    path: &'a str,
    lines: &'a str,
    payload: &'a str,
) -> Unsigned<'a> {
    Unsigned {
        method,
        region: "eu-north-7",
        path,
        query: "",
        lines,
        payload,
        time: SystemTime::now(),
    }
}

/// The status of this request, with these lines besides, and the code of its error.
#[track_caller]
fn send(server: &TestServer, of: &Unsigned<'_>, more: &str, body: &[u8]) -> (u16, String) {
    let target = [of.path, of.query].join(if of.query.is_empty() { "" } else { "?" });
    let lines = format!("Content-Length: {}\r\n{}{more}", body.len(), of.lines);
    let answer = server.request(of.method, &target, &lines, body);
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let code = text
        .split_once("<Code>")
        .and_then(|(_, rest)| rest.split_once('<'));
    (
        answer.status,
        code.map_or(String::new(), |(code, _)| code.to_owned()),
    )
}

/// As `send`, signed by `keys`, in one word.
#[track_caller]
fn signed(server: &TestServer, keys: &Keys, of: &Unsigned<'_>, body: &[u8]) -> String {
    let (status, code) = send(server, of, &keys.sign(of), body);
    format!("{status} {code}").trim().to_owned()
}

#[track_caller]
pub(super) fn holds(server: &TestServer, value: &[u8]) {
    let found = fs::read(server.dir.path().join("b/key")).unwrap_or_default();
    assert!(found == value, "{:?}", String::from_utf8_lossy(&found));
}

#[test]
fn a_signed_request_is_of_its_subject() {
    directory_only!("buckets");
    let mut server = start(&["--audit-log", "--access-log"]);
    let value = digest(b"value");
    let put = request("PUT", "/b/key", "", &value);
    let ask = |keys: &Keys, of: &Unsigned<'_>, body: &[u8]| signed(&server, keys, of, body);
    assert_eq!(ask(&ann(), &put, b"value"), "200");
    holds(&server, b"value");
    for payload in [UNSIGNED, &value] {
        assert_eq!(
            ask(&ann(), &request("GET", "/b/key", "", payload), b""),
            "200"
        );
    }
    let elsewhere = request("PUT", "/c/key", "", UNSIGNED);
    assert_eq!(ask(&ann(), &elsewhere, b"x"), "403 AccessDenied");
    assert_eq!(
        ask(&Keys::new("BOB", SECRET), &put, b"value"),
        "403 InvalidAccessKeyId"
    );
    let wrong = Keys::new("ANN", "another secret of that length");
    assert_eq!(ask(&wrong, &put, b"value"), "403 SignatureDoesNotMatch");
    // What is signed is not what comes.
    assert_eq!(ask(&ann(), &put, b"other"), "400 BadDigest");
    holds(&server, b"value");
    // Unsigned: who it is, if anybody, and what everybody may.
    assert_eq!(
        send(&server, &request("GET", "/b/open", "", ""), "", b"").0,
        200
    );
    assert_eq!(
        send(&server, &request("GET", "/b/key", "", ""), "", b"").0,
        403
    );
    assert_eq!(
        send(
            &server,
            &request("GET", "/b/key", "", ""),
            &bearer("ann"),
            b""
        )
        .0,
        200
    );
    server.stop();
    let audit = server.audited("subject by result status");
    for told in [
        "ann s3-key changed 200",
        "ann s3-key refused 403",
        "- nothing refused 403",
    ] {
        assert!(audit.iter().any(|line| line == told), "{told}: {audit:?}");
    }
    let is_told = server
        .log()
        .iter()
        .any(|line| line.contains(SECRET) || line.contains("Signature="));
    assert!(!is_told, "a secret in the log");
}

#[test]
fn the_path_the_query_and_all_fields_are_signed() {
    directory_only!("buckets");
    let server = start(&[]);
    let folded = "x-amz-meta-a:  one   two \r\nUser-Agent: a  b\r\nAccept-Language: de\r\n";
    // The tests fold no spaces.
    let plain = "x-amz-meta-a: one two\r\nUser-Agent: a b\r\nAccept-Language: de\r\n";
    let put = request("PUT", "/b/a%20b%2Bc%7E", plain, UNSIGNED);
    let (status, code) = send(
        &server,
        &request("PUT", put.path, folded, ""),
        &ann().sign(&put),
        b"x",
    );
    assert_eq!((status, &*code), (200, ""));
    // As it is encoded by the rules, and sent in another way.
    let canonical = request("GET", "/b/a%20b%2Bc~", "", UNSIGNED);
    let sent = request("GET", "/b/a%20b+c~", "", "");
    assert_eq!(send(&server, &sent, &ann().sign(&canonical), b"").0, 200);
    let query = Unsigned {
        query: "list-type=2&prefix=a%20b",
        ..request("GET", "/b", "", UNSIGNED)
    };
    let signature = ann().sign(&query);
    assert_eq!(send(&server, &query, &signature, b"").0, 200);
    let turned = Unsigned {
        query: "prefix=a+b&list-type=2",
        ..query
    };
    assert_eq!(send(&server, &turned, &signature, b"").0, 200);
    for other in [
        Unsigned {
            query: "list-type=2&prefix=a",
            ..query
        },
        Unsigned { query: "", ..query },
        Unsigned {
            method: "HEAD",
            ..query
        },
        Unsigned {
            path: "/b/",
            ..query
        },
    ] {
        assert_eq!(
            send(&server, &other, &signature, b"").0,
            403,
            "{}?{}",
            other.path,
            other.query
        );
    }
    let more = format!("x-amz-meta-a: x\r\n{signature}");
    assert_eq!(
        send(&server, &query, &more, b""),
        (403, "AccessDenied".to_owned())
    );
}

#[test]
fn what_is_no_signature_is_refused() {
    directory_only!("buckets");
    let server = start(&[]);
    let of = request("GET", "/b/open", "", UNSIGNED);
    let good = ann().sign(&of);
    let v2 = "Authorization: AWS ANN:c2lnbmF0dXJl\r\n".to_owned();
    let changed = |from: &str, to: &str| good.replace(from, to);
    for (lines, expected) in [
        (v2, "InvalidRequest"),
        (
            changed("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"),
            "AuthorizationHeaderMalformed",
        ),
        (
            changed("Signature=", "Sign="),
            "AuthorizationHeaderMalformed",
        ),
        (
            changed(", Signature=", ", Signature=a, Signature="),
            "AuthorizationHeaderMalformed",
        ),
        (changed("/s3/", "/ec2/"), "AuthorizationHeaderMalformed"),
        (changed("=host;", "="), "AuthorizationHeaderMalformed"),
        (
            changed("x-amz-date: ", "x-amz-data: "),
            "AuthorizationHeaderMalformed",
        ),
        (
            changed("x-amz-content-sha256: UNSIGNED-PAYLOAD\r\n", ""),
            "AuthorizationHeaderMalformed",
        ),
        (
            format!("{good}Authorization: x\r\n"),
            "AuthorizationHeaderMalformed",
        ),
        (changed("eu-north-7", "eu-north-8"), "SignatureDoesNotMatch"),
    ] {
        let (_, code) = send(&server, &of, &lines, b"");
        assert_eq!(code, expected, "{lines}");
    }
    let both = Unsigned {
        query: "X-Amz-Signature=a",
        ..of
    };
    assert_eq!(
        send(&server, &both, &good, b"").1,
        "AuthorizationHeaderMalformed"
    );
    let v2 = Unsigned {
        query: "AWSAccessKeyId=ANN&Signature=a&Expires=9",
        ..of
    };
    assert_eq!(send(&server, &v2, "", b"").1, "InvalidRequest");
    for apart in [-16_i64, -14, 14, 16] {
        let by = Duration::from_secs(60 * apart.unsigned_abs());
        let now = SystemTime::now();
        let time = if apart < 0 { now - by } else { now + by };
        let of = Unsigned { time, ..of };
        let answer = server.request("GET", of.path, &ann().sign(&of), b"");
        let text = String::from_utf8_lossy(&answer.body);
        let is_told = text.contains("RequestTimeTooSkewed") && text.contains(&time_text(time));
        assert_eq!(is_told, apart.abs() > 15, "{apart}: {text}");
    }
}

#[test]
fn a_signed_url_is_good_for_its_request_and_its_time() {
    directory_only!("buckets");
    let mut server = start(&["--audit-log"]);
    let ask = |of: Unsigned<'_>, query: &str, body: &[u8]| {
        let (status, code) = send(&server, &Unsigned { query, ..of }, "", body);
        format!("{status} {code}").trim().to_owned()
    };
    let put = request("PUT", "/b/key", "", UNSIGNED);
    let get = Unsigned {
        method: "GET",
        ..put
    };
    let link = ann().presign(&put, 60);
    assert_eq!(ask(put, &link, b"value"), "200");
    holds(&server, b"value");
    assert_eq!(ask(get, &link, b""), "403 SignatureDoesNotMatch");
    assert_eq!(
        ask(
            Unsigned {
                path: "/b/other",
                ..put
            },
            &link,
            b""
        ),
        "403 SignatureDoesNotMatch"
    );
    assert_eq!(
        ask(put, &format!("{link}&x-id=a"), b"no"),
        "403 SignatureDoesNotMatch"
    );
    let with = request("PUT", "/b/key", "x-amz-meta-a: b\r\n", UNSIGNED);
    assert_eq!(ask(with, &link, b"no"), "403 AccessDenied");
    assert_eq!(ask(with, &ann().presign(&with, 60), b"value"), "200");
    let cached = Unsigned {
        query: "response-cache-control=no-store",
        ..get
    };
    assert_eq!(ask(get, &ann().presign(&cached, 604_800), b""), "200");
    for (seconds, expected) in [(0, "400"), (604_801, "400")] {
        let answer = ask(get, &ann().presign(&get, seconds), b"");
        assert_eq!(
            answer,
            format!("{expected} AuthorizationQueryParametersError")
        );
    }
    let before = SystemTime::now() - Duration::from_secs(100);
    let old = Unsigned {
        time: before,
        ..get
    };
    assert_eq!(ask(get, &ann().presign(&old, 99), b""), "403 AccessDenied");
    assert_eq!(ask(get, &ann().presign(&old, 200), b""), "200");
    let twice = format!("{link}&X-Amz-Expires=60");
    assert_eq!(
        ask(put, &twice, b"no"),
        "400 AuthorizationQueryParametersError"
    );
    holds(&server, b"value");
    server.stop();
    let signature = link.rsplit('=').next().expect("a signature");
    assert!(!server.log().iter().any(|line| line.contains(signature)));
    let audit = server.audited("subject by result status");
    assert!(
        audit.contains(&"ann s3-url changed 200".to_owned()),
        "{audit:?}"
    );
}

/// A body in chunks of 100 kB, with a CRC32 as trailer where those come, and signed where they are.
pub(super) fn chunked(of: &Unsigned<'_>, head: &str, value: &[u8]) -> Vec<u8> {
    let is_signed = of.payload.contains("HMAC");
    let (time, scope) = (time_text(of.time), of.scope());
    let mut previous = head
        .rsplit("Signature=")
        .next()
        .expect("one")
        .trim()
        .to_owned();
    let mut next = |what: &str, digest: &str| {
        let text = format!("AWS4-HMAC-SHA256-{what}\n{time}\n{scope}\n{previous}\n{digest}");
        previous = ann().sign_text(of, &text);
        previous.clone()
    };
    let mut body = Vec::new();
    for chunk in value.chunks(100_000).chain([&[][..]]) {
        let signature = next("PAYLOAD", &format!("{}\n{}", digest(b""), digest(chunk)));
        let extension = if is_signed {
            format!(";chunk-signature={signature}")
        } else {
            String::new()
        };
        body.extend(format!("{:x}{extension}\r\n", chunk.len()).bytes());
        body.extend(chunk);
        body.extend(if chunk.is_empty() { "" } else { "\r\n" }.bytes());
    }
    if of.payload.ends_with("TRAILER") {
        let trailer = format!(
            "x-amz-checksum-crc32:{}",
            STANDARD.encode(crc32fast::hash(value).to_be_bytes())
        );
        body.extend(format!("{trailer}\r\n").bytes());
        if is_signed {
            let digest = hex(&Sha256::digest(format!("{trailer}\n")));
            body.extend(
                format!("x-amz-trailer-signature:{}\r\n", next("TRAILER", &digest)).bytes(),
            );
        }
    }
    body.extend(b"\r\n");
    body
}

pub(super) const CHUNKED: [&str; 3] = [
    "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
];

/// The lines of a value of so many bytes in chunks.
pub(super) fn lines_of(payload: &str, len: usize) -> String {
    let trailer = if payload.ends_with("TRAILER") {
        "x-amz-trailer: x-amz-checksum-crc32\r\n"
    } else {
        ""
    };
    format!("Content-Encoding: aws-chunked\r\nx-amz-decoded-content-length: {len}\r\n{trailer}")
}

#[test]
fn a_value_in_chunks_is_stored_whole_or_not_at_all() {
    directory_only!("buckets");
    let server = start(&[]);
    // The longer ones are received past hyper.
    for len in [0, 5, 250_000, 700_000] {
        let value: Vec<u8> = (0..=250).cycle().take(len).collect();
        for payload in CHUNKED {
            let lines = lines_of(payload, len);
            let of = request("PUT", "/b/key", &lines, payload);
            let head = ann().sign(&of);
            let body = chunked(&of, &head, &value);
            assert_eq!(
                send(&server, &of, &head, &body),
                (200, String::new()),
                "{payload} {len}"
            );
            holds(&server, &value);
            let got = server.request("GET", "/b/key", &bearer("ann"), b"");
            assert_eq!(got.header("content-encoding"), None);
            // One byte is another, of the value where that has one, or of what stands behind it.
            let mut other = body.clone();
            let at = body.len() - 5;
            other[at] ^= 1;
            let (status, code) = send(&server, &of, &head, &other);
            let expected = [
                "BadDigest",
                "SignatureDoesNotMatch",
                "InvalidDigest",
                "IncompleteBody",
            ];
            assert!(
                status >= 400 && expected.contains(&&*code),
                "{payload} {len}: {status} {code}"
            );
            if len > 0 {
                let first = body.iter().position(|&byte| byte == b'\n').expect("a line") + 1;
                other = body.clone();
                other[first] ^= 1;
                let (status, code) = send(&server, &of, &head, &other);
                let is_signed = payload.contains("HMAC");
                let expected = if is_signed {
                    (403, "SignatureDoesNotMatch")
                } else {
                    (400, "BadDigest")
                };
                assert_eq!((status, &*code), expected, "{payload} {len}");
            }
            for cut in [&body[..body.len() - 2], &body[..body.len() / 2]] {
                assert_eq!(send(&server, &of, &head, cut).0, 400, "{payload} {len}");
            }
            holds(&server, &value);
        }
    }
}

#[test]
fn chunks_are_as_they_were_announced() {
    directory_only!("buckets");
    let server = start(&[]);
    let plain = CHUNKED[0];
    let ask = |payload: &str, lines: &str, body: &[u8]| {
        let of = request("PUT", "/b/key", lines, payload);
        signed(&server, &ann(), &of, body)
    };
    let (lines, whole) = (
        lines_of(plain, 1),
        &b"1\r\na\r\n0\r\nx-amz-checksum-crc32:6Le+Qw==\r\n\r\n"[..],
    );
    assert_eq!(ask(plain, &lines, whole), "200");
    let mode = format!("x-amz-checksum-mode: ENABLED\r\n{}", bearer("ann"));
    let got = server.request("HEAD", "/b/key", &mode, b"");
    assert_eq!(got.header("x-amz-checksum-crc32"), Some("6Le+Qw=="));
    let without = lines.replace("x-amz-decoded-content-length: 1\r\n", "");
    assert_eq!(ask(plain, &without, whole), "411 MissingContentLength");
    for len in [0, 2] {
        assert_eq!(
            ask(plain, &lines_of(plain, len), whole),
            "400 IncompleteBody",
            "{len}"
        );
    }
    assert_eq!(
        ask(plain, &lines, b"1\r\na\r\n0\r\n\r\n"),
        "400 IncompleteBody"
    );
    assert_eq!(
        ask(
            plain,
            &lines,
            b"1\r\na\r\n0\r\nx-amz-checksum-crc32:6Le+QQ==\r\n\r\n"
        ),
        "400 BadDigest"
    );
    assert_eq!(
        ask("STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", &lines, whole),
        "400 InvalidRequest"
    );
    let of = request("PUT", "/b/key", &lines, CHUNKED[1]);
    let unsigned = format!("{}x-amz-content-sha256: {}\r\n", bearer("ann"), CHUNKED[1]);
    assert_eq!(
        send(&server, &of, &unsigned, b"1;chunk-signature=a\r\na\r\n").0,
        400
    );
    let coded = lines.replace("aws-chunked", "aws-chunked,br");
    assert_eq!(ask(plain, &coded, whole), "200");
    let got = server.request("GET", "/b/key", &bearer("ann"), b"");
    assert_eq!(got.header("content-encoding"), Some("br"));
    holds(&server, b"a");
}

#[test]
fn a_key_that_is_taken_away_or_changed_counts_no_more() {
    directory_only!("buckets");
    let server = start(&[]);
    let get = || {
        signed(
            &server,
            &ann(),
            &request("GET", "/b/open", "", UNSIGNED),
            b"",
        )
    };
    assert_eq!(get(), "200");
    revise(&server, &policy().replace(SECRET, "another-secret-of-ann"));
    assert_eq!(get(), "403 SignatureDoesNotMatch");
    revise(&server, &rule("anonymous", "b/", &["read"]));
    assert_eq!(get(), "403 InvalidAccessKeyId");
}

#[test]
fn a_new_key_is_one_that_the_server_takes() {
    directory_only!("buckets");
    let made = Launch::new(&["new-s3-key"]).bare().run();
    let lines = made.printed();
    let words: Vec<&str> = lines.split('"').collect();
    let [_, id, _, secret, ..] = words[..] else {
        panic!("{lines}")
    };
    assert_eq!((id.len(), secret.len()), (20, 40));
    let server = start(&[]);
    let text = format!(
        "[[subject]]\nname = \"new\"\n{lines}\n{}",
        rule("new", "b/", &["read"])
    );
    revise(&server, &text);
    let get = request("GET", "/b/open", "", UNSIGNED);
    assert_eq!(signed(&server, &Keys::new(id, secret), &get, b""), "200");
}

#[test]
fn a_body_of_any_framing_is_held_to_the_limit() {
    directory_only!("buckets");
    let server = start(&["--max-body", "9"]);
    let (long, fits) = (lines_of(CHUNKED[0], 10), lines_of(CHUNKED[0], 9));
    for (value, expected) in [(&[b'a'; 9][..], "200"), (&[b'a'; 10], "413 EntityTooLarge")] {
        let lines = if value.len() == 9 { &fits } else { &long };
        let of = request("PUT", "/b/key", lines, CHUNKED[0]);
        let body = chunked(&of, &ann().sign(&of), value);
        assert_eq!(signed(&server, &ann(), &of, &body), expected);
        let of = request("PUT", "/b/key", "", UNSIGNED);
        assert_eq!(signed(&server, &ann(), &of, value), expected);
        // Its length is not announced.
        let coded = [
            format!("{:x}\r\n", value.len()).as_bytes(),
            value,
            b"\r\n0\r\n\r\n",
        ]
        .concat();
        let lines = format!("Transfer-Encoding: chunked\r\n{}", ann().sign(&of));
        if !is_http2() {
            let got = server.request("PUT", "/b/key", &lines, &coded);
            assert_eq!(got.status.to_string(), expected[..3]);
        }
    }
    holds(&server, &[b'a'; 9]);
}

#[test]
fn who_signs_wrongly_too_often_has_to_wait() {
    directory_only!("buckets");
    let server = start(&[]);
    let get = request("GET", "/b/open", "", UNSIGNED);
    let wrong = Keys::new("ANN", "another secret of that length");
    let mut tries = (0..100).map(|_| signed(&server, &wrong, &get, b""));
    assert!(tries.any(|answer| answer == "503 SlowDown"));
    assert_eq!(signed(&server, &ann(), &get, b""), "200");
}

#[test]
fn caches_are_told_what_is_stored_or_signed_and_else_to_keep_it_private() {
    directory_only!("buckets");
    let server = start(&[]);
    let get = request("GET", "/b/key", "", UNSIGNED);
    let told = |of: &Unsigned<'_>| {
        let target = format!("/b/key?{}", ann().presign(of, 60));
        let answer = server.request("GET", &target, "", b"");
        assert_eq!(answer.status, 200);
        // So no cache answers those who are not signed.
        assert!(answer.must("vary").contains("authorization"));
        answer.header("cache-control").map(str::to_owned)
    };
    for (stored, expected) in [
        ("", "private, no-cache"),
        (
            "Cache-Control: public, max-age=60\r\n",
            "public, max-age=60",
        ),
    ] {
        let put = request("PUT", "/b/key", stored, UNSIGNED);
        assert_eq!(signed(&server, &ann(), &put, b"value"), "200");
        assert_eq!(told(&get).as_deref(), Some(expected));
        let overridden = Unsigned {
            query: "response-cache-control=max-age%3D5",
            ..get
        };
        assert_eq!(told(&overridden).as_deref(), Some("max-age=5"));
    }
}
