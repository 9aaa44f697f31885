//! What a test says although it passes: what it left out and why, and figures that the log of a run keeps; and whether a
//! program is there that it needs.

use std::env;
use std::io::Write as _;
use std::path::PathBuf;

/// Says that something was not tested here, and why: nothing is left out in silence. `tests/run` counts these lines by reason.
pub fn left_out(what: &str, why: &str) {
    let why = why.replace(['\n', '\r'], " ");
    say(&format!("LEFT OUT: {what} -- {why}"));
}

/// What a test needs. Without it the test ends, and whoever was asked for it has said what is left out; or the test does something
/// else, such as `continue`.
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

/// Ends the test where this does not hold, and says that `what` is left out, and why; in a helper, with what that returns then.
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

/// Writes a line past what captures the output of a test that passes, in one piece: what counts the lines finds each whole.
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
