//! Panics and misdeeds by order, so that tests can have the real binary fail: in debug builds alone, a release has no such door.
//!
//! `DATA_SERVER_PANIC=PLACE:WHAT` in the environment asks for a panic whenever `PLACE` comes to deal with `WHAT`, and
//! `DATA_SERVER_MISBEHAVE` for what `misdeeds` does. Why not a library for it: there is little that is to happen, and there are few
//! places; what the kernel refuses, strace shows better.

use std::time::Duration;

#[cfg(debug_assertions)]
mod misdeeds;

/// The variables that debug builds take from the environment for tests.
pub(crate) const VARIABLES: &[&str] = if cfg!(debug_assertions) {
    &[
        "DATA_SERVER_PANIC",
        "DATA_SERVER_MISBEHAVE",
        "DATA_SERVER_OUTSIDE",
        "DATA_SERVER_ELSEWHERE",
        "DATA_SERVER_VALUES",
        "DATA_SERVER_TAKEOVER",
        "DATA_SERVER_CHECKPOINT",
        "DATA_SERVER_TRIAL",
    ]
} else {
    &[]
};

/// Panics or misbehaves if that was asked for, of this `place` and `what`.
#[cfg(debug_assertions)]
pub(crate) fn reach(place: &str, what: &str) {
    static PANIC: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("DATA_SERVER_PANIC").ok());
    static MISBEHAVE: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("DATA_SERVER_MISBEHAVE").ok());
    let is_asked = |variable: &Option<String>| {
        let asked = variable.as_deref().and_then(|asked| asked.split_once(':'));
        asked == Some((place, what))
    };
    assert!(!is_asked(&PANIC), "asked for by DATA_SERVER_PANIC");
    if is_asked(&MISBEHAVE) {
        misdeeds::commit();
    }
}

/// Does nothing: this is a release.
#[cfg(not(debug_assertions))]
#[inline]
pub(crate) fn reach(_place: &str, _what: &str) {}

/// Whether connections take their sockets over for long bodies: with `DATA_SERVER_TAKEOVER=off` hyper moves those too, so that tests can
/// compare the answers of both.
#[cfg(debug_assertions)]
pub(crate) fn takes_over() -> bool {
    static IS_OFF: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
        std::env::var("DATA_SERVER_TAKEOVER").is_ok_and(|how| how == "off")
    });
    !*IS_OFF
}

/// They do: this is a release.
#[cfg(not(debug_assertions))]
#[inline]
pub(crate) fn takes_over() -> bool {
    true
}

/// How long a checkpoint of the journal is waited for: `DATA_SERVER_CHECKPOINT` seconds, so that a test can hold it off.
#[cfg(debug_assertions)]
pub(crate) fn checkpoint_interval(usual: Duration) -> Duration {
    static SECONDS: std::sync::LazyLock<Option<u64>> = std::sync::LazyLock::new(|| {
        let asked = std::env::var("DATA_SERVER_CHECKPOINT").ok();
        asked.and_then(|asked| asked.parse().ok())
    });
    SECONDS.map_or(usual, Duration::from_secs)
}

/// As usual: this is a release.
#[cfg(not(debug_assertions))]
#[inline]
pub(crate) fn checkpoint_interval(usual: Duration) -> Duration {
    usual
}
