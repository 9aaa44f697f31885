//! A value on its way from its file to a client, a window at a time.
//!
//! Each window is brought into memory, on the disk threads where it is not there yet, before a reactor touches it. It then
//! leaves as a [`Region`] that the connection sends from the file, or as bytes that hyper or another framing carries.
//! Holds one window at a time, whatever the value's size.

use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use crate::store::{Descriptor, Error, Object};

/// How much of a file is brought into memory, and sent as one region, in bytes.
const WINDOW: usize = 1 << 20;

/// How much of a file is read into one frame, in bytes.
const FRAME: usize = 128 << 10;

/// Bytes of a file, to be sent from it.
#[derive(Debug)]
pub struct Region {
    /// The file.
    pub file: Descriptor,
    /// Where the region begins.
    pub offset: u64,
    /// Its length, in bytes; never 0.
    pub len: usize,
}

/// A part of a file that is sent.
pub struct FileBody {
    object: Arc<Object>,
    next: u64,
    end: u64,
    window: Window,
    reading: Option<Reading>,
}

type Reading = Pin<Box<dyn Future<Output = Result<Bytes, Error>>>>;

/// Where the next window is.
enum Window {
    Unknown,
    Coming(Pin<Box<dyn Future<Output = Result<(), Error>>>>),
    Resident,
}

impl FileBody {
    /// This `range` of `object`.
    pub fn new(object: Arc<Object>, range: Range<u64>) -> Self {
        Self {
            object,
            next: range.start,
            end: range.end,
            window: Window::Unknown,
            reading: None,
        }
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> u64 {
        self.end - self.next
    }

    /// Whether the next window lies in memory.
    pub fn is_resident(&mut self) -> bool {
        let is_unknown = matches!(self.window, Window::Unknown);
        if is_unknown && self.object.is_resident(self.next, self.len(WINDOW) as u64) {
            self.window = Window::Resident;
        }
        matches!(self.window, Window::Resident)
    }

    /// Brings the next window into memory.
    pub fn poll_resident(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while !self.is_resident() {
            if let Window::Coming(coming) = &mut self.window {
                let come = ready!(coming.as_mut().poll(cx));
                self.window = Window::Unknown;
                come?;
                self.window = Window::Resident;
            } else {
                let coming = self
                    .object
                    .make_resident(self.next, self.len(WINDOW) as u64);
                self.window = Window::Coming(Box::pin(coming));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The next window, once it lies in memory; `None` at the end.
    pub fn poll_region(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Region, Error>>> {
        let len = self.len(WINDOW);
        if len == 0 {
            return Poll::Ready(None);
        }
        ready!(self.poll_resident(cx))?;
        let region = Region {
            file: self.object.descriptor(),
            offset: self.next,
            len,
        };
        self.advance(len);
        Poll::Ready(Some(Ok(region)))
    }

    /// The next bytes, read at once where they lie in memory; `None` at the end.
    pub fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        let len = self.len(FRAME);
        if len == 0 {
            return Poll::Ready(None);
        }
        let bytes = if let Some(reading) = &mut self.reading {
            let read = ready!(reading.as_mut().poll(cx));
            self.reading = None;
            read?
        } else if let Some(bytes) = self.object.read_now(self.next, len) {
            bytes
        } else {
            self.reading = Some(Box::pin(self.object.read(self.next, len)));
            return self.poll_bytes(cx);
        };
        self.advance(bytes.len());
        Poll::Ready(Some(Ok(bytes)))
    }

    fn advance(&mut self, len: usize) {
        self.next += len as u64;
        self.window = Window::Unknown;
    }

    /// That of what comes next, at most `most`.
    fn len(&self, most: usize) -> usize {
        usize::try_from(self.remaining()).unwrap_or(most).min(most)
    }
}

impl std::fmt::Debug for FileBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileBody")
            .field("next", &self.next)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}
