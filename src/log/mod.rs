//! Logging: structured events on standard error, as text or JSON. Installed once, by `main`.
//!
//! Logging never waits for the reader of standard error and never fails: `queue` has the lines written by a thread of
//! its own. A panic is an event of the log too.

mod queue;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tracing::Metadata;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::set_global_default;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;

use self::queue::{HEADROOM, Queue, ROOM};

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
    let log = tracing_subscriber::fmt()
        .with_max_level(options.level)
        .with_writer(Lines(Arc::clone(&queue)))
        .log_internal_errors(false)
        .with_ansi(false);
    // The library warns of what clients send: one could fill the log.
    let is_for_debugging = options.level >= LevelFilter::DEBUG;
    let filter = filter_fn(move |event| is_for_debugging || !event.target().starts_with("h2::"));
    let filter = filter.with_max_level_hint(options.level);
    let installed = if options.json {
        set_global_default(log.json().finish().with(filter))
    } else {
        set_global_default(log.finish().with(filter))
    };
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

/// Gives each event a writer to the queue.
struct Lines(Arc<Queue>);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line {
            queue: &self.0,
            room: ROOM,
        }
    }

    /// A report of lost lines has room where other lines have none left.
    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Line<'a> {
        let is_report = event.target() == TARGET;
        Line {
            queue: &self.0,
            room: ROOM + if is_report { HEADROOM } else { 0 },
        }
    }
}

/// Adds the line of one event, which tracing-subscriber writes whole, to the queue.
struct Line<'a> {
    queue: &'a Queue,
    room: usize,
}

impl io::Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.queue.push(line, self.room);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
