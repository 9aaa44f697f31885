//! Answers: whole ones, refusals, and ones whose body breaks off.

use std::io;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Collected, Full, StreamBody};
use hyper::Response;
use hyper::body::Frame;

use super::objects::Refusal;

pub(super) type Body = BoxBody<Bytes, io::Error>;

/// What closes a connection.
pub(super) fn lost() -> io::Error {
    io::Error::other("lost by order")
}

pub(super) fn reply(status: u16, body: impl Into<Bytes>) -> Response<Body> {
    let body: Bytes = body.into();
    let len = body.len();
    let body = Full::new(body).map_err(|never| match never {});
    let body = BodyExt::boxed(body);
    let mut answer = Response::new(body);
    *answer.status_mut() = status.try_into().expect("a status");
    if !matches!(status, 204 | 304) {
        answer.headers_mut().insert("content-length", len.into());
    }
    answer
}

/// To HEAD hyper sends it without its body.
pub(super) fn refusal((status, code): Refusal) -> Response<Body> {
    let why = "<Message>by order</Message>";
    let xml = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code>{why}</Error>");
    reply(status, xml)
}

pub(super) fn set(answer: &mut Response<Body>, name: &str, value: &str) {
    let name: hyper::header::HeaderName = name.parse().expect("a name");
    let value = value.parse().expect("a value");
    answer.headers_mut().insert(name, value);
}

/// The answer, whose body ends or stops after `len` bytes.
pub(super) async fn broken(answer: Response<Body>, len: usize, ends: bool) -> Response<Body> {
    let (head, body) = answer.into_parts();
    let bytes = body.collect().await;
    let bytes = bytes.map_or_else(|_| Bytes::new(), Collected::to_bytes);
    let first = bytes.slice(..len.min(bytes.len()));
    let first = stream::iter([Ok(Frame::data(first))]);
    let body = if ends {
        // hyper sends what it has while it waits; at an error it drops it.
        let end = stream::once(async {
            tokio::task::yield_now().await;
            Err(lost())
        });
        BodyExt::boxed(StreamBody::new(first.chain(Box::pin(end))))
    } else {
        BodyExt::boxed(StreamBody::new(first.chain(stream::pending())))
    };
    Response::from_parts(head, body)
}
