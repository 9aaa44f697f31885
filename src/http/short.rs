//! The short way of a small upload: a plain PUT, from its bytes to those of its answer, without hyper.
//!
//! Its head is understood here and nowhere else; once its body is there, the request is performed and answered as any
//! other, by the same code. Whatever is not plain, or would be refused for its head, is left to the long way, untouched.

use std::io::Write as _;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;

use bytes::Bytes;
use hyper::header::CONTENT_LENGTH;
use hyper::{Method, Response};

use super::body::Body;
use super::caught::{Asked, caught};
use super::exchange::Exchange;
use super::link::Link;
use super::media;
use super::operation::Audience;
use super::outcome::Outcome;
use super::path::key;
use super::plain::Plain;
use super::refusal::Refusal;
use super::rules::Rules;
use super::service::Service;
use super::work::Work;
use crate::failpoint;
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
    in_flight: InFlight,
}

/// An upload going on, in the counts of its reactor.
#[derive(Debug)]
struct InFlight(Rc<Link>);

impl InFlight {
    fn begin(link: &Rc<Link>) -> Self {
        link.meter().counters().uploads.add(1);
        Self(Rc::clone(link))
    }
}

impl Drop for InFlight {
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
            in_flight: InFlight::begin(link),
        })
    }

    /// Stores `body`, which is all of that of `short`: in a future that is small, for each upload has one.
    pub fn store(
        self: &Rc<Self>,
        short: Short,
        body: Bytes,
        peer: SocketAddr,
        link: &Rc<Link>,
    ) -> Work {
        let Short {
            key,
            media_type,
            path,
            exchange,
            in_flight,
            ..
        } = short;
        let asked = Asked::of(Method::PUT, path, peer);
        let (service, link) = (Rc::clone(self), Rc::clone(link));
        Box::pin(async move {
            let stored = pin!(async {
                let _in_flight = in_flight;
                failpoint::reach("work", asked.path());
                let stored = service.store.put_small(key, body, media_type).await;
                Ok(Outcome::Stored(stored?))
            });
            let outcome = service.survive(stored, &asked, &link, &exchange).await;
            service.finish(outcome, &Audience::default(), &link, exchange)
        })
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
