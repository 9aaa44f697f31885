//! A value on its way from its file to a connection, a window at a time.
//!
//! Each window is brought into memory, on the disk threads where it is not there yet, before the [`Link`] gets it as a
//! region. Holds one window at a time, whatever the value's size; reads no byte itself.

use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::link::Link;
use super::region::Region;
use crate::store::{Error, Object};

/// How much of a file is brought into memory and given to hyper at a time, in bytes.
pub(super) const WINDOW: usize = 1 << 20;

/// A body that is long enough for full packets to gain more than two system calls cost, in bytes.
pub(super) const LONG: u64 = 256 << 10;

/// See the module.
pub(super) struct FileBody {
    object: Arc<Object>,
    link: Rc<Link>,
    next: u64,
    end: u64,
    is_long: bool,
    window: Window,
}

/// Where the next window is.
enum Window {
    Unknown,
    Coming(Pin<Box<dyn Future<Output = Result<(), Error>>>>),
    AtHand,
}

impl FileBody {
    /// This `range` of `object`, for the connection of `link`.
    pub(super) fn new(object: Arc<Object>, range: Range<u64>, link: &Rc<Link>) -> Self {
        Self {
            object,
            link: Rc::clone(link),
            next: range.start,
            end: range.end,
            is_long: range.end - range.start >= LONG,
            window: Window::Unknown,
        }
    }

    /// How many bytes are left.
    pub(super) fn remaining(&self) -> u64 {
        self.end - self.next
    }

    /// Whether the next window lies in memory.
    pub(super) fn is_at_hand(&mut self) -> bool {
        let is_unknown = matches!(self.window, Window::Unknown);
        if is_unknown && self.object.is_resident(self.next, self.len() as u64) {
            self.window = Window::AtHand;
        }
        matches!(self.window, Window::AtHand)
    }

    /// Brings the next window into memory.
    pub(super) fn poll_at_hand(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while !self.is_at_hand() {
            if let Window::Coming(coming) = &mut self.window {
                let come = ready!(coming.as_mut().poll(cx));
                self.window = Window::Unknown;
                come?;
                self.window = Window::AtHand;
            } else {
                let coming = self.object.make_resident(self.next, self.len() as u64);
                self.window = Window::Coming(Box::pin(coming));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Hands the next window to the link once it lies in memory; its length, or `None` at the end.
    pub(super) fn poll_window(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<usize, Error>>> {
        let len = self.len();
        if len == 0 {
            return Poll::Ready(None);
        }
        ready!(self.poll_at_hand(cx))?;
        self.window = Window::Unknown;
        self.link.regions().push(Region {
            file: self.object.descriptor(),
            offset: self.next,
            len,
            is_long: self.is_long,
            is_last: self.next + len as u64 == self.end,
        });
        self.next += len as u64;
        Poll::Ready(Some(Ok(len)))
    }

    /// That of the next window.
    fn len(&self) -> usize {
        usize::try_from(self.remaining())
            .unwrap_or(WINDOW)
            .min(WINDOW)
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
