//! What follows a checkpoint that failed: the values that it was to settle are not answered, and written anew from the
//! journal.
//!
//! The kernel reports a failure once, and does not say of which file. So reads of all small values from the first
//! unsettled change on are refused; larger values were synced by themselves.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::super::format::ChangeRecord;
use super::super::kept;
use super::super::log::{History, UnsettledLog, first_small};
use super::super::replay::{FileState, replay};
use super::super::segment::Frame;
use super::{Checkpoints, interval};
use crate::value::{Error, Key, Version};

impl Checkpoints {
    /// Notes a failed checkpoint in the control file, and has the next one come later.
    pub fn fail(&self) {
        self.refuse_reads();
        self.state
            .lock()
            .due
            .get_or_insert(Instant::now() + interval());
        if let Err(errno) = self.write_control(true, |_| ()) {
            let what = "cannot note that a checkpoint of the journal failed";
            self.state.lock().log_failure(what, errno);
        }
    }

    /// The frames that are not settled, read from the segments.
    fn unsettled(&self) -> Result<Vec<Frame>, Error> {
        let state = self.state.lock();
        let used = state.segments.used.iter();
        let parts: Vec<_> = used.map(|(live, s)| (*live, Some(Arc::clone(s)))).collect();
        let (control, made) = (state.control.clone(), state.made);
        drop(state);
        let log = UnsettledLog::read(self.journal, &parts, &control, made);
        let log = log.map_err(Error::errno_while("read the journal"))?;
        log.damage.map_or(Ok(log.frames), |damage| {
            let damage = std::io::Error::other(damage);
            Err(Error::failed("read the journal")(damage))
        })
    }

    /// Refuses reads of the values whose bytes only the journal is known to have; of all small values, if the journal
    /// cannot be read.
    pub fn refuse_reads(&self) {
        self.writer.journal.is_failing.store(true, Relaxed);
        let made = self.state.lock().made;
        if self.state.lock().refused == made {
            return;
        }
        let since = self.unsettled().and_then(|frames| first_small(&frames));
        let all = Some(Version::from_nanos(i128::MIN));
        let journal = &self.writer.journal;
        journal.refuse_reads(*since.as_ref().unwrap_or(&all));
        let what = "cannot tell which values may be damaged: no small one is answered";
        match since {
            Ok(_) => self.state.lock().refused = made,
            Err(error) => self.state.lock().log_failure(what, error),
        }
    }

    /// Allows all reads again: the bytes of all values are on the disk.
    pub fn allow_reads(&self) {
        self.writer.journal.is_failing.store(false, Relaxed);
        self.writer.journal.refuse_reads(None);
        let mut state = self.state.lock();
        (state.refused, state.failure) = (0, None);
    }

    /// Writes all values anew whose changes are not settled, while nothing is published. Returns the changes that are
    /// to be kept, as they cannot be made for their keys alone.
    pub fn write_anew(&self) -> Result<Vec<ChangeRecord>, Error> {
        let cancelled = self.cancelled.lock();
        // A change in flight has no name yet. The publisher makes it, or is refused and cancels it.
        let made = self.state.lock().made;
        let frames = self.unsettled()?;
        let history = History::without(&cancelled);
        let (dir, writer) = (self.writer.dir(), Some(&*self.writer));
        let mut kept = kept::changes(&self.dir, self.journal)?;
        let keep = |key: &Key<'_>, error| kept::keep(&self.writer, key, error);
        let state = FileState::NamesWhole;
        let done = replay(dir, writer, &frames, made, history, state, keep)?;
        kept.extend(done.stuck);
        kept::refuse(&self.writer, &kept);
        Ok(kept)
    }
}
