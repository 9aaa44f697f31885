//! How much of a test is run: what says enough in seconds, or all of it.

use std::env;

/// Whether the full form was asked for, with `DATA_SERVER_TESTS=full`.
pub fn is_full() -> bool {
    env::var_os("DATA_SERVER_TESTS").is_some_and(|form| form == "full")
}

/// `short` in the short form, `full` in the full one.
pub fn scaled<T>(short: T, full: T) -> T {
    if is_full() { full } else { short }
}
