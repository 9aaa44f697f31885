//! The bytes of a large value, and how an upload takes them where they are: past the memory of this process.
//!
//! Whoever holds the socket implements [`Inflow`]. A reactor moves what has arrived into a pipe, and a disk thread passes
//! that on to the file; as long as more is there it goes on by itself, so that bytes of a fast sender cost one hand-over
//! for some megabytes. Each of the futures made of an inflow may be dropped: what had arrived by then is lost with it, as
//! is the upload.

use std::fmt::Debug;
use std::future::poll_fn;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};

use super::super::error::Error;
use super::super::pipes::Pipe;
use super::{PIECE, Upload, write_at};

/// The most that a disk thread takes from a socket before others have their turn, in bytes.
const TURN: u64 = 4 << 20;

/// The bytes of one value, in order, as they arrive. Each way to take some answers how many were taken, or `None` when the
/// value broke off.
pub trait Inflow: Debug {
    /// How many bytes are left.
    fn left(&self) -> u64;

    /// Those that have been received already, which come before all others: to be taken first.
    fn take_early(&mut self) -> Bytes;

    /// Reads into the spare room of `buf`, never past the end; how many bytes, not 0.
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<Option<usize>>;

    /// Moves bytes that have not been received yet into `pipe`, which does not block and is empty or not as `is_empty` says; how many, 0 only when it is
    /// full.
    fn poll_splice(
        &mut self,
        cx: &mut Context<'_>,
        pipe: BorrowedFd<'_>,
        is_empty: bool,
    ) -> Poll<Option<usize>>;

    /// Drops bytes where they are; how many, not 0.
    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<Option<usize>>;

    /// What bytes that have not been received yet come from, for another thread to take some; `None` when there is no descriptor to be had.
    fn source(&self) -> Option<OwnedFd>;

    /// Another thread took so many bytes from the [`Inflow::source`].
    fn taken(&mut self, len: u64);
}

impl Upload {
    /// Takes all that `inflow` has, through the kernel alone where there are pipes for that. Nothing is hashed.
    ///
    /// Nothing may have been pushed before, and the length must have been known from the beginning.
    pub async fn receive(&mut self, inflow: &mut dyn Inflow) -> Result<(), Error> {
        match self.staging.pipes().take() {
            Some(pipe) if self.staged.is_some() => self.receive_through(pipe, inflow).await,
            _ => self.receive_in_memory(inflow).await,
        }
    }

    async fn receive_in_memory(&mut self, inflow: &mut dyn Inflow) -> Result<(), Error> {
        while inflow.left() > 0 {
            let data = read(inflow).await?;
            self.push(data).await?;
        }
        Ok(())
    }

    async fn receive_through(
        &mut self,
        mut pipe: Pipe,
        inflow: &mut dyn Inflow,
    ) -> Result<(), Error> {
        let source = inflow.source().map(Arc::new);
        let mut early = inflow.take_early();
        while let (Some(staged), 1..) = (&self.staged, inflow.left() + early.len() as u64) {
            pipe.fill(inflow).await?;
            let first = std::mem::take(&mut early);
            let (file, offset) = (Arc::clone(staged.file()), self.written);
            let held = (first.len() + pipe.len()) as u64;
            let (more, most) = (source.clone(), inflow.left().min(TURN));
            let job = move || {
                write_at(&file, offset, std::slice::from_ref(&first))?;
                pipe.write_to(&file, offset + first.len() as u64)?;
                let taken = match more {
                    Some(source) => pipe.pass_on(source.as_fd(), most, &file, offset + held)?,
                    None => 0,
                };
                Ok((pipe, taken))
            };
            let (emptied, taken) = self.staging.names().disk().run(job).await?;
            inflow.taken(taken);
            self.written += held + taken;
            pipe = emptied;
        }
        Ok(())
    }
}

/// The next bytes of `inflow`, in memory.
pub async fn read(inflow: &mut dyn Inflow) -> Result<Bytes, Error> {
    let early = inflow.take_early();
    if !early.is_empty() {
        return Ok(early);
    }
    let mut buf = BytesMut::with_capacity(PIECE);
    let read = poll_fn(|cx| inflow.poll_read(cx, &mut buf)).await;
    read.ok_or(Error::BrokenOff)?;
    Ok(buf.freeze())
}
