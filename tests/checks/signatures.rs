//! What clients of S3 sign: the field Authorization, the query of a URL, and bodies in chunks.

use bytes::Bytes;
use hyper::Request;
use hyper::header::{AUTHORIZATION, HOST, HeaderName};

use super::fields;
use crate::http::head::client::{Client, Peer};
use crate::http::request::head::RequestHead;
use crate::http::s3_door::signature::Claim;
use crate::http::service_config::ServiceConfig;
use crate::sigv4::chunks::{Chain, ChunkReader, Fault, Framing};
use crate::sigv4::{Scope, SigningKey};

/// The first line is the target, the others are Host, Authorization, x-amz-date and x-amz-content-sha256, and then the
/// same fields again. What is claimed stands in the request, once, and none but its signer can have signed it.
pub fn signature(data: &[u8]) {
    let (target, lines) =
        data.split_at(data.iter().position(|&b| b == b'\n').unwrap_or(data.len()));
    let names = ["x-amz-date", "x-amz-content-sha256"].map(HeaderName::from_static);
    let names = [&[HOST, AUTHORIZATION][..], &names].concat();
    let Ok(request) = Request::builder().uri(target).body(()) else {
        return;
    };
    let mut head = request.into_parts().0;
    head.headers = fields(&names, lines.get(1..).unwrap_or_default());
    let (client, config) = (
        Client::of(Peer::Process { uid: 1, pid: 1 }),
        ServiceConfig::default(),
    );
    let asked = RequestHead::new(&head, None, client, &config);
    let Ok(Some(claim)) = Claim::of(&asked) else {
        return;
    };
    assert!(claim.time.starts_with(claim.scope.day));
    let is_url = asked.query.has("X-Amz-Signature");
    assert_ne!(is_url, head.headers.contains_key(AUTHORIZATION));
    let mut texts = 0;
    let is_right = claim.is_of(&asked, |text, signature| {
        texts += 1;
        assert_eq!(signature, claim.signature);
        assert!(text.starts_with(&format!(
            "AWS4-HMAC-SHA256\n{}\n{}\n",
            claim.time, claim.scope
        )));
        false
    });
    assert!(is_right.is_err() || texts > 0);
}

/// The first bytes say how it is framed, how long it is said to be, and in pieces of which size it comes. A value is as
/// long as it was said, and it, or the fault, does not depend on how it comes.
pub fn chunks(data: &[u8]) {
    let Some((&[kind, len, size], body)) = data.split_first_chunk() else {
        return;
    };
    let framing = Framing {
        is_signed: kind & 1 > 0,
        has_trailers: kind & 2 > 0,
    };
    let scope = Scope {
        day: "20130524",
        region: "r",
    };
    let chain = Chain {
        key: SigningKey::new("secret", scope),
        time: "20130524T000000Z".to_owned(),
        scope: scope.to_string(),
        previous: String::new(),
    };
    let chain = (kind & 4 > 0).then_some(chain);
    let read = |size: usize| -> Result<(Vec<u8>, Vec<String>), Fault> {
        let mut reader = ChunkReader::new(framing, len.into(), chain.clone());
        let mut value = Vec::new();
        for piece in body.chunks(size) {
            let mut piece = Bytes::copy_from_slice(piece);
            while let Some(data) = reader.read(&mut piece)? {
                assert!(!data.is_empty());
                value.extend_from_slice(&data);
            }
            assert!(piece.is_empty() && value.len() <= len.into());
        }
        let trailers = reader.end()?.map(|(name, value)| format!("{name}:{value}"));
        let trailers = trailers.collect();
        Ok((value, trailers))
    };
    let whole = read(usize::MAX);
    assert_eq!(whole, read(usize::from(size) + 1));
    if let Ok((value, trailers)) = whole {
        assert_eq!(value.len(), usize::from(len));
        assert!(framing.has_trailers || trailers.is_empty());
    }
}
