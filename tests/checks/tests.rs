//! The checks on any toolchain: every seed of the corpora, and inputs made by proptest.

use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;

use super::framing::{Heads, serve};
use super::*;
use crate::net::fuzz::proxy_header;

type Target = (&'static str, fn(&[u8]));

const TARGETS: [Target; 22] = [
    ("key", key),
    ("target", target),
    ("range", range),
    ("preconditions", preconditions),
    ("digest_fields", digest_fields),
    ("cursor", cursor),
    ("framing", framing),
    ("destination", destination),
    ("form", form),
    ("tar", tar),
    ("access_file", access_file),
    ("authorization", authorization),
    ("link", link),
    ("forwarded", forwarded),
    ("proxy_header", proxy_header),
    ("signature", signature),
    ("chunks", chunks),
    ("canonical", canonical),
    ("chunk_chain", chunk_chain),
    ("s3_xml", s3_xml),
    ("dav_xml", dav_xml),
    ("dav_fields", dav_fields),
];

#[test]
fn every_seed_of_the_corpora_passes() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus");
    for (name, run) in TARGETS {
        let seeds = std::fs::read_dir(corpora.join(name)).expect("a corpus");
        let seeds: Vec<_> = seeds.map(|seed| seed.expect("a seed").path()).collect();
        assert!(!seeds.is_empty(), "no seeds of {name}");
        for seed in seeds {
            run(&std::fs::read(&seed).expect("a seed"));
        }
    }
}

#[test]
fn the_harness_of_framing_finds_what_hyper_hides() {
    // hyper takes this for one request, and says nothing of the length that it drops.
    let smuggled = b"PUT /a HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_eq!(serve(smuggled), ["PUT /a"]);
    let heads = Heads::of(smuggled, usize::MAX);
    assert!(heads.is_faulty && heads.targets.is_empty());
    let two = b"GET /a HTTP/1.1\r\nHost: t\r\n\r\nGET /b HTTP/1.1\r\nHost: t\r\n\r\n";
    assert_eq!(serve(two), ["GET /a", "GET /b"]);
    assert_eq!(Heads::of(two, 1).targets, ["GET /a", "GET /b"]);
}

/// Pieces that requests are made of, sound and not.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let known: Vec<&[u8]> = vec![
        b"GET /a HTTP/1.1\r\n",
        b"PUT /b HTTP/1.1\r\n",
        b"PUT /c HTTP/1.0\r\n",
        b"HEAD / HTTP/1.1\r\n",
        b"Host: t\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length:\t11 \r\n",
        b"content-length: 0\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"transfer-encoding:CHUNKED\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Expect: 100-continue\r\n",
        b"Connection: close\r\n",
        b"Connection: keep-alive\r\n",
        b"X-Y: z\r\n",
        b"User-Agent: z\r\n",
        b"cookie: \x01\r\n",
        b"\r\n",
        b"\r\n\r\n",
        b"\n",
        b"\r",
        b" ",
        b":",
        b"5\r\nabcde\r\n",
        b"abcde",
        b"0\r\n\r\n",
        b"00\r\nX: y\r\n\r\n",
        b"1;a=\"b\"\r\nx\r\n",
        b"GET /smug HTTP/1.1\r\nHost: t\r\n\r\n",
        b"PUT /d HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nvalue",
        b"PUT /e HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ];
    one_of(known)
}

/// One of these pieces, and now and then a few bytes.
fn one_of(known: Vec<&'static [u8]>) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        20 => prop::sample::select(known).prop_map(<[u8]>::to_vec),
        1 => vec(any::<u8>(), 1..4),
    ]
}

/// Pieces that forms are made of, sound and not.
fn piece_of_form() -> impl Strategy<Value = Vec<u8>> {
    let known: Vec<&[u8]> = vec![
        b"--x\r\n",
        b"\r\n--x\r\n",
        b"\r\n--x--\r\n",
        b"\r\n--x",
        b"--",
        b"\r\n",
        b"\r",
        b"\n",
        b"\r\n-",
        b" \t",
        b"Content-Disposition: form-data; name=\"folder\"\r\n",
        b"Content-Disposition: form-data; name=\"file\"; filename=\"a/b\"\r\n\r\n",
        b"Content-Disposition: form-data; name=file; filename=",
        b"Content-Type: text/plain\r\n",
        b"--x\r\nContent-Disposition: form-data; name=replace\r\n\r\non\r\n",
        b"\r\n--x\r\nContent-Disposition: form-data; name=file; filename=c\r\n\r\nvalue",
        b"value",
    ];
    one_of(known)
}

/// Pieces that tars are made of, sound and not.
fn piece_of_tar() -> impl Strategy<Value = Vec<u8>> {
    let known: Vec<&[u8]> = vec![
        b"17 path=a/b\nc d\n",
        b"10 size=3\n",
        b"19 GNU.sparse.map=\n",
        b"9 a=\n",
        b"value",
        &[0; 512],
        &[0; 100],
    ];
    let kinds = prop::sample::select(b"0\x0015xgLKS7".to_vec());
    let names = prop::sample::select(vec!["a", "b/c", "d/", "../e", "./f", "\u{e9}"]);
    let header = (kinds, names, 0..40_u64).prop_map(|(kind, name, len)| {
        let mut header = ::tar::Header::new_ustar();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(::tar::EntryType::new(kind));
        header.set_size(len);
        header.set_cksum();
        let mut bytes = header.as_bytes().to_vec();
        if len > 0 && len % 2 == 0 {
            let data = b"11 path=new\n12 size=1234\nvalue of some bytes";
            bytes.extend_from_slice(&data[..usize::try_from(len).unwrap()]);
            bytes.resize(1024, 0);
        }
        bytes
    });
    prop_oneof![20 => header, 10 => one_of(known)]
}

/// Pieces that destinations are made of, sound and not.
fn piece_of_destination() -> impl Strategy<Value = Vec<u8>> {
    let known: Vec<&[u8]> = vec![
        b"/a",
        b"/b%2Fc",
        b"/b/",
        b"//",
        b"..",
        b"/-/x",
        b"?q",
        b"#f",
        b"http://",
        b"https://",
        b"ftp://",
        b"t",
        b"T.",
        b"files.example",
        b"localhost",
        b"127.0.0.1",
        b"[::1]",
        b"evil",
        b"u@",
        b":80",
        b":443",
        b":8080",
        b":",
        b"@",
        b" ",
        b"\t",
        b",",
        b"F",
        b"T",
    ];
    one_of(known)
}

/// Pieces that lists of S3 are made of, sound and not.
fn piece_of_list() -> impl Strategy<Value = Vec<u8>> {
    let known: Vec<&[u8]> = vec![
        b"<Delete>",
        b"</Delete>",
        b"<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">",
        b"<Object><Key>a&amp;b</Key></Object>",
        b"<Object><Key>",
        b"</Key></Object>",
        b"<Object><Key><![CDATA[a<b]]></Key><VersionId/><ETag>\"x\"</ETag></Object>",
        b"<Quiet>true</Quiet>",
        b"<CompleteMultipartUpload>",
        b"</CompleteMultipartUpload>",
        b"<Part><PartNumber>1</PartNumber><ETag>&quot;x&quot;</ETag></Part>",
        b"<Part><ETag>x</ETag><PartNumber>65536</PartNumber></Part>",
        b"<Part><PartNumber>-1</PartNumber></Part>",
        b"<!DOCTYPE a [<!ENTITY b \"cccccccccccccccccccccccccccccc\">]>",
        b"<!doctype a>",
        b"&b;",
        b"&#x10ffff;",
        b"&#0;",
        b"&lt;",
        b"&",
        b"<?xml version=\"1.0\"?>",
        b"<!-- -->",
        b"<a>",
        b"</a>",
        b"<a/>",
        b"\xef\xbb\xbf",
        b" ",
    ];
    one_of(known)
}

/// The lines of a signed request, each of which is one of two that often differ in what means nothing.
fn signed_request() -> impl Strategy<Value = Vec<u8>> {
    let authorization = "AWS4-HMAC-SHA256 Credential=k/20130524/r/s3/aws4_request,SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-meta-a,Signature=a";
    let targets = [
        "/a",
        "/a%2Fb",
        "/a/b",
        "/a%20b",
        "/a+b",
        "/%61",
        "/a?b=c",
        "/a?c=d&b",
        "/a?b&c=d",
        "/a?b=&c=d",
        "/a?b=%26c%3Dd",
        "/a?b=c+d",
        "/a?b=c%2Bd",
        "/a?b=c%20d",
        "/%C3%A9",
        "/%E9",
        "/a%",
    ];
    let values = ["", "x", "x y", "x  y", " x y ", "x,y", "x\ty", "y"];
    let target = prop::sample::select(targets.to_vec());
    let value = prop::sample::select(values.to_vec());
    let time = "20130524T000000Z";
    (target, vec(value, 1..3)).prop_map(move |(target, values)| {
        let lines = [
            target,
            "t",
            authorization,
            time,
            "UNSIGNED-PAYLOAD",
            values[0],
        ]
        .join("\n");
        // The same fields again, but for the last one alone with what is none.
        let more = values
            .get(1)
            .map(|value| format!("\n\x01\n\x01\n\x01\n\x01\n{value}"));
        (lines + &more.unwrap_or_default()).into_bytes()
    })
}

#[test]
fn a_list_that_is_deep_or_full_of_entities_is_refused() {
    let deep = "<a>".repeat(1_000_000);
    let closed = format!("<Delete>{deep}{}</Delete>", "</a>".repeat(1_000_000));
    for text in [&deep, &closed] {
        s3_xml(text.as_bytes());
    }
    let bomb = |word: &str| {
        let entity = |n: u8| format!("<!ENTITY e{n} \"&e{0};&e{0};\">", n - 1);
        let entities: String = (1..20).map(entity).collect();
        format!(
            "<!{word} Delete [<!ENTITY e0 \"lol\">{entities}]><Delete><Object><Key>&e19;</Key></Object></Delete>"
        )
    };
    for word in ["DOCTYPE", "doctype", "DocType"] {
        let taken = crate::http::s3_door::xml::parse::<crate::http::s3_door::removal::Listed>(
            bomb(word).as_bytes(),
        );
        assert!(taken.is_none(), "{word}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn the_members_of_a_tar_do_not_depend_on_how_it_comes(
        size in any::<u8>(),
        pieces in vec(piece_of_tar(), 1..8),
        has_end in any::<bool>(),
    ) {
        let end: &[u8] = if has_end { &[0; 1024] } else { &[] };
        super::tar(&[&[size][..], &pieces.concat(), end].concat());
    }

    #[test]
    fn a_destination_is_a_key_of_this_server(lines in vec(vec(piece_of_destination(), 0..5), 1..6)) {
        // As a rule the request is a sound one, but for these lines.
        let mut sound = [&b"/from"[..], b"t", b"t:8080", b"http://t/b", b"T"].map(<[u8]>::to_vec);
        for (line, pieces) in sound.iter_mut().rev().zip(lines).filter(|(_, pieces)| !pieces.is_empty()) {
            *line = pieces.concat();
        }
        destination(&sound.join(&b"\n"[..]));
    }

    #[test]
    fn the_parts_of_a_form_do_not_depend_on_how_it_comes(size in 1..40_u8, pieces in vec(piece_of_form(), 1..16)) {
        form(&[&[size][..], &pieces.concat()].concat());
    }

    #[test]
    fn hyper_finds_requests_where_the_framing_found_them(cut in 0..40_u8, pieces in vec(piece(), 1..16)) {
        framing(&[&[cut][..], &pieces.concat()].concat());
    }

    #[test]
    fn a_list_of_s3_is_no_longer_than_what_was_sent(pieces in vec(piece_of_list(), 1..16)) {
        s3_xml(&pieces.concat());
    }

    #[test]
    fn a_signature_is_of_requests_that_ask_for_the_same(one in signed_request(), other in signed_request()) {
        canonical(&[&one[..], &other].join(&0));
    }

    #[test]
    fn a_body_in_signed_chunks_is_taken_as_it_was_signed(
        sizes in any::<[u8; 6]>(),
        value in vec(any::<u8>(), 0..300),
    ) {
        chunk_chain(&[&sizes[..], &value].concat());
    }

    #[test]
    fn nothing_panics_whatever_it_is_given(data in vec(any::<u8>(), 0..200)) {
        for (_, run) in TARGETS {
            run(&data);
        }
    }
}
