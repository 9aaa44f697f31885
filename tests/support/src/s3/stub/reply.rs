//! Answers: whole ones, refusals, and ones whose body breaks off.

use std::io;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper::{Method, Response};

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

pub(super) fn refusal((status, code): Refusal, method: &Method) -> Response<Body> {
    if *method == Method::HEAD {
        return reply(status, "");
    }
    reply(
        status,
        format!(
            "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>by order</Message></Error>"
        ),
    )
}

pub(super) fn set(answer: &mut Response<Body>, name: &str, value: &str) {
    let name: hyper::header::HeaderName = name.parse().expect("a name");
    answer
        .headers_mut()
        .insert(name, value.parse().expect("a value"));
}

/// The answer, whose body ends or stops after `len` bytes.
pub(super) async fn broken(answer: Response<Body>, len: usize, ends: bool) -> Response<Body> {
    let (head, body) = answer.into_parts();
    let bytes = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
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
