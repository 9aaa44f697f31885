//! Logging: structured events on standard error, as text or JSON. Installed once, by `main`.
//!
//! Logging never waits for the reader of standard error and never fails: `lines` makes the lines, and `queue` has them written
//! by a thread of its own. A panic is an event of the log too.

mod lines;
mod queue;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing::subscriber::set_global_default;
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt as _;

use self::lines::Lines;
use self::queue::{Queue, ROOM};

/// The target of the events about the log itself.
const TARGET: &str = "log";

/// How long the end of the process waits for the lines that are not written yet.
const FLUSH: Duration = Duration::from_secs(2);

/// What is logged, and how.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Least severe level.
    pub level: LevelFilter,
    /// JSON, one object a line, instead of text.
    pub json: bool,
}

/// The log of the process; clones share it.
#[derive(Clone, Debug)]
pub struct Log(Arc<Queue>);

impl Log {
    /// Logs `line` as it is, of no level and in no format.
    pub fn line(&self, line: &str) {
        self.0.push(format!("{line}\n").as_bytes(), ROOM);
    }

    /// Waits until every line is written, at most `FLUSH`: a reader that stalls does not hold the end of the process.
    pub fn finish(&self) {
        report(&self.0);
        self.0.finish(FLUSH);
    }
}

/// Installs the log for the whole process; panics are events of it too. Fails where the system refuses a thread.
pub fn install(options: Options) -> io::Result<Log> {
    let queue = Arc::new(Queue::default());
    queue::start(Arc::clone(&queue), report)?;
    let lines = Lines {
        queue: Arc::clone(&queue),
        options,
    };
    let installed = set_global_default(Registry::default().with(lines));
    if installed.is_ok() {
        std::panic::set_hook(Box::new(|panic| {
            let thread = std::thread::current();
            tracing::error!(thread = thread.name().unwrap_or("unnamed"), "{panic}");
        }));
    }
    Ok(Log(queue))
}

/// Logs how many lines have been lost since the last report, if any.
fn report(queue: &Queue) {
    let lost = queue.take_unreported();
    if lost > 0 {
        tracing::warn!(target: TARGET, lost, "log lines were lost");
    }
}
