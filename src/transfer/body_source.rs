//! The bytes of a long value, and how an upload takes them: past the memory of this process.
//!
//! The connection that holds the socket implements [`BodySource`]. Each future made of one may be dropped: what had arrived
//! by then is lost with it, as is the upload.

use std::fmt::Debug;
use std::future::poll_fn;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};

use super::limits::CHUNK;
use crate::value::Error;

/// The bytes of one value, in order, as they arrive. Each call that takes bytes answers how many, or `None` when the body
/// ended too early.
pub trait BodySource: Debug {
    /// How many bytes are left.
    fn left(&self) -> u64;

    /// Takes the bytes that have been received already. They come before all others, so this is called first.
    fn take_early(&mut self) -> Bytes;

    /// Has `head`, that of an interim response, sent before more bytes are waited for.
    fn announce(&mut self, head: Bytes);

    /// Reads into the spare room of `buf`, never past the end; how many bytes, not 0.
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<Option<usize>>;

    /// Moves bytes that have not been received yet into `pipe`, which does not block; how many, 0 only when it is full.
    /// `is_empty` says whether the pipe is empty.
    fn poll_splice(
        &mut self,
        cx: &mut Context<'_>,
        pipe: BorrowedFd<'_>,
        is_empty: bool,
    ) -> Poll<Option<usize>>;

    /// Drops bytes where they are; how many, not 0.
    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<Option<usize>>;

    /// The socket, for another thread to take bytes from that have not been received yet; `None` when no descriptor can be
    /// made.
    fn source(&self) -> Option<OwnedFd>;

    /// Records that another thread took `len` bytes from [`BodySource::source`].
    fn taken(&mut self, len: u64);
}

/// The next bytes of `source`, in memory.
pub async fn read(source: &mut dyn BodySource) -> Result<Bytes, Error> {
    let early = source.take_early();
    if !early.is_empty() {
        return Ok(early);
    }
    let mut buf = BytesMut::with_capacity(CHUNK);
    let read = poll_fn(|cx| source.poll_read(cx, &mut buf)).await;
    read.ok_or(Error::Incomplete)?;
    Ok(buf.freeze())
}
