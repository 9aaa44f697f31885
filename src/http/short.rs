//! The short way of a small upload: a plain PUT, from its bytes to those of its answer, without hyper.
//!
//! Its head is understood here and nowhere else; once its body is there, the request is performed and answered as any
//! other, by the same code. Whatever is not plain, or would be refused for its head, is left to the long way, untouched.

use std::io::Write as _;
use std::net::SocketAddr;
use std::rc::Rc;

use bytes::Bytes;
use hyper::header::CONTENT_LENGTH;
use hyper::{Method, Response};

use super::body::Body;
use super::caught::{Asked, caught};
use super::digest_fields::Expected;
use super::exchange::Exchange;
use super::link::Link;
use super::media;
use super::path::key;
use super::plain::Plain;
use super::receive::Arriving;
use super::request::{Audience, Operation, Refusal, Terms};
use super::response::Outcome;
use super::rules::Rules;
use super::service::{Answer, Service, Work};
use crate::store::{Directory, Key};

/// The longest body taken so, in bytes: the store keeps no longer one in memory either.
const SHORT: u64 = 64 << 10;

/// Room for the head of an answer, in bytes: more than most need.
const ANSWER: usize = 320;

/// A small upload whose head has arrived.
#[derive(Debug)]
pub struct Short {
    /// Bytes of the head.
    pub asked: usize,
    /// Bytes of the body.
    pub len: usize,
    key: Key<'static>,
    media_type: Option<Box<str>>,
    path: Box<str>,
    exchange: Exchange,
    _receiving: Receiving,
}

/// A body being received, in the counts of its reactor.
#[derive(Debug)]
struct Receiving(Rc<Link>);

impl Receiving {
    fn begin(link: &Rc<Link>) -> Self {
        link.meter().counters().uploads.add(1);
        Self(Rc::clone(link))
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.0.meter().counters().uploads_ended.add(1);
    }
}

/// Whether a plain upload is not refused for what `rules` say, or for what others have staged.
pub(super) fn is_possible(rules: &Rules, store: &Directory) -> bool {
    let is_taken = !rules.read_only && !rules.discard && !rules.compat;
    is_taken && !store.is_staging_bounded()
}

impl Service {
    /// The upload that `bytes` begin with, when it is plain and small.
    pub fn short(&self, bytes: &[u8], link: &Rc<Link>) -> Option<Short> {
        if !self.knows_short || link.is_last() || link.is_finishing() {
            return None;
        }
        caught(|| self.understand(bytes, link)).ok().flatten()
    }

    fn understand(&self, bytes: &[u8], link: &Rc<Link>) -> Option<Short> {
        let plain = Plain::at(bytes)?;
        let (len, media_type) = plain.put?;
        let is_taken = len <= SHORT.min(self.rules().max_body);
        if !is_taken || !self.recent.allow(plain.host, &self.rules().hosts) {
            return None;
        }
        let key = key(plain.path).ok()?.into_owned();
        let exchange = Exchange::begin(link, &Method::PUT);
        if plain.closes {
            link.end_after_answer();
        }
        Some(Short {
            asked: plain.len,
            len: usize::try_from(len).ok()?,
            key,
            media_type: media_type.and_then(media::check).map(Into::into),
            path: plain.path.into(),
            exchange,
            _receiving: Receiving::begin(link),
        })
    }

    /// Stores `body`, which is all of that of `short`.
    pub fn store(
        self: &Rc<Self>,
        short: Short,
        body: Bytes,
        peer: SocketAddr,
        link: &Rc<Link>,
    ) -> Answer {
        let terms = Terms {
            preconditions: None,
            media_type: short.media_type,
            expected: Expected::default(),
            digests_follow: false,
        };
        let work = Work {
            operation: Operation::Put {
                key: short.key,
                len: Some(body.len() as u64),
                terms: Box::new(terms),
            },
            audience: Audience::default(),
            body: Arriving::Whole(body),
            asked: Asked::of(Method::PUT, short.path, peer),
        };
        self.work(work, link, short.exchange)
    }

    /// The answer to `short`, whose body ended too early.
    pub fn cut_off(&self, short: Short, link: &Link) -> Response<Body> {
        let outcome = Outcome::Refused(Refusal::CutOff);
        link.end_after_answer();
        self.finish(outcome, &Audience::default(), link, short.exchange)
    }

    /// `response`, the answer to an upload, as hyper would write it. Its exchange has ended then.
    pub fn written(&self, response: Response<Body>) -> Vec<u8> {
        let (head, body) = response.into_parts();
        let body = body.into_bytes();
        let status = head.status;
        let reason = status.canonical_reason().unwrap_or_default();
        let mut bytes = Vec::with_capacity(ANSWER + body.len());
        // Writing to memory does not fail.
        let _ = write!(bytes, "HTTP/1.1 {} {reason}\r\n", status.as_str());
        for (name, value) in &head.headers {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                bytes.extend_from_slice(part);
            }
        }
        if !head.headers.contains_key(CONTENT_LENGTH) {
            let _ = write!(bytes, "content-length: {}\r\n", body.len());
        }
        bytes.extend(b"date: ");
        bytes.extend(self.recent.date().as_bytes());
        bytes.extend(body);
        bytes
    }
}
