//! The body of a request of this door: how it is framed, how long it is, and what it is compared with.
//!
//! A body in chunks ([`chunks`](crate::sigv4::chunks)) is unframed as it arrives, in bounded memory: what is left of it
//! goes where any other body goes, and counts once its end has come, with its signatures, the trailers that were
//! announced, and as many bytes. Any other body is left as it is. The signature of a request proves its client before
//! the body is read; one of a chunk that is wrong breaks the body off. The digests that chunks are signed by are
//! computed as their bytes come, a short piece at a time, as encryption is; those of the value where any value's are.
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

use crate::access::Evidence;
use crate::http::body::request::{Decoder, Received};
use crate::http::head::syntax::{number, only};
use crate::http::refusal::Refusal;
use crate::http::refusal::common::too_large;
use crate::http::refusal::kind::{Flag, Kind};
use crate::http::request::RequestContext;
use crate::http::request::head::{LENGTH_REQUIRED, RequestHead};
use crate::http::s3_door::signature::Claim;
use crate::http::values::digest_fields::{AMZ_CONTENT_SHA256, checksums, wanted_of};
use crate::http::values::put::{PutRequest, verify};
use crate::sigv4::chunks::{Chain, ChunkReader, Fault, Framing};
use crate::sigv4::{Scope, UNSIGNED};
use crate::store::{Digests, Hasher, Wanted};

const DECODED_LENGTH: HeaderName = HeaderName::from_static("x-amz-decoded-content-length");
const TRAILERS: HeaderName = HeaderName::from_static("x-amz-trailer");

const BAD_PAYLOAD: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "bad-payload");
const BAD_CHUNK: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "bad-chunk");
const WRONG_CHUNK: Refusal = Refusal::new(
    &Kind::new(StatusCode::FORBIDDEN, "signature").flags(&[Flag::Audited]),
    "the signature of a chunk does not match: nothing was stored",
);

/// What the head of a request says of its body.
#[derive(Debug, Default)]
pub struct Payload {
    /// Its length in bytes, where that is known: that of the value, also where it comes in chunks.
    pub len: Option<u64>,
    /// The checksums of S3 in the head.
    pub checksums: HeaderMap,
    expected: Digests,
    chunks: Option<Chunks>,
}

/// How the chunks of a body come.
#[derive(Debug)]
struct Chunks {
    framing: Framing,
    /// The trailers that were announced.
    announced: Vec<HeaderName>,
    /// The time, the day, the region and the signature of the head.
    signed: Option<[String; 4]>,
}

impl Payload {
    /// That of a request whose checksums are of its body.
    pub fn of(asked: &RequestHead<'_>) -> Result<Self, Refusal> {
        Self::with(asked, &asked.head.headers)
    }

    /// That of a request in whose head these fields say what digests its body has.
    pub fn with(asked: &RequestHead<'_>, of_body: &HeaderMap) -> Result<Self, Refusal> {
        let headers = &asked.head.headers;
        let expected = Digests::of(of_body)?;
        let checksums = checksums(of_body).map(|(name, value)| (name.clone(), value.clone()));
        let checksums = checksums.collect();
        asked.needs_length()?;
        let framing = framing(headers)?;
        let of_value = || only(headers, &DECODED_LENGTH).and_then(|len| number(len.as_bytes()));
        let len = framing.map_or(asked.len, |_| of_value());
        let limit = asked.config.limits.max_body;
        if len.is_some_and(|len| len > limit) {
            return Err(too_large(limit));
        }
        let Some(framing) = framing else {
            return Ok(Self {
                len,
                checksums,
                expected,
                ..Self::default()
            });
        };
        if len.is_none() {
            let why = "a body in chunks needs an x-amz-decoded-content-length";
            return Err(LENGTH_REQUIRED.because(why));
        }
        let announced = announced(headers)?;
        let claim = Claim::of(asked)
            .ok()
            .flatten()
            .filter(|_| framing.is_signed);
        let signed = claim.map(|claim| {
            [
                claim.time,
                claim.scope.day,
                claim.scope.region,
                claim.signature,
            ]
            .map(str::to_owned)
        });
        Ok(Self {
            len,
            checksums,
            expected,
            chunks: Some(Chunks {
                framing,
                announced,
                signed,
            }),
        })
    }

    /// The digests that it must have.
    pub fn expected(&self) -> Digests {
        self.expected
    }

    /// The digests that follow as trailers.
    pub fn announced(&self) -> Wanted {
        let chunks = self.chunks.iter();
        let announced = chunks.flat_map(|chunks| &chunks.announced).map(wanted_of);
        announced.fold(Wanted::default(), Wanted::union)
    }

    /// Gives `put` the length of its value, and its digests.
    pub fn expect(&self, put: &mut PutRequest) -> Result<(), Refusal> {
        (put.len, put.following) = (self.len, self.announced());
        put.expect(self.expected)
    }

    /// Has `body` give the bytes of the value.
    pub fn open(self, request: &RequestContext, body: &mut Received<'_>) -> Result<(), Refusal> {
        let (Some(chunks), Some(len)) = (self.chunks, self.len) else {
            return Ok(());
        };
        let chain = chunks.chain(request)?;
        body.decode(Box::new(Unframed {
            reader: ChunkReader::new(chunks.framing, len, chain),
            announced: chunks.announced,
        }));
        Ok(())
    }

    /// All of `body`, which has `most` bytes at most, and its digests.
    pub async fn read(
        self,
        request: &RequestContext,
        body: &mut Received<'_>,
        most: usize,
    ) -> Result<Vec<u8>, Refusal> {
        let expected = self.expected;
        self.open(request, body)?;
        let mut all = Vec::new();
        while let Some(data) = body.next().await? {
            if all.len() + data.len() > most {
                return Err(too_large(most as u64));
            }
            all.extend_from_slice(&data);
        }
        let trailers = body.trailers.as_ref().map(Digests::of).transpose()?;
        let expected = expected.and(trailers.unwrap_or_default())?;
        let mut hasher = Hasher::new(expected.wanted());
        hasher.update(&all);
        verify(&expected, &hasher.finish())?;
        Ok(all)
    }
}

/// The framing of a body, where it has one of its own.
fn framing(headers: &HeaderMap) -> Result<Option<Framing>, Refusal> {
    let Some(given) = headers.get(AMZ_CONTENT_SHA256) else {
        return Ok(None);
    };
    let given = given.to_str().unwrap_or_default();
    let is_digest = given.len() == 64 && given.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_digest || given == UNSIGNED {
        return Ok(None);
    }
    let framing = Framing::of(given).ok_or_else(|| {
        BAD_PAYLOAD.because(
            "x-amz-content-sha256 is the SHA-256 of the body in hexadecimal digits, UNSIGNED-PAYLOAD or a STREAMING- word that this server knows",
        )
    });
    framing.map(Some)
}

/// The names of the trailers that are announced.
fn announced(headers: &HeaderMap) -> Result<Vec<HeaderName>, Refusal> {
    let lines = headers.get_all(TRAILERS).iter();
    let names = lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b','));
    let names = names.map(|name| HeaderName::from_bytes(name.trim_ascii()));
    let names: Result<_, _> = names.collect();
    names.map_err(|_| BAD_PAYLOAD.because("x-amz-trailer names fields, as x-amz-checksum-crc32c"))
}

impl Chunks {
    /// The signatures that are to come; `None` where they are not compared, as there are none, or no subject has a key.
    fn chain(&self, request: &RequestContext) -> Result<Option<Chain>, Refusal> {
        let Some(client) = request.principal().filter(|_| self.framing.is_signed) else {
            return Ok(None);
        };
        match (&client.evidence, &self.signed) {
            (Evidence::S3Key { id, .. }, Some([time, day, region, signature])) => {
                let scope = Scope { day, region };
                let policy = client.access.policy();
                let key = policy.s3_key(id).ok_or(WRONG_CHUNK)?;
                Ok(Some(Chain {
                    key: key.signing_key(scope),
                    time: time.clone(),
                    scope: scope.to_string(),
                    previous: signature.clone(),
                }))
            }
            _ if client.access.has_subjects() => {
                Err(BAD_PAYLOAD
                    .because("the chunks of this body are signed, and the request is not"))
            }
            _ => Ok(None),
        }
    }
}

/// A body in chunks while it arrives.
#[derive(Debug)]
struct Unframed {
    reader: ChunkReader,
    announced: Vec<HeaderName>,
}

impl Decoder for Unframed {
    fn decode(&mut self, received: &mut Bytes) -> Result<Option<Bytes>, Refusal> {
        self.reader.read(received).map_err(refusal)
    }

    fn end(&mut self) -> Result<HeaderMap, Refusal> {
        let mut trailers = HeaderMap::new();
        for (name, value) in self.reader.end().map_err(refusal)? {
            let malformed = || refusal(Fault::Malformed);
            let name = HeaderName::try_from(name).map_err(|_| malformed())?;
            trailers.append(name, HeaderValue::try_from(value).map_err(|_| malformed())?);
        }
        if let Some(name) = self
            .announced
            .iter()
            .find(|name| !trailers.contains_key(*name))
        {
            return Err(BAD_CHUNK.because(format!(
                "the trailer {name} was announced, and did not come"
            )));
        }
        Ok(trailers)
    }
}

fn refusal(fault: Fault) -> Refusal {
    match fault {
        Fault::Signature => WRONG_CHUNK,
        Fault::Length => BAD_CHUNK.because(
            "the chunks of the body are not as long together as its x-amz-decoded-content-length says",
        ),
        Fault::Malformed => BAD_CHUNK.because("the chunks of the body are cut off or malformed"),
    }
}
