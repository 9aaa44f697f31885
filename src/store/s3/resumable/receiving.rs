//! What a request has received of a resumable upload and not kept yet: in a file, hashed as it comes.

use super::super::super::error::Error;
use super::super::super::staging_quota::Reservation;
use super::super::super::write_buffer::WriteBuffer;
use super::super::spool::Spool;
use super::info::Progress;
use super::sums::{Hashers, Sums};

/// What a request has received and not kept.
pub(super) struct Receiving {
    pub(super) spool: Spool,
    pub(super) buffer: WriteBuffer,
    /// `None` once they are lost: nothing more can be kept.
    pub(super) sums: Option<Sums>,
    pub(super) reservation: Reservation,
    /// How many bytes come before those in the file.
    pub(super) base: u64,
    /// Bytes of the file that the store has as a tail.
    pub(super) known: u64,
    /// What had been received before.
    pub(super) before: Progress,
    /// Whether nothing is kept as received before it is compared.
    pub(super) waits: bool,
}

impl Receiving {
    /// How many bytes have been received, with these.
    pub(super) fn end(&self) -> u64 {
        self.base + self.spool.len() + self.buffer.len() as u64
    }
}

impl std::fmt::Debug for Receiving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiving").finish_non_exhaustive()
    }
}

impl Receiving {
    /// Has the buffer hashed and starts to write it to the file.
    pub(super) async fn flush(&mut self, is_new: bool) -> Result<(), Error> {
        let len = self.buffer.len() as u64;
        if len == 0 {
            return Ok(());
        }
        // What fails from here on leaves no sums, and so nothing that can be kept.
        let sums = self.sums.take().ok_or(Error::Incomplete)?;
        let runs = self.buffer.take();
        self.spool.write(runs.clone(), len).await?;
        self.sums = Some(sums.next(runs, is_new).await?);
        Ok(())
    }

    /// Waits until all is hashed and written; the file is to be begun anew, if what it has `is_sent`.
    pub(super) async fn settle(&mut self, is_sent: bool) -> Result<Hashers, Error> {
        self.flush(true).await?;
        let sums = self.sums.take().ok_or(Error::Incomplete)?;
        self.spool.written().await?;
        let (sums, hashers) = sums.settle(is_sent).await?;
        self.sums = Some(sums);
        Ok(hashers)
    }
}
