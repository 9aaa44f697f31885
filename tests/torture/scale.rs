//! How much of each test is run, and what is said of what is left out.

pub(crate) use crate::support::left_out;

/// Whether the full form was asked for, with `DATA_SERVER_TORTURE=full`.
pub(crate) fn is_full() -> bool {
    std::env::var_os("DATA_SERVER_TORTURE").is_some_and(|form| form == "full")
}

/// `short` in the short form, `full` in the full one.
pub(crate) fn scaled<T>(short: T, full: T) -> T {
    if is_full() { full } else { short }
}

/// What a test needs; where it cannot be had, says why `what` was not tested.
pub(crate) fn available<T>(what: &str, needed: Result<T, String>) -> Option<T> {
    needed.map_err(|why| left_out(what, &why)).ok()
}

/// Says what was counted, in one line that `tests/run full` gathers.
macro_rules! counted {
    ($test:expr, $($counts:tt)+) => {
        eprintln!("COUNTED: {}: {}", $test, format_args!($($counts)+))
    };
}
pub(crate) use counted;

#[test]
fn the_short_form_is_the_default() {
    assert_eq!(scaled(1, 2), if is_full() { 2 } else { 1 });
    counted!(
        "scale",
        "{}",
        if is_full() { "full form" } else { "short form" }
    );
}
