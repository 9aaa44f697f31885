//! A small upload in front of hyper: its body received, its answer waited for.
//!
//! Takes not a byte behind the body, and holds the body once. While it is under way nothing else of the connection is read.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};

use super::Stream;
use super::front::Unsent;
use super::spare;
use crate::http::{Short, Work};

/// How far it is.
pub(super) enum Upload {
    Receiving {
        short: Short,
        body: BytesMut,
    },
    /// With the body, which the store lets go of before there is an answer.
    Working {
        answer: Work,
        body: Bytes,
    },
}

impl Stream {
    /// Begins with `short`, at which `bytes` begin; what is left of them.
    pub(super) fn begin_upload<'a>(&mut self, short: Short, bytes: &'a [u8]) -> &'a [u8] {
        let bytes = &bytes[short.asked..];
        let (there, rest) = bytes.split_at(bytes.len().min(short.len));
        let mut body = spare::take(short.len);
        body.extend_from_slice(there);
        self.link.count(there.len());
        self.link.set_in_front(true);
        self.intake.inner_mut().pass_over();
        self.upload = Some(Upload::Receiving { short, body });
        rest
    }

    /// Goes on with the upload, if there is one, until its answer is known.
    pub(super) fn poll_upload(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(mut upload) = self.upload.take() {
            let polled = match &mut upload {
                Upload::Receiving { short, body } => self.poll_body(cx, body, short.len),
                Upload::Working { answer, .. } => answer.as_mut().poll(cx).map(|response| {
                    self.reply(self.service.written(response));
                    Ok(false)
                }),
            };
            let Poll::Ready(is_whole) = polled? else {
                self.upload = Some(upload);
                return Poll::Pending;
            };
            match upload {
                Upload::Receiving { short, body } if is_whole => {
                    let (service, body) = (Rc::clone(&self.service), body.freeze());
                    let answer = service.store(short, body.clone(), self.peer, &self.link);
                    self.upload = Some(Upload::Working { answer, body });
                }
                Upload::Receiving { short, .. } => {
                    let response = self.service.cut_off(short, &self.link);
                    self.reply(self.service.written(response));
                }
                Upload::Working { body, .. } => spare::give_back(body),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Receives until `body` has `len` bytes: whether it has.
    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut BytesMut,
        len: usize,
    ) -> Poll<io::Result<bool>> {
        while body.len() < len {
            let room = len - body.len();
            let polled = self.intake.inner_mut().poll_body(cx, body, room);
            self.link.set_receiving(polled.is_pending());
            let received = ready!(polled)?;
            if received == 0 {
                return Poll::Ready(Ok(false));
            }
            self.link.count(received);
        }
        Poll::Ready(Ok(true))
    }

    fn reply(&mut self, bytes: Vec<u8>) {
        self.is_over = self.link.is_ending();
        self.unsent = Some(Box::new(Unsent::of_bytes(bytes)));
    }
}
