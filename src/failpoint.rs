//! Panics by order, so that tests can have the real binary panic: in debug builds alone, a release has no such door.
//!
//! `DATA_SERVER_PANIC=PLACE:WHAT` in the environment asks for a panic whenever `PLACE` comes to deal with `WHAT`. Why not
//! a library for it: there is one kind of failure and there are few places; what the kernel refuses, strace shows better.

/// Panics if that was asked for, of this `place` and `what`.
#[cfg(debug_assertions)]
pub(crate) fn reach(place: &str, what: &str) {
    static ASKED: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("DATA_SERVER_PANIC").ok());
    let asked = ASKED.as_deref().and_then(|asked| asked.split_once(':'));
    assert!(
        asked != Some((place, what)),
        "asked for by DATA_SERVER_PANIC"
    );
}

/// Does nothing: this is a release.
#[cfg(not(debug_assertions))]
#[inline]
pub(crate) fn reach(_place: &str, _what: &str) {}
