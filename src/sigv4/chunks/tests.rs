//! Chunks that are written here and read there, and the example of the reference of Amazon S3.

use proptest::prelude::*;

use super::*;
use crate::sigv4::Scope;

/// The example of "Signature Calculations for the Authorization Header: Transferring Payload in Multiple Chunks".
fn published() -> Chain {
    let scope = Scope {
        day: "20130524",
        region: "us-east-1",
    };
    Chain {
        key: SigningKey::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", scope),
        time: "20130524T000000Z".to_owned(),
        scope: scope.to_string(),
        previous: "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9".to_owned(),
    }
}

#[test]
fn the_published_example_of_signed_chunks() {
    let mut chain = published();
    for (len, signature) in [
        (
            65_536,
            "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
        ),
        (
            1024,
            "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
        ),
        (
            0,
            "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
        ),
    ] {
        let text = chain.of_chunk(&Sha256::digest(vec![b'a'; len]));
        assert!(chain.accepts(&text, signature.to_owned()), "{len}");
    }
}

/// The body of `value` in chunks of `size` bytes, with one trailer where those are announced.
fn written(value: &[u8], size: usize, framing: Framing) -> Vec<u8> {
    let mut chain = published();
    let mut body = Vec::new();
    for chunk in value.chunks(size).chain([&[][..]]) {
        body.extend_from_slice(format!("{:x}", chunk.len()).as_bytes());
        if framing.is_signed {
            let text = chain.of_chunk(&Sha256::digest(chunk));
            chain.previous = chain.key.sign(&text);
            body.extend_from_slice(format!(";chunk-signature={}", chain.previous).as_bytes());
        }
        body.extend_from_slice(b"\r\n");
        body.extend_from_slice(chunk);
        if !chunk.is_empty() {
            body.extend_from_slice(b"\r\n");
        }
    }
    if framing.has_trailers {
        body.extend_from_slice(b"X-Amz-A: b\r\n");
        if framing.is_signed {
            let signature = chain.key.sign(&chain.of_trailers("x-amz-a:b\n"));
            body.extend_from_slice(format!("x-amz-trailer-signature:{signature}\r\n").as_bytes());
        }
    }
    body.extend_from_slice(b"\r\n");
    body
}

/// The value and the trailers of a `body` that comes in pieces of `size` bytes.
fn read(body: &[u8], size: usize, len: u64, framing: Framing) -> Result<(Vec<u8>, String), Fault> {
    let mut reader = ChunkReader::new(framing, len, Some(published()));
    let mut value = Vec::new();
    for piece in body.chunks(size) {
        let mut piece = Bytes::copy_from_slice(piece);
        while let Some(data) = reader.read(&mut piece)? {
            value.extend_from_slice(&data);
        }
        assert!(piece.is_empty());
    }
    let trailers = reader.end()?.map(|(name, value)| format!("{name}={value}"));
    let trailers = trailers.collect();
    Ok((value, trailers))
}

const ALL: [&str; 3] = [
    UNSIGNED_TRAILER,
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
];

fn framings() -> [Framing; 3] {
    ALL.map(|word| Framing::of(word).unwrap())
}

#[test]
fn a_body_that_is_not_as_it_was_written_is_refused() {
    for framing in framings() {
        let body = written(b"a value", 4, framing);
        let part = |len: usize| read(&body[..len], 1, 7, framing);
        assert!(
            (0..body.len()).all(|len| part(len).is_err()),
            "{framing:?} that broke off"
        );
        assert_eq!(
            read(&body, 1, 8, framing),
            Err(Fault::Length),
            "{framing:?}"
        );
        assert_eq!(
            read(&body, 1, 6, framing),
            Err(Fault::Length),
            "{framing:?}"
        );
        let more = [&body[..], b"x\n"].concat();
        assert_eq!(
            read(&more, 1, 7, framing),
            Err(Fault::Malformed),
            "{framing:?}"
        );
        if framing.is_signed {
            for at in 0..body.len() {
                let mut changed = body.clone();
                changed[at] ^= 0x40;
                assert!(
                    read(&changed, 9, 7, framing).is_err(),
                    "{framing:?} at {at}"
                );
            }
        }
    }
}

#[test]
fn what_is_no_chunk_is_refused() {
    let unsigned = Framing::of(UNSIGNED_TRAILER).unwrap();
    let endless = "1".repeat(LONGEST + 1);
    let many = format!("0\r\n{}", "a:b\r\n".repeat(LONGEST / 4));
    for body in [
        "x\r\n",
        "\r\n",
        "+1\r\n",
        "1\n",
        "00000000000000000\r\n",
        "1 \r\n",
        "0\r\n\n0\r\n",
        "0\r\na\r\n\r\n",
        "1\r\nab\r\n",
        "0;chunk-signature=\r\n\r\n",
        &endless,
        &many,
        "0\r\n\u{e9}",
    ] {
        assert_eq!(
            read(body.as_bytes(), 7, 1, unsigned),
            Err(Fault::Malformed),
            "{body:?}"
        );
    }
}

#[test]
fn lines_of_trailers_end_as_some_clients_end_them() {
    let unsigned = Framing::of(UNSIGNED_TRAILER).unwrap();
    let found = read(b"0\r\na:b\n\r\n", 1, 0, unsigned).unwrap();
    assert_eq!(found.1, "a=b");
    let signed = Framing::of(ALL[2]).unwrap();
    let body = String::from_utf8(written(b"", 1, signed)).unwrap();
    let apart = body.replace("b\r\nx-amz-trailer", "b\n\r\nx-amz-trailer");
    assert_eq!(
        read(apart.as_bytes(), 1, 0, signed),
        read(body.as_bytes(), 1, 0, signed)
    );
    assert_eq!(read(apart.as_bytes(), 1, 0, signed).unwrap().1, "x-amz-a=b");
}

proptest! {
    #[test]
    fn what_was_written_is_read(
        value in prop::collection::vec(any::<u8>(), 0..300),
        chunk in 1..100_usize,
        size in 1..200_usize,
        kind in 0..3_usize,
    ) {
        let framing = framings()[kind];
        let body = written(&value, chunk, framing);
        let (found, trailers) = read(&body, size, value.len() as u64, framing).unwrap();
        prop_assert_eq!(found, value);
        prop_assert_eq!(trailers, if framing.has_trailers { "x-amz-a=b" } else { "" });
    }
}
