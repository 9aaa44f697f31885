//! Long bodies, moved by the connection itself while hyper does not have the socket.
//!
//! The body of an upload goes from the socket to where the store wants it; a long response goes from its file to the
//! socket. Not a byte behind a request is taken. hyper sees neither.

use std::future::poll_fn;
use std::io::{self, IoSlice};

use bytes::BytesMut;
use hyper::Response;

use super::connection_context::ConnectionContext;
use super::socket_body::SocketBody;
use super::socket_writer::{BURST, Follows, SocketWriter};
use crate::http::{Body, Piece, Piped, Region, Task, closes};
use crate::metrics::Direction;

/// The shortest body of an upload that is taken over, in bytes: for shorter ones it costs more than it saves.
const LONG_UPLOAD: u64 = 256 << 10;

/// A response of so many bytes is long enough for full packets to gain more than two system calls cost.
const WORTH_CORKING: u64 = 256 << 10;

/// What the connection does itself.
pub(super) enum Taken {
    /// Sends a response.
    Response(Response<Body>),
    /// Receives the body of a request, and sends the response.
    Upload(Box<Task>),
}

impl Taken {
    /// Which way the body moves.
    pub(super) fn direction(&self) -> Direction {
        match self {
            Self::Response(_) => Direction::Send,
            Self::Upload(_) => Direction::Receive,
        }
    }
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

/// Sends `head` and `body`; what is small leaves together with what follows it.
async fn send(head: Vec<u8>, mut body: Body, writer: &SocketWriter) -> io::Result<()> {
    writer.cork(body.known_len().is_some_and(|len| len >= WORTH_CORKING));
    let mut bytes = head;
    // For a client that is gone, no more is read.
    while !writer.has_lost_client()
        && let Some(piece) = poll_fn(|cx| body.poll_piece(cx)).await
    {
        let piece = match piece {
            Ok(piece) => piece,
            Err(error) => {
                // The client is told what it was to get, and sees that it was cut.
                send_bytes(writer, &bytes, Follows::Nothing).await?;
                poll_fn(|cx| writer.poll_flush(cx)).await?;
                return Err(io::Error::other(error));
            }
        };
        match piece {
            Piece::Bytes(more) => bytes.extend_from_slice(&more),
            Piece::Region(region) => {
                send_bytes(writer, &bytes, Follows::More).await?;
                bytes.clear();
                send_region(writer, region, follows(&body)).await?;
            }
            Piece::Piped(piped) => {
                send_bytes(writer, &bytes, Follows::More).await?;
                bytes.clear();
                send_piped(writer, piped, follows(&body)).await?;
            }
        }
    }
    // The record of the request ends with its body, and counts when all has been sent.
    drop(body);
    send_bytes(writer, &bytes, Follows::Nothing).await?;
    poll_fn(|cx| writer.poll_flush(cx)).await?;
    writer.cork(false);
    Ok(())
}

fn follows(body: &Body) -> Follows {
    match body.known_len() {
        Some(0) => Follows::Nothing,
        _ => Follows::More,
    }
}

async fn send_bytes(writer: &SocketWriter, mut bytes: &[u8], follows: Follows) -> io::Result<()> {
    while !bytes.is_empty() {
        let sent = poll_fn(|cx| writer.poll_send(cx, &[IoSlice::new(bytes)], follows)).await?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

async fn send_region(
    writer: &SocketWriter,
    mut region: Region,
    follows: Follows,
) -> io::Result<()> {
    let mut burst = 0;
    while region.len > 0 {
        if burst >= BURST {
            burst = 0;
            tokio::task::yield_now().await;
        }
        let sent = poll_fn(|cx| writer.poll_send_region(cx, &region, follows)).await?;
        region.offset += sent as u64;
        region.len -= sent;
        burst += sent;
    }
    Ok(())
}

async fn send_piped(writer: &SocketWriter, mut piped: Piped, follows: Follows) -> io::Result<()> {
    while piped.len > 0 {
        piped.len -= poll_fn(|cx| writer.poll_send_piped(cx, &piped, follows)).await?;
    }
    // Others have their turn.
    tokio::task::yield_now().await;
    Ok(())
}
