//! What is answered in front of hyper: hot requests, as long as nothing else is under way on the connection.
//!
//! A connection begins here, and most never leave: hyper is called in for the first request that needs it, and is passed
//! by from then on whenever the connection is between requests. Promises that answers leave in the order of the requests
//! and that what hyper is given begins where a request does; holds no more than one read brought and one answer lacks.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use super::Stream;
use crate::http::Hot;

/// The most that is read at a time, in bytes.
const PIECE: usize = 8 << 10;

/// What an answer weighs, in bytes sent: before others have their turn, a connection gets 64 of them.
const WEIGHT: usize = 8 << 10;

thread_local! {
    /// Where requests are read to, on their reactor's thread: [`PIECE`] bytes.
    static RECEIVED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What comes next on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) enum Next {
    /// Hyper's part: a request that has arrived, or one that is under way.
    Protocol,
    /// The end: the client has closed the connection, or has had its last answer.
    End,
}

/// What the socket did not take of an answer: bytes, and behind them what stands for the rest of the link's region.
#[derive(Debug)]
pub(super) struct Unsent {
    bytes: Vec<u8>,
    region: &'static [u8],
}

impl Unsent {
    /// Of `hot`, without the first `sent` bytes.
    fn of(hot: &Hot, mut sent: usize) -> Self {
        let (mut bytes, pieces) = (Vec::new(), hot.pieces());
        for piece in &pieces[..pieces.len() - 1] {
            let skipped = sent.min(piece.len());
            bytes.extend_from_slice(&piece[skipped..]);
            sent -= skipped;
        }
        let region = &hot.region()[sent..];
        Self { bytes, region }
    }

    /// Of an answer without a region.
    pub(super) fn of_bytes(bytes: Vec<u8>) -> Self {
        let region = &[];
        Self { bytes, region }
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.region.is_empty()
    }

    fn advance(&mut self, sent: usize) {
        let of_bytes = sent.min(self.bytes.len());
        self.bytes.drain(..of_bytes);
        self.region = &self.region[sent - of_bytes..];
    }
}

impl Stream {
    /// Answers hot requests until something else comes.
    pub(in crate::net) fn poll_front(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Next>> {
        loop {
            ready!(self.poll_unsent(cx))?;
            if self.link.is_late() {
                self.say_goodbye();
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            let intake = self.intake.inner_mut();
            if self.upload.is_some() {
                ready!(self.poll_upload(cx))?;
            } else if self.is_over {
                return Poll::Ready(Ok(Next::End));
            } else if intake.holds_part() {
                self.is_over = !ready!(intake.poll_receive_rest(cx))?;
            } else if intake.is_between() {
                ready!(self.poll_requests(cx))?;
            } else {
                return Poll::Ready(Ok(Next::Protocol));
            }
        }
    }

    /// Whether closing now could cut off an answer, or miss a request that is there.
    pub(in crate::net) fn is_amid(&self) -> bool {
        self.link.is_in_front() || self.link.is_part_held() || self.outlet.has_yielded()
    }

    /// Reads once, and answers what is hot of that; the intake has the rest.
    fn poll_requests(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.outlet.poll_turn(cx));
        RECEIVED.with_borrow_mut(|piece| {
            piece.resize(PIECE, 0);
            let Poll::Ready(len) = self.intake.inner_mut().poll_piece(cx, piece)? else {
                self.outlet.rest();
                return Poll::Pending;
            };
            self.is_over = len == 0;
            Poll::Ready(self.answer(&piece[..len], cx))
        })
    }

    /// Answers the hot requests that `bytes` begin with, and begins with a small upload.
    fn answer(&mut self, mut bytes: &[u8], cx: &mut Context<'_>) -> io::Result<()> {
        while !bytes.is_empty() && self.unsent.is_none() && !self.is_over {
            if let Some(hot) = self.service.hot(bytes, &self.link) {
                bytes = &bytes[hot.asked..];
                self.intake.inner_mut().pass_over();
                self.send_first(&hot, cx)?;
                self.is_over = hot.closes;
            } else if let Some(short) = self.service.short(bytes, &self.link) {
                self.outlet.weigh(WEIGHT + short.len);
                bytes = self.begin_upload(short, bytes);
                break;
            } else {
                break;
            }
        }
        if !bytes.is_empty() && !self.is_over {
            self.intake.inner_mut().take_in(bytes);
        }
        Ok(())
    }

    /// Sends of `hot` what the socket takes now.
    fn send_first(&mut self, hot: &Hot, cx: &mut Context<'_>) -> io::Result<()> {
        self.outlet.weigh(WEIGHT);
        let sent = match self.poll_send(cx, &hot.pieces().map(IoSlice::new)) {
            Poll::Ready(sent) => sent?,
            Poll::Pending => 0,
        };
        let unsent = Unsent::of(hot, sent);
        if unsent.is_empty() {
            self.link.flushed();
        } else {
            self.unsent = Some(Box::new(unsent));
            self.link.set_in_front(true);
        }
        Ok(())
    }

    fn poll_unsent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(mut unsent) = self.unsent.take() {
            let bufs = [&unsent.bytes, unsent.region].map(IoSlice::new);
            let from = usize::from(unsent.bytes.is_empty());
            match self.poll_send(cx, &bufs[from..]) {
                Poll::Ready(sent) => unsent.advance(sent?),
                Poll::Pending => {
                    self.unsent = Some(unsent);
                    return Poll::Pending;
                }
            }
            if unsent.is_empty() {
                self.link.set_in_front(false);
                self.link.flushed();
            } else {
                self.unsent = Some(unsent);
            }
        }
        Poll::Ready(Ok(()))
    }
}
