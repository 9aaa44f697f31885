//! What a test says although it passes: what it left out and why, how long it took, and figures that the log of a run
//! keeps; and whether a program is there that it needs.

use std::cell::Cell;
use std::env;
use std::io::Write as _;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// A test that takes this long says so at its end.
const LONG: Duration = Duration::from_secs(2);

/// What became of the test that runs in this thread, from its first use of this crate on.
struct Test {
    since: Instant,
    has_left_out: Cell<bool>,
    has_tested: Cell<bool>,
    /// None in a thread that is not named after a test.
    name: Option<String>,
}

thread_local! {
    static TEST: Test = Test {
        since: Instant::now(),
        has_left_out: Cell::new(false),
        has_tested: Cell::new(false),
        name: thread::current().name().filter(|name| *name != "main").map(str::to_owned),
    };
}

/// `tests/run` counts a test of which everything was left out as left out, and lists the tests that take longest.
impl Drop for Test {
    fn drop(&mut self) {
        let Some(name) = &self.name else { return };
        if self.has_left_out.get() && !self.has_tested.get() {
            say(&format!("NOT TESTED: {name}"));
        }
        let time = self.since.elapsed();
        if time >= LONG {
            say(&format!("TOOK: {:.1} s {name}", time.as_secs_f32()));
        }
    }
}

/// Says that something was not tested here, and why: nothing is left out in silence. `tests/run` counts these lines by
/// reason.
pub fn left_out(what: &str, why: &str) {
    let why = why.replace(['\n', '\r'], " ");
    say(&format!("LEFT OUT: {what} -- {why}"));
    TEST.with(|test| test.has_left_out.set(true));
}

/// The name of the test that runs in this thread.
pub fn this_test() -> String {
    thread::current().name().unwrap_or("a test").to_owned()
}

/// What a test needs; where it cannot be had, says why `what` was not tested.
pub fn available<T>(what: &str, needed: Result<T, String>) -> Option<T> {
    needed.map_err(|why| left_out(what, &why)).ok()
}

/// Notes that the test of this thread tests something, whatever else it leaves out. The start of a server notes it.
pub fn tested() {
    TEST.with(|test| test.has_tested.set(true));
}

/// Whether this thread has left something out and tested nothing: for [`part_ended`] in the thread of the test.
pub fn has_only_left_out() -> bool {
    TEST.with(|test| test.has_left_out.get() && !test.has_tested.get())
}

/// Notes what became of a part of the test that ran in a thread of its own.
pub fn part_ended(has_only_left_out: bool) {
    if has_only_left_out {
        TEST.with(|test| test.has_left_out.set(true));
    } else {
        tested();
    }
}

/// What a test needs. Without it the test ends, and whoever was asked for it has said what is left out; or the test
/// does something else, such as `continue`.
#[macro_export]
macro_rules! needed {
    ($needed:expr) => {
        $crate::needed!($needed, return)
    };
    ($needed:expr, $otherwise:expr) => {
        match $needed {
            Some(needed) => needed,
            None => $otherwise,
        }
    };
}

/// Ends the test where this does not hold, and says that `what` is left out, and why; in a helper, with what that
/// returns then.
#[macro_export]
macro_rules! only_where {
    ($holds:expr, $what:expr, $why:expr $(, $otherwise:expr)?) => {
        if !($holds) {
            $crate::left_out($what, $why);
            return $($otherwise)?;
        }
    };
}

/// Ends the test where strace does not run.
#[macro_export]
macro_rules! tracing_only {
    ($what:expr) => {
        $crate::only_where!($crate::can_trace(), $what, "strace does not run here")
    };
}

/// Writes a line past what captures the output of a test that passes, in one piece: what counts the lines finds each
/// whole.
pub fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Whether a program of this name is on the path.
pub fn is_on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Where a program is: among the tools of this project, or on the path.
pub fn tool(name: &str) -> Option<PathBuf> {
    let test = env::current_exe().expect("the path of this test");
    let target = test.ancestors().nth(3).expect("the directory of builds");
    let own = target.join("tools").join(name);
    if own.is_file() {
        return Some(own);
    }
    is_on_path(name).then(|| name.into())
}
