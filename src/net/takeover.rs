//! Long bodies of uploads, received by the connection itself while hyper does not have the socket: from there to where the store
//! wants them. Not a byte behind a request is taken. hyper sees neither the body nor the response.

use std::future::poll_fn;
use std::io::{self, IoSlice};

use bytes::BytesMut;
use hyper::Response;

use super::connection_context::ConnectionContext;
use super::socket_body::SocketBody;
use super::socket_writer::{Follows, SocketWriter};
use crate::http::{Body, Task, closes};

/// The shortest body of an upload that is taken over, in bytes: for shorter ones it costs more than it saves.
const LONG_UPLOAD: u64 = 256 << 10;

/// What the connection does itself.
pub(super) enum Taken {
    /// Sends a response.
    Response(Response<Body>),
    /// Receives the body of a request, and sends the response.
    Upload(Box<Task>),
}

/// Whether the body of `task` is long enough to be taken over, or the client is to be told something before it has arrived:
/// hyper sends no interim response but 100.
pub(super) fn is_worth(task: &Task) -> bool {
    let is_long = |len| len >= LONG_UPLOAD || (len > 0 && task.has_interim());
    task.body_len().is_some_and(is_long)
}

/// Does what is `taken`, and takes from `received` what is of the body; true when the connection ends with it.
pub(super) async fn run(
    context: &ConnectionContext<'_>,
    taken: Taken,
    received: &mut BytesMut,
) -> io::Result<bool> {
    let writer = &context.writer;
    let response = match taken {
        Taken::Response(response) => response,
        Taken::Upload(mut task) => {
            let length = task.body_len().unwrap_or(0);
            // What hyper had passed on comes before what it had not.
            let mut early = task.take_early();
            let left = usize::try_from(length).unwrap_or(usize::MAX);
            let left = left.saturating_sub(early.len());
            early.unsplit(received.split_to(received.len().min(left)));
            let expects = task.expects_continue();
            let body = SocketBody::new(&context.socket, writer, early.freeze(), length, expects);
            task.with_source(Box::new(body)).await
        }
    };
    let (head, body) = response.into_parts();
    let is_last = closes(&head);
    let head = context
        .reactor
        .service()
        .encode(&head, body.known_len().unwrap_or(0));
    send(head, body, writer).await?;
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
