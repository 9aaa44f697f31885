//! How much of each test is run, and what it counted.

/// Whether the full form was asked for, with `DATA_SERVER_TORTURE=full`.
pub(crate) fn is_full() -> bool {
    std::env::var_os("DATA_SERVER_TORTURE").is_some_and(|form| form == "full")
}

/// `short` in the short form, `full` in the full one.
pub(crate) fn scaled<T>(short: T, full: T) -> T {
    if is_full() { full } else { short }
}

/// Says what was counted, in one line that `tests/run full` gathers.
macro_rules! counted {
    ($($counts:tt)+) => {
        eprintln!("COUNTED: {}", format_args!($($counts)+))
    };
}
pub(crate) use counted;
