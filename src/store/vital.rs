//! Threads without which no write can be answered: a panic of one ends the process, with a message, and never leaves writers waiting.

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;

/// Starts a thread with this name that does `work`.
pub(super) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    let thread = name.to_owned();
    let work = move || {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
            // Not by the log, whose lines wait for a thread of their own.
            let why = format!("data-server: the thread {thread} has panicked, without which no write is answered\n");
            let _ = std::io::stderr().write_all(why.as_bytes());
            std::process::exit(1)
        })
    };
    std::thread::Builder::new().name(name.into()).spawn(work)
}
