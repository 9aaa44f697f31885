//! What clients of S3 send: what they sign, which is the field Authorization, the query of a URL, and bodies in chunks;
//! and lists as XML.

use bytes::Bytes;
use hyper::Request;
use hyper::header::{AUTHORIZATION, HOST, HeaderName};
use hyper::http::request::Parts;
use percent_encoding::percent_decode;

use super::fields;
use crate::http::head::client::{Client, Peer};
use crate::http::request::head::RequestHead;
use crate::http::s3_door::signature::Claim;
use crate::http::s3_door::{multipart, removal, xml};
use crate::http::service_config::ServiceConfig;
use crate::sigv4::chunks::{Chain, ChunkReader, Fault, Framing};
use crate::sigv4::{Scope, SigningKey};
use sha2::{Digest as _, Sha256};

/// The head of a request whose first line is the target. The others are Host, Authorization, x-amz-date,
/// x-amz-content-sha256 and x-amz-meta-a, and then the same fields again.
fn head(data: &[u8]) -> Option<Parts> {
    let (target, lines) =
        data.split_at(data.iter().position(|&b| b == b'\n').unwrap_or(data.len()));
    let names = ["x-amz-date", "x-amz-content-sha256", "x-amz-meta-a"];
    let names = [
        &[HOST, AUTHORIZATION][..],
        &names.map(HeaderName::from_static),
    ]
    .concat();
    let mut head = Request::builder().uri(target).body(()).ok()?.into_parts().0;
    head.headers = fields(&names, lines.get(1..).unwrap_or_default());
    Some(head)
}

/// What is claimed stands in the request, once, and none but its signer can have signed it.
pub fn signature(data: &[u8]) {
    let Some(head) = head(data) else {
        return;
    };
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

/// Two requests, with a byte 0 between them. A signature of the one is of the other only if both ask for the same: by
/// the same path, the same parameters and the same fields.
pub fn canonical(data: &[u8]) {
    let Some(middle) = data.iter().position(|&byte| byte == 0) else {
        return;
    };
    let both = [&data[..middle], &data[middle + 1..]].map(signed);
    if let [Some(one), Some(other)] = both
        && one.texts.iter().any(|text| other.texts.contains(text))
    {
        assert_eq!(one.means, other.means);
    }
}

/// What may be signed of a request, and what it means.
struct Signed {
    texts: Vec<String>,
    means: (Vec<u8>, Vec<String>, Vec<String>),
}

fn signed(data: &[u8]) -> Option<Signed> {
    let head = head(data)?;
    let (client, config) = (
        Client::of(Peer::Process { uid: 1, pid: 1 }),
        ServiceConfig::default(),
    );
    let asked = RequestHead::new(&head, None, client, &config);
    let claim = Claim::of(&asked).ok()??;
    let mut texts = Vec::new();
    let compared = claim.is_of(&asked, |text, _| {
        texts.push(text.to_owned());
        false
    });
    compared.ok()?;
    let is_url = !head.headers.contains_key(AUTHORIZATION);
    let parameters = asked.query.pairs();
    let parameters = parameters.filter(|(name, _)| !is_url || *name != "X-Amz-Signature");
    let mut parameters: Vec<_> = parameters.map(|pair| format!("{pair:?}")).collect();
    parameters.sort_unstable();
    // Spaces around a value, and how many there are in it, mean nothing; nor does that it comes in several lines.
    let folded = |name: &HeaderName| {
        let lines = head.headers.get_all(name).iter();
        let lines = lines.map(|line| String::from_utf8_lossy(line.as_bytes()).into_owned());
        let words = lines.map(|line| line.split_ascii_whitespace().collect::<Vec<_>>().join(" "));
        let words = words.collect::<Vec<_>>().join(",");
        format!("{name}:{words}")
    };
    let is_signed = |name: &&HeaderName| name.as_str().starts_with("x-amz-meta");
    let own = head.headers.keys().filter(is_signed).map(folded);
    // One without a value is as good as none.
    let own = own.filter(|field| !field.ends_with(':')).collect();
    let path = percent_decode(asked.path.as_bytes()).collect();
    Some(Signed {
        texts,
        means: (path, parameters, own),
    })
}

fn chain() -> Chain {
    let scope = Scope {
        day: "20130524",
        region: "r",
    };
    Chain {
        key: SigningKey::new("secret", scope),
        time: "20130524T000000Z".to_owned(),
        scope: scope.to_string(),
        previous: String::new(),
    }
}

/// The value of a body that comes in these pieces, and its trailers.
fn unframed<'a>(
    framing: Framing,
    len: u64,
    chain: Option<Chain>,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> Result<(Vec<u8>, Vec<String>), Fault> {
    let mut reader = ChunkReader::new(framing, len, chain);
    let mut value = Vec::new();
    for piece in pieces {
        let mut piece = Bytes::copy_from_slice(piece);
        while let Some(data) = reader.read(&mut piece)? {
            assert!(!data.is_empty());
            value.extend_from_slice(&data);
        }
        assert!(piece.is_empty() && value.len() as u64 <= len);
    }
    let trailers = reader.end()?.map(|(name, value)| format!("{name}:{value}"));
    let trailers = trailers.collect();
    Ok((value, trailers))
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
    let chain = (kind & 4 > 0).then(chain);
    let read = |size| unframed(framing, len.into(), chain.clone(), body.chunks(size));
    let whole = read(usize::MAX);
    assert_eq!(whole, read(usize::from(size) + 1));
    if let Ok((value, trailers)) = whole {
        assert_eq!(value.len(), usize::from(len));
        assert!(framing.has_trailers || trailers.is_empty());
    }
}

/// The first bytes say whether there are trailers, how long the chunks and the pieces are, and which byte comes as
/// which other; the rest is the value. It is taken as it was signed, and with another byte not as another value.
pub fn chunk_chain(data: &[u8]) {
    let Some((&[kind, chunk, size, at, more, mask], value)) = data.split_first_chunk() else {
        return;
    };
    let framing = Framing {
        is_signed: true,
        has_trailers: kind & 1 > 0,
    };
    let (mut last, mut body) = (chain(), Vec::new());
    let chunks = value.chunks(usize::from(chunk) + 1).chain([&[][..]]);
    for chunk in chunks {
        let text = last.of_chunk(&Sha256::digest(chunk));
        last.previous = last.key.sign(&text);
        let line = format!("{:x};chunk-signature={}\r\n", chunk.len(), last.previous);
        let end: &[u8] = if chunk.is_empty() { b"" } else { b"\r\n" };
        body.extend([line.as_bytes(), chunk, end].concat());
    }
    let trailer = "x-amz-checksum-crc32:AAAAAA==";
    if framing.has_trailers {
        let text = last.of_trailers(&format!("{trailer}\n"));
        let signature = last.key.sign(&text);
        body.extend(format!("{trailer}\r\nx-amz-trailer-signature:{signature}\r\n").bytes());
    }
    body.extend(b"\r\n");
    let trailers = framing.has_trailers.then(|| trailer.to_owned());
    let signed = (value.to_vec(), trailers.into_iter().collect());
    let len = value.len() as u64;
    let read = |body: &[u8]| {
        let pieces = body.chunks(usize::from(size) + 1);
        unframed(framing, len, Some(chain()), pieces)
    };
    assert_eq!(read(&body).as_ref(), Ok(&signed));
    let at = usize::from(u16::from_le_bytes([at, more])) % body.len();
    body[at] ^= mask;
    let other = read(&body);
    assert!(other.is_err() || other == Ok(signed), "byte {at}");
    assert!(read(&body[..at]).is_err(), "it is cut off at {at}");
}

/// A list that is taken is no longer than what was sent, whatever its entities stand for, and is read as it is written
/// again.
pub fn s3_xml(data: &[u8]) {
    let lengths = |texts: &[&str]| texts.iter().map(|text| text.len()).sum::<usize>();
    if let Some(listed) = xml::parse::<multipart::complete::Listed>(data) {
        let tags: Vec<_> = listed.parts.iter().map(|part| &*part.etag).collect();
        assert!(lengths(&tags) + tags.len() * "<Part/>".len() <= data.len());
    }
    let Some(listed) = xml::parse::<removal::Listed>(data) else {
        return;
    };
    let keys: Vec<_> = listed.objects.iter().map(|object| &*object.key).collect();
    assert!(lengths(&keys) + keys.len() * "<Object/>".len() <= data.len());
    let mut again = xml::Document::new("Delete");
    for key in &keys {
        again.within("Object", |text| text.add("Key", key));
    }
    let again = xml::parse::<removal::Listed>(again.end().as_bytes()).expect("a list");
    let again: Vec<_> = again
        .objects
        .iter()
        .map(|object| object.key.trim())
        .collect();
    let keys: Vec<_> = keys.iter().map(|key| key.trim()).collect();
    assert_eq!(again, keys);
}
