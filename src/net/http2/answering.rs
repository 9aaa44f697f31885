//! One stream: from the work on its request to the last frame of its response.
//!
//! A body is read as the client makes room for it, a piece at a time, so a stream whose client takes nothing holds
//! nothing. Promises that what goes wrong ends this stream alone (`RST_STREAM`), and that what changes something is
//! done although the client has gone.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use hyper::Response;
use rustix::buffer::spare_capacity;
use rustix::io::pread;
use tokio::sync::OwnedSemaphorePermit;

use super::frame_io::Output;
use crate::http::{Body, Client, Ends, Exchange, Phase, Piece, Responding, Stream, known};
use crate::net::connection_limit::Permit;
use crate::net::connections::LINGER;
use crate::net::reactor::Reactor;
use crate::net::socket::cut_short;

/// The most of a body that one frame has, in bytes: with the head of the frame, as much as one record of TLS.
const FRAME: usize = (16 << 10) - 9;

/// The most that is read of a body at once, in bytes.
const PIECE: usize = 4 * FRAME;

/// How much of what a refused stream sends is read and dropped, in bytes.
const MOST_DROPPED: usize = 1 << 20;

/// The stage of a request that is not answered from memory.
pub(super) enum ResponseStage {
    /// There is nothing of the response yet that the client has taken.
    Responding(Responding),
    /// Its head has left, and the client makes no room for these bytes, which are all of the body.
    Begun(SendStream<Bytes>, Piece, Body),
}

/// The stage of a response that is known, and is not taken at once.
fn later(response: Response<Body>) -> ResponseStage {
    ResponseStage::Responding(known(response))
}

/// A request on its stream.
pub(super) struct Answering {
    pub(super) reactor: Rc<Reactor>,
    pub(super) client: Client,
    /// The index of the connection in its reactor's table.
    pub(super) connection: usize,
    pub(super) stream: Rc<Stream>,
    pub(super) exchange: Rc<Exchange>,
    pub(super) output: Rc<Output>,
    /// The answer is a head alone.
    pub(super) is_head_alone: bool,
    /// Its place among those that may hold a file.
    pub(super) place: Cell<Option<StreamPermit>>,
}

/// The place of a stream that may hold a file, or that watches.
#[expect(dead_code, reason = "held")]
pub(super) enum StreamPermit {
    /// The connection's own place, which one of its streams holds at a time.
    OfConnection(Rc<()>),
    /// A place of the pool that all connections share.
    Shared(OwnedSemaphorePermit),
    /// That of another connection.
    OfAnother(Permit),
}

/// The client takes no more of the response.
struct Gone;

impl From<h2::Error> for Gone {
    fn from(_: h2::Error) -> Self {
        Self
    }
}

impl Answering {
    /// Sends a response that is in memory; says what is left to do if it is not, if the client does not take it, or if
    /// something of the request is left to receive.
    pub(super) fn try_send(&self, mut response: Response<Body>) -> Option<ResponseStage> {
        let may_send_on = self.exchange.left_unread() && !self.stream.is_received();
        if may_send_on || !self.output.has_room() {
            return Some(later(response));
        }
        let len = response.body().known_len();
        let bytes = if self.is_head_alone {
            Bytes::new()
        } else {
            match response.body_mut().take_short() {
                Some(bytes) => bytes,
                None => return Some(later(response)),
            }
        };
        let (head, body) = response.into_parts();
        let head = self.reactor.service.encoder.complete(head, len);
        let mut responding = self.stream.response.borrow_mut();
        let sent = responding.send_response(head, bytes.is_empty());
        drop(responding);
        if let Ok(mut sending) = sent
            && !bytes.is_empty()
        {
            sending.reserve_capacity(bytes.len());
            if sending.capacity() < bytes.len() {
                return Some(ResponseStage::Begun(sending, Piece::Bytes(bytes), body));
            }
            self.hand_over(bytes.len());
            let _ = sending.send_data(bytes, true);
        }
        // The record of the request ends with its body.
        drop(body);
        self.exchange.flushed();
        None
    }

    /// Answers the request, and ends the stream.
    pub(super) async fn run(self, stage: ResponseStage) {
        let connections = &self.reactor.connections;
        let _entered = connections.add(&self.exchange, Some(self.connection));
        let mut serving = pin!(self.serve(stage));
        poll_fn(|cx| {
            self.exchange.register(cx);
            let is_cut = self.reactor.gives_up(&self.exchange, self.client);
            if !is_cut && serving.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            if is_cut || self.should_abort() {
                self.stream.reset(Reason::CANCEL);
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await;
    }

    /// True when a drain gives it up: a subscriber that does not read, and can resume when it reconnects.
    fn should_abort(&self) -> bool {
        self.exchange.connection().ends() != Ends::Open
            && self.exchange.phase() == Phase::Watching
            && self.exchange.progress.writing.get()
    }

    async fn serve(&self, stage: ResponseStage) {
        let sent = match stage {
            ResponseStage::Responding(responding) => match self.wait_for(responding).await {
                Ok(response) => self.send(response).await,
                Err(Gone) => return,
            },
            ResponseStage::Begun(mut sending, all, _body) => {
                self.send_piece(&mut sending, all, true).await
            }
        };
        if sent.is_err() {
            self.exchange.lose_client();
        }
        self.exchange.flushed();
        self.drop_unread().await;
    }

    /// Waits for the response; one that only the client would need is given up when it is gone.
    async fn wait_for(&self, mut responding: Responding) -> Result<Response<Body>, Gone> {
        let response = &self.stream.response;
        let is_reset = |cx: &mut Context<'_>| response.borrow_mut().poll_reset(cx).is_ready();
        poll_fn(|cx| {
            if !self.exchange.has_lost_client() && is_reset(cx) {
                self.exchange.lose_client();
            }
            if self.exchange.has_lost_client() && self.exchange.is_for_client_alone() {
                return Poll::Ready(Err(Gone));
            }
            let responding = Pin::new(&mut responding).poll(cx);
            responding.map(|response| response.map_err(|never| match never {}))
        })
        .await
    }

    async fn send(&self, response: Response<Body>) -> Result<(), Gone> {
        let (head, mut body) = response.into_parts();
        let len = body.known_len();
        let ends = self.is_head_alone || len == Some(0);
        let head = self.reactor.service.encoder.complete(head, len);
        let _place = self.watch()?;
        let mut sending = self
            .stream
            .response
            .borrow_mut()
            .send_response(head, ends)?;
        if ends {
            return Ok(());
        }
        // The first byte of the response has left; the connection counts the others.
        self.exchange.record.sent(0, true);
        while let Some(piece) = poll_fn(|cx| match sending.poll_reset(cx) {
            Poll::Ready(_) => Poll::Ready(Err(Gone)),
            Poll::Pending => body.poll_piece(cx).map(Ok),
        })
        .await?
        {
            let Ok(piece) = piece else {
                sending.send_reset(Reason::INTERNAL_ERROR);
                return Err(Gone);
            };
            let is_last = body.known_len() == Some(0);
            self.send_piece(&mut sending, piece, is_last).await?;
            if is_last {
                return Ok(());
            }
            // Wakes an endless body for its next piece.
            self.exchange.flushed();
        }
        Ok(sending.send_data(Bytes::new(), true)?)
    }

    /// Takes the place of a stream that watches, if it does: the connection's own, or one of another connection, for a
    /// watcher costs others as much over HTTP/2 as over HTTP/1. Without a place the client may try again.
    fn watch(&self) -> Result<Option<StreamPermit>, Gone> {
        if self.exchange.phase() != Phase::Watching {
            return Ok(None);
        }
        // It holds no file, and may last for hours: others have the place that it had.
        self.place.take();
        if let Some(own) = self.output.watches() {
            return Ok(Some(StreamPermit::OfConnection(own)));
        }
        let Some(permit) = self.reactor.limit.try_admit(self.client.peer) else {
            self.stream.reset(Reason::REFUSED_STREAM);
            return Err(Gone);
        };
        Ok(Some(StreamPermit::OfAnother(permit)))
    }

    async fn send_piece(
        &self,
        sending: &mut SendStream<Bytes>,
        mut piece: Piece,
        is_last: bool,
    ) -> Result<(), Gone> {
        while !piece.is_empty() {
            // Of one that is a little longer than a piece nothing is left.
            let wanted = if piece.len() < PIECE + FRAME {
                piece.len()
            } else {
                PIECE
            };
            let room = poll_fn(|cx| self.poll_room(sending, wanted, cx)).await?;
            let Ok(mut bytes) = take(&mut piece, room.min(wanted)) else {
                sending.send_reset(Reason::INTERNAL_ERROR);
                return Err(Gone);
            };
            self.hand_over(bytes.len());
            while !bytes.is_empty() {
                let frame = bytes.split_to(bytes.len().min(FRAME));
                let ends = is_last && bytes.is_empty() && piece.is_empty();
                sending.send_data(frame, ends)?;
            }
        }
        Ok(())
    }

    /// Counts bytes that are handed to the protocol.
    fn hand_over(&self, bytes: usize) {
        self.exchange.progress.count(bytes);
        self.output.queue(bytes);
    }

    /// How much of `wanted` bytes the client and the socket take now, not 0. A stream waits for its client where it has
    /// no window left; waits for the socket count for the connection.
    fn poll_room(
        &self,
        sending: &mut SendStream<Bytes>,
        wanted: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<usize, Gone>> {
        let progress = &self.exchange.progress;
        progress.writing.set(false);
        if sending.poll_reset(cx).is_ready() || !ready!(self.output.poll_room(cx)) {
            return Poll::Ready(Err(Gone));
        }
        sending.reserve_capacity(wanted);
        let room = match sending.capacity() {
            0 => sending.poll_capacity(cx),
            room => Poll::Ready(Some(Ok(room))),
        };
        progress.writing.set(room.is_pending());
        Poll::Ready(match ready!(room) {
            Some(Ok(room)) => Ok(room),
            _ => Err(Gone),
        })
    }

    /// A client that has its response may still be sending. It is read for a while, for some clients see a response
    /// only when they are done with the request; then it is asked to stop (RFC 9113, section 8.1).
    async fn drop_unread(&self) {
        if self.exchange.has_lost_client() || self.stream.is_received() {
            return;
        }
        let mut dropped = 0;
        let dropping = poll_fn(|cx| {
            while dropped < MOST_DROPPED {
                match ready!(self.stream.poll_data(cx)) {
                    Some(Ok(data)) => dropped += data.len(),
                    _ => return Poll::Ready(()),
                }
            }
            Poll::Pending
        });
        let _ = tokio::time::timeout(LINGER, dropping).await;
    }
}

/// Takes `len` bytes of `piece`; fewer where it has fewer at hand, never none. The pages of a region are in memory: the
/// body sees to that.
fn take(piece: &mut Piece, len: usize) -> io::Result<Bytes> {
    let mut bytes = Vec::new();
    let read = match piece {
        Piece::Bytes(bytes) => return Ok(bytes.split_to(len)),
        Piece::Region(region) => {
            bytes.reserve_exact(len);
            pread(&region.file, spare_capacity(&mut bytes), region.offset)?
        }
    };
    bytes.truncate(read);
    if bytes.is_empty() {
        return Err(cut_short());
    }
    piece.advance(read);
    Ok(bytes.into())
}
