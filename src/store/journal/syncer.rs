//! The thread that puts the journal on the disk, while the publisher writes files.
//!
//! Each sync takes all that was appended when it begins. For `--durability disk` the publisher waits for its report. For `second` each
//! frame is reported at once, and synced within a second. Promises that a segment is never synced again after a sync of it has failed.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::control::Position;
use super::segment::Segment;

/// How often `second` syncs.
const SECOND: Duration = Duration::from_secs(1);

/// All frames of the segment before `end` are on the disk; or a sync of that segment has failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) end: Position,
    pub(super) synced: Result<(), Errno>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Syncer {
    to_sync: Sender<Appended>,
    /// For what is reported before it is synced.
    early: Option<UnboundedSender<Report>>,
    thread: JoinHandle<()>,
}

/// A frame that ends at `end` is written to this segment.
#[derive(Debug)]
struct Appended {
    end: Position,
    segment: Arc<Segment>,
}

impl Syncer {
    /// One whose reports are waited for; `sync` syncs a segment.
    pub(super) fn each(
        sync: impl Fn(&Segment) -> Result<(), Errno> + Send + 'static,
    ) -> std::io::Result<(Self, UnboundedReceiver<Report>)> {
        Self::start(sync, false)
    }

    /// One that syncs each second, and reports what was appended at once.
    pub(super) fn each_second(
        sync: impl Fn(&Segment) -> Result<(), Errno> + Send + 'static,
    ) -> std::io::Result<(Self, UnboundedReceiver<Report>)> {
        Self::start(sync, true)
    }

    fn start(
        sync: impl Fn(&Segment) -> Result<(), Errno> + Send + 'static,
        is_early: bool,
    ) -> std::io::Result<(Self, UnboundedReceiver<Report>)> {
        let (to_sync, waiting) = mpsc::channel();
        let (report, reports) = unbounded_channel();
        let early = is_early.then(|| report.clone());
        let interval = if is_early { SECOND } else { Duration::ZERO };
        let tell = move |told: Report| {
            if told.synced.is_err() || !is_early {
                // Its receiver ends only after this.
                let _ = report.send(told);
            }
        };
        let thread = std::thread::Builder::new()
            .name("disk-journal".into())
            .spawn(move || sync_all(&waiting, interval, sync, tell))?;
        let syncer = Self {
            to_sync,
            early,
            thread,
        };
        Ok((syncer, reports))
    }

    /// Has the frame synced that ends at `end` in `segment`. False if there is no thread for it any more.
    pub(super) fn begin(&self, end: Position, segment: &Arc<Segment>) -> bool {
        let segment = Arc::clone(segment);
        let is_begun = self.to_sync.send(Appended { end, segment }).is_ok();
        if let (true, Some(report)) = (is_begun, &self.early) {
            let synced = Ok(());
            return report.send(Report { end, synced }).is_ok();
        }
        is_begun
    }

    /// Ends the thread.
    pub(super) fn end(self) {
        // It ends when nothing more can come.
        drop(self.to_sync);
        let _ = self.thread.join();
    }
}

/// Syncs what comes, at the latest so long after it came.
fn sync_all(
    waiting: &Receiver<Appended>,
    interval: Duration,
    sync: impl Fn(&Segment) -> Result<(), Errno>,
    tell: impl Fn(Report),
) {
    let mut failed = None;
    let mut next = waiting.recv().ok();
    while let Some(mut appended) = next.take() {
        let until = Instant::now() + interval;
        while let Some(later) = receive(waiting, until) {
            if later.end.generation != appended.end.generation {
                next = Some(later);
                break;
            }
            appended = later;
        }
        let end = appended.end;
        let synced = match failed {
            Some((generation, errno)) if generation == end.generation => Err(errno),
            _ => sync(&appended.segment),
        };
        if let Err(errno) = synced {
            failed = Some((end.generation, errno));
        }
        tell(Report { end, synced });
        next = next.or_else(|| waiting.recv().ok());
    }
}

/// What comes before `until`, if anything does.
fn receive(waiting: &Receiver<Appended>, until: Instant) -> Option<Appended> {
    match until.saturating_duration_since(Instant::now()) {
        Duration::ZERO => waiting.try_recv().ok(),
        left => waiting.recv_timeout(left).ok(),
    }
}
