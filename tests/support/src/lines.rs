//! The lines that a child prints, collected by a thread of their own, and the JSON events among them.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Instant;

use super::DEADLINE;

/// Every line of one stream so far; waiting for a line blocks on a condition variable.
#[derive(Default)]
pub struct Lines {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    lines: Vec<String>,
    ended: bool,
}

impl Lines {
    /// Reads `stream` to its end in the background.
    pub fn collect(stream: impl Read + Send + 'static) -> Arc<Self> {
        let lines = Arc::new(Self::default());
        let sink = Arc::clone(&lines);
        thread::spawn(move || {
            let mut reader = BufReader::new(stream);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                sink.update(|state| state.lines.push(text));
                line.clear();
            }
            sink.update(|state| state.ended = true);
        });
        lines
    }

    /// The first result of `look` for a line, waiting for more lines; `None` at the end of the stream or the deadline.
    pub fn find_map<T>(&self, mut look: impl FnMut(&str) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + DEADLINE;
        let mut state = self.lock();
        let mut seen = 0;
        loop {
            for line in &state.lines[seen..] {
                if let Some(found) = look(line) {
                    return Some(found);
                }
            }
            seen = state.lines.len();
            if state.ended {
                return None;
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            let woken = self.changed.wait_timeout(state, left);
            state = woken.expect("no panic under the lock").0;
        }
    }

    /// The lines so far.
    pub fn so_far(&self) -> Vec<String> {
        self.lock().lines.clone()
    }

    /// All lines, once the stream has ended.
    #[track_caller]
    pub fn all(&self) -> Vec<String> {
        self.find_map(|_| None::<()>);
        assert!(self.lock().ended, "the stream is still open");
        self.so_far()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under the lock")
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
}

/// One line of `--log-format json`.
#[derive(Debug, Clone)]
pub struct Event {
    pub level: String,
    pub target: String,
    pub message: String,
    fields: serde_json::Value,
}

impl Event {
    /// The event on this line, if it is one.
    pub fn parse(line: &str) -> Option<Self> {
        let whole: serde_json::Value = serde_json::from_str(line).ok()?;
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        let fields = whole.get("fields")?.clone();
        Some(Self {
            level: text(&whole["level"])?,
            target: text(&whole["target"])?,
            message: text(&fields["message"]).unwrap_or_default(),
            fields,
        })
    }

    /// A field as text, whatever its JSON type.
    #[track_caller]
    pub fn field(&self, name: &str) -> String {
        match self.fields.get(name) {
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => panic!("no field `{name}` in {self:?}"),
        }
    }

    /// Whether it has such a field.
    pub fn has(&self, name: &str) -> bool {
        self.fields.get(name).is_some()
    }

    /// A field that must be a whole number.
    #[track_caller]
    pub fn number(&self, name: &str) -> u64 {
        let text = self.field(name);
        let number = text.parse();
        number.unwrap_or_else(|_| panic!("`{name}` is {text}, not a number"))
    }
}
