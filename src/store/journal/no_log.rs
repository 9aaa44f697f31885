//! The log of a store without a journal: it holds no records, so each change is made when it is decided, and each name
//! is synced by itself where that is promised.
//!
//! Promises that after a sync of names has failed, no change is made before all files are on the disk: values below a
//! folder that was made or moved would be acknowledged by syncs that say nothing of its name.

use std::sync::Arc;

use rustix::io::Errno;

use super::super::write_context::WriteContext;
use super::format::FrameBuilder;
use super::writer::Log;
use crate::value::Error;

/// No journal.
pub struct NoLog(pub Arc<WriteContext>);

impl Log for NoLog {
    fn frame(&self) -> Option<FrameBuilder> {
        None
    }

    fn has_room(&self, _: &FrameBuilder) -> bool {
        true
    }

    fn append(&mut self, _: FrameBuilder) -> Result<(u64, u64), Error> {
        Err(Error::new("write the journal", Errno::NOTSUP))
    }

    fn synced(&self) -> u64 {
        0
    }

    async fn wait(&mut self) -> Result<(), Error> {
        std::future::pending().await
    }

    fn checkpoint_all(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn resolve(&mut self) -> Result<(), Error> {
        let synced = self.0.sync_files();
        synced.map_err(Error::errno_while("sync the file system"))
    }

    fn publish(&mut self, _: Option<u64>, make: impl FnOnce() -> Vec<u64>) {
        drop(make());
    }

    fn end(self) {}
}
