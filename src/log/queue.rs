//! The lines that wait to be written, and the thread that writes them to standard error.
//!
//! Adding a line never waits for a write. A line that finds no room, and a line that standard error refuses, is lost
//! and counted in [`LOG_LINES_LOST`]. Lines are written in the order in which they were added. Memory is bounded: at
//! most [`ROOM`] bytes wait while as many are being written.

use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, mem, thread};

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};

use crate::metrics::LOG_LINES_LOST;

/// Bytes of lines that may wait to be written: some 15,000 lines of the access log.
pub const ROOM: usize = 4 << 20;

/// Beyond [`ROOM`], for the line that says how many were lost.
pub const HEADROOM: usize = 1 << 10;

/// The least time between two writes, unless [`BATCH`] bytes wait: waking the thread for each line would be the largest
/// cost of a request. A line after a pause is written at once.
const GATHER: Duration = Duration::from_millis(10);

/// Flush threshold in bytes, and the capacity that an empty buffer keeps.
const BATCH: usize = 64 << 10;

/// While lines go on waiting, lost ones are reported at most this often.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// The lines that wait.
#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<QueueState>,
    filled: Condvar,
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    lines: Vec<u8>,
    /// The thread has taken lines that it has not finished writing.
    is_writing: bool,
    /// Lost lines that have been reported.
    reported: u64,
}

impl QueueState {
    fn is_idle(&self) -> bool {
        self.lines.is_empty() && !self.is_writing
    }
}

/// Starts the thread that writes the lines of `queue`; it calls `report` when a write succeeds and lines may have been
/// lost before.
pub fn start(queue: Arc<Queue>, report: fn(&Queue)) -> io::Result<()> {
    let run = move || {
        let (mut stderr, mut batch) = (StandardError::default(), Vec::new());
        let mut next_report = Instant::now();
        let mut next_write = Instant::now();
        loop {
            queue.next(&mut batch, next_write);
            let lost = stderr.write(&batch);
            next_write = Instant::now() + GATHER;
            LOG_LINES_LOST.add(lost);
            if lost == 0 && (queue.state.lock().lines.is_empty() || Instant::now() >= next_report) {
                report(&queue);
                next_report = Instant::now() + REPORT_EVERY;
            }
        }
    };
    thread::Builder::new().name("log".into()).spawn(run)?;
    Ok(())
}

impl Queue {
    /// Adds `line`, unless more than `room` bytes would then wait.
    pub fn push(&self, line: &[u8], room: usize) {
        let mut state = self.state.lock();
        if state.lines.len() + line.len() > room {
            LOG_LINES_LOST.add(1);
            return;
        }
        let before = state.lines.len();
        state.lines.extend_from_slice(line);
        let is_batch = before < BATCH && state.lines.len() >= BATCH;
        drop(state);
        if before == 0 || is_batch {
            self.filled.notify_one();
        }
    }

    /// Lines lost since the last call.
    pub fn take_unreported(&self) -> u64 {
        let mut state = self.state.lock();
        let lost = LOG_LINES_LOST.get();
        lost - mem::replace(&mut state.reported, lost)
    }

    /// Waits until every line is written, at most for `limit`.
    pub fn finish(&self, limit: Duration) {
        let is_busy = |state: &mut QueueState| !state.is_idle();
        self.emptied
            .wait_while_for(&mut self.state.lock(), is_busy, limit);
    }

    /// Waits for lines, and for more of them until `gathered`; takes them all. The batch of before has been written.
    fn next(&self, batch: &mut Vec<u8>, gathered: Instant) {
        batch.clear();
        batch.shrink_to(BATCH);
        let mut state = self.state.lock();
        state.is_writing = false;
        if state.is_idle() {
            self.emptied.notify_all();
        }
        let is_empty = |state: &mut QueueState| state.lines.is_empty();
        self.filled.wait_while(&mut state, is_empty);
        let rest = gathered.saturating_duration_since(Instant::now());
        let is_short = |state: &mut QueueState| state.lines.len() < BATCH;
        self.filled.wait_while_for(&mut state, is_short, rest);
        state.is_writing = true;
        mem::swap(&mut state.lines, batch);
    }
}

/// Standard error, where a failed write is no reason to panic. Waits as long as the reader does.
#[derive(Debug, Default)]
struct StandardError {
    /// True if the last line was written in part: the next line has to begin with a line end.
    is_torn: bool,
}

impl StandardError {
    /// Writes whole lines; returns how many of them were lost.
    fn write(&mut self, lines: &[u8]) -> u64 {
        if self.is_torn && write_all(b"\n").is_ok() {
            self.is_torn = false;
        }
        let outcome = if self.is_torn {
            Err(0)
        } else {
            write_all(lines)
        };
        let Err(written) = outcome else { return 0 };
        self.is_torn = match written {
            0 => self.is_torn,
            _ => lines[written - 1] != b'\n',
        };
        let lost = lines[written..].iter().filter(|&&byte| byte == b'\n');
        lost.count() as u64
    }
}

/// Writes `bytes`; where that fails, says how many of them were written.
fn write_all(bytes: &[u8]) -> Result<(), usize> {
    let stderr = io::stderr();
    let mut written = 0;
    while written < bytes.len() {
        match rustix::io::write(&stderr, &bytes[written..]) {
            Err(Errno::INTR) => {}
            // Another process made the pipe or the terminal that both write to one that does not block.
            Err(Errno::AGAIN) => {
                let mut fds = [PollFd::new(&stderr, PollFlags::OUT)];
                retry_on_intr(|| poll(&mut fds, None)).map_err(|_| written)?;
            }
            Ok(0) | Err(_) => return Err(written),
            Ok(n) => written += n,
        }
    }
    Ok(())
}
