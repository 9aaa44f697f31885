//! Long bodies of uploads, received by the connection itself while hyper does not have the socket: from there to where the store
//! wants them. Not a byte behind a request is taken. hyper sees neither the body nor the response.

use std::future::poll_fn;
use std::io::{self, IoSlice};

use bytes::BytesMut;
use hyper::Response;

use super::connection_context::ConnectionContext;
use super::socket_body::SocketBody;
use super::socket_writer::{Follows, SocketWriter};
use crate::http::{Body, Upload, closes};

/// Receives the body of `upload`, takes from `received` what is of it, and sends the response; true when the connection ends
/// with it.
pub(super) async fn receive(
    context: &ConnectionContext<'_>,
    mut upload: Box<Upload>,
    received: &mut BytesMut,
) -> io::Result<bool> {
    let length = upload.body_len();
    // What hyper had passed on comes before what it had not.
    let mut early = upload.take_early();
    let left = usize::try_from(length).unwrap_or(usize::MAX);
    let left = left.saturating_sub(early.len());
    early.unsplit(received.split_to(received.len().min(left)));
    let expects = upload.expects_continue;
    let body = SocketBody::new(context, early.freeze(), length, expects);
    let response = upload.perform(Box::new(body)).await;
    respond(context, response).await
}

/// Sends `response`; true when the connection ends with it.
pub(super) async fn respond(
    context: &ConnectionContext<'_>,
    response: Response<Body>,
) -> io::Result<bool> {
    let (head, body) = response.into_parts();
    let is_last = closes(&head);
    let service = context.reactor.service();
    let head = service.encode(&head, body.known_len().unwrap_or(0));
    send(head, body, &context.writer).await?;
    context.state.flushed();
    Ok(is_last)
}

/// Sends `head` and `body`, which is short; what is small leaves together with what follows it.
async fn send(head: Vec<u8>, mut body: Body, writer: &SocketWriter) -> io::Result<()> {
    let mut bytes = head;
    // For a client that is gone, no more is read.
    while !writer.has_lost_client()
        && let Some(piece) = poll_fn(|cx| body.poll_bytes(cx)).await
    {
        bytes.extend_from_slice(&piece.map_err(io::Error::other)?);
    }
    // The record of the request ends with its body, and counts when all has been sent.
    drop(body);
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let rest_of = &[IoSlice::new(rest)];
        let sent = poll_fn(|cx| writer.poll_send(cx, rest_of, Follows::Nothing)).await?;
        rest = &rest[sent..];
    }
    poll_fn(|cx| writer.poll_flush(cx)).await
}
