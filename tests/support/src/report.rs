//! What a test says although it passes: what it left out and why, and figures that the log of a run keeps.

use std::env;
use std::io::Write as _;

/// Says that something was not tested here, and why: nothing is left out in silence.
pub fn left_out(what: &str, why: &str) {
    say(&format!("LEFT OUT: {what}: {why}"));
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
