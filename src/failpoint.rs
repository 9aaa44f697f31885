//! Panics and misdeeds by order, so that tests can have the real binary fail: in debug builds alone, a release has no
//! such door.
//!
//! `DATA_SERVER_PANIC=PLACE:WHAT` in the environment asks for a panic whenever `PLACE` comes to deal with `WHAT`, and
//! `DATA_SERVER_MISBEHAVE` for what `tests/checks/misdeeds.rs` does. Why not a library for it: there is little that is
//! to happen, and there are few places; what the kernel refuses, strace shows better.

use std::env;
use std::sync::LazyLock;
use std::time::Duration;

/// The variables that debug builds take from the environment for tests, without the prefix `DATA_SERVER_`.
pub(crate) const VARIABLES: &str = if cfg!(debug_assertions) {
    "PANIC MISBEHAVE OUTSIDE ELSEWHERE VALUES TAKEOVER CHECKPOINT EXPIRY TRIAL USES PATIENCE"
} else {
    ""
};

/// Panics or misbehaves if that was asked for, of this `place` and `what`.
#[cfg(debug_assertions)]
pub(crate) fn reach(place: &str, what: &str) {
    static ASKED: LazyLock<[Option<String>; 2]> = LazyLock::new(|| {
        ["DATA_SERVER_PANIC", "DATA_SERVER_MISBEHAVE"].map(|name| env::var(name).ok())
    });
    let [panics, misbehaves] = ASKED.each_ref().map(|asked| {
        let asked = asked.as_deref().and_then(|asked| asked.split_once(':'));
        asked == Some((place, what))
    });
    assert!(!panics, "asked for by DATA_SERVER_PANIC");
    if misbehaves {
        misdeeds::commit();
    }
}

/// Does nothing: this is a release.
#[cfg(not(debug_assertions))]
#[inline]
pub(crate) fn reach(_place: &str, _what: &str) {}

/// True where connections take their sockets over for long bodies, as they always do in a release: with
/// `DATA_SERVER_TAKEOVER=off` hyper moves those too, so that tests can compare the answers of both.
#[inline]
pub(crate) fn takes_over() -> bool {
    static IS_OFF: LazyLock<bool> =
        LazyLock::new(|| env::var("DATA_SERVER_TAKEOVER").is_ok_and(|how| how == "off"));
    !cfg!(debug_assertions) || !*IS_OFF
}

/// A span between two works of the server: `usual` in a release, else as many milliseconds as the `variable` says that
/// tests set.
pub(crate) fn interval(variable: &str, usual: Duration) -> Duration {
    let asked = cfg!(debug_assertions).then(|| env::var(variable));
    let millis = asked.and_then(|asked| asked.ok()?.parse().ok());
    millis.map_or(usual, Duration::from_millis)
}

#[cfg(debug_assertions)]
#[path = "../tests/checks/misdeeds.rs"]
mod misdeeds;
