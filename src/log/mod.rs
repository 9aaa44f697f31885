//! Logging: structured events on standard error, as text or JSON. Installed once, by `main`.
//!
//! Logging never waits for the reader of standard error and never fails: the lines are made here, and `queue` has them
//! written by a thread of its own. A panic is an event of the log too.

mod queue;
mod throttle;

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::{fmt, io, mem};

use humantime::format_rfc3339_micros;
use serde::Serialize;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::set_global_default;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::{Layer, Registry};

use queue::{HEADROOM, Queue, ROOM};

pub use throttle::Throttle;

/// The target of the events about the log itself.
const TARGET: &str = "log";

/// How long the end of the process waits for the lines that are not written yet.
const FLUSH: Duration = Duration::from_secs(2);

/// The target of events whose message is the line: the access log in the combined format.
const AS_IT_IS: &str = "combined";

/// A thread keeps the memory of a line up to this length, in bytes.
const KEPT: usize = 4 << 10;

/// The level and the format of the log.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// Least severe level.
    pub level: LevelFilter,
    /// True for JSON, one object a line, instead of text.
    pub json: bool,
}

/// The log of the process; clones share it.
#[derive(Clone, Debug)]
pub struct LogHandle(Arc<Queue>);

impl LogHandle {
    /// Logs `line` unchanged, without level and format.
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
pub fn install(options: LogOptions) -> io::Result<LogHandle> {
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
    Ok(LogHandle(queue))
}

/// Logs how many lines have been lost since the last report, if any.
fn report(queue: &Queue) {
    let lost = queue.take_unreported();
    if lost > 0 {
        tracing::warn!(target: TARGET, lost, "log lines were lost");
    }
}

thread_local! {
    /// Where lines are made, on their thread.
    static LINE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Adds the line of each event to the queue. Spans are not logged.
#[derive(Debug)]
struct Lines {
    queue: Arc<Queue>,
    options: LogOptions,
}

impl Lines {
    fn write(&self, event: &Event<'_>, line: &mut Vec<u8>) {
        let (meta, now) = (event.metadata(), format_rfc3339_micros(SystemTime::now()));
        if meta.target() == AS_IT_IS {
            event.record(&mut Fields::new(line, false));
            line.push(b'\n');
            return;
        }
        if self.options.json {
            put(line, format_args!("{{\"timestamp\":\"{now}\",\"level\":"));
            json(line, meta.level().as_str());
            line.extend_from_slice(b",\"fields\":{");
            event.record(&mut Fields::new(line, true));
            line.extend_from_slice(b"},\"target\":");
            json(line, meta.target());
            line.extend_from_slice(b"}\n");
        } else {
            put(line, format_args!("{now}"));
            let level = meta.level().as_str();
            // The names of levels are four or five bytes long.
            line.extend_from_slice(if level.len() < 5 { b"  " } else { b" " });
            for text in [level, " ", meta.target(), ": "] {
                line.extend_from_slice(text.as_bytes());
            }
            event.record(&mut Fields::new(line, false));
            line.push(b'\n');
        }
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    /// The HTTP/2 library warns about what clients send, so a client could fill the log.
    fn enabled(&self, meta: &Metadata<'_>, _: Context<'_, S>) -> bool {
        let LogOptions { level, .. } = self.options;
        let is_told = level >= LevelFilter::DEBUG || !meta.target().starts_with("h2::");
        meta.is_event() && *meta.level() <= level && is_told
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.options.level)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // Formatting a value may log recursively; the inner call finds the buffer taken and allocates its own.
        let mut line = LINE.try_with(Cell::take).unwrap_or_default();
        line.clear();
        self.write(event, &mut line);
        // The report of lost lines may use the headroom.
        let is_report = event.metadata().target() == TARGET;
        self.queue
            .push(&line, ROOM + if is_report { HEADROOM } else { 0 });
        line.shrink_to(KEPT);
        let _ = LINE.try_with(|kept| kept.set(line));
    }
}

/// The fields of an event, after the beginning of the line: `message name="text" name=1`, or in JSON
/// `"message":"text","name":1`.
struct Fields<'a> {
    line: &'a mut Vec<u8>,
    is_json: bool,
    is_first: bool,
}

impl<'a> Fields<'a> {
    fn new(line: &'a mut Vec<u8>, is_json: bool) -> Self {
        Self {
            line,
            is_json,
            is_first: true,
        }
    }

    /// Begins a field: adds the separator and the name.
    fn name(&mut self, field: &Field) -> &mut Vec<u8> {
        if !mem::take(&mut self.is_first) {
            self.line.push(if self.is_json { b',' } else { b' ' });
        }
        if self.is_json {
            json(self.line, name(field));
            self.line.push(b':');
        } else if !is_message(field) {
            self.line.extend_from_slice(name(field).as_bytes());
            self.line.push(b'=');
        }
        self.line
    }
}

impl Visit for Fields<'_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        json(self.name(field), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        json(self.name(field), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        json(self.name(field), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        json(self.name(field), value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let is_plain = |b| matches!(b, b' '..=b'~') && b != b'"' && b != b'\\';
        if self.is_json {
            json(self.name(field), value);
        } else if is_message(field) {
            self.record_debug(field, &format_args!("{value}"));
        } else if value.bytes().all(is_plain) {
            let line = self.name(field);
            line.push(b'"');
            line.extend_from_slice(value.as_bytes());
            line.push(b'"');
        } else {
            self.record_debug(field, &value);
        }
    }

    /// Escapes control characters, which a terminal would interpret.
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.is_json {
            return json(self.name(field), format!("{value:?}"));
        }
        let line = self.name(field);
        let start = line.len();
        put(line, format_args!("{value:?}"));
        let is_quoted = line[start..].starts_with(b"\"");
        if !is_message(field) && !is_quoted && line[start..].iter().any(|b| b" ,".contains(b)) {
            let text = String::from_utf8_lossy(&line[start..]).into_owned();
            line.truncate(start);
            put(line, format_args!("{text:?}"));
        }
        // A control character, or the first byte of one.
        let is_control = |byte: &u8| byte.is_ascii_control() || *byte == 0xC2;
        if line[start..].iter().any(is_control) {
            let text = String::from_utf8_lossy(&line[start..]).into_owned();
            line.truncate(start);
            for c in text.chars() {
                match c {
                    '\n' | '\t' | '\r' => put(line, format_args!("{c}")),
                    c if c.is_control() => put(line, format_args!("{}", c.escape_unicode())),
                    c => put(line, format_args!("{c}")),
                }
            }
        }
    }
}

fn is_message(field: &Field) -> bool {
    field.name() == "message"
}

fn name(field: &Field) -> &'static str {
    let name = field.name();
    name.strip_prefix("r#").unwrap_or(name)
}

/// A writer of text to a line, which never fails.
struct Memory<'a>(&'a mut Vec<u8>);

impl fmt::Write for Memory<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Appends `text`; formatting errors are ignored.
fn put(line: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    let _ = fmt::Write::write_fmt(&mut Memory(line), text);
}

fn json(line: &mut Vec<u8>, value: impl Serialize) {
    let _ = serde_json::to_writer(line, &value);
}
