//! A key: the name of one value, and the path of its file. And sets of keys, by their prefixes.
//!
//! Owns the rule of what a key may be, and how it is made of segments. A [`Key`] is valid once built, so nothing behind
//! it checks again. It decodes nothing: percent-encoding belongs to HTTP. Owns the names that `--hide` hides from this
//! process, too: such a name is that of no key, so that whatever walks, lists, counts or stores keys leaves it alone.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Serialize, Serializer};

/// The longest key, in bytes.
pub const MAX_LEN: usize = 1024;

/// The longest segment, in bytes: the longest file name of every file system in use (`NAME_MAX`).
pub const MAX_SEGMENT: usize = 255;

/// Names that begin so are the server's own.
pub const RESERVED: &str = ".data-server";

/// The beginning of the paths of the server's own pages. A file of the name `-` is a value; no key lies below it.
const PAGES: &str = "-/";

/// The name of a value: segments of UTF-8, joined by `/`, that are also the path of its file below the directory.
///
/// The last segment is the name of the file, and those before it are its folder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key<'a>(Cow<'a, str>);

/// The rule that a name breaks which is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// The empty name.
    #[error("a key has at least one byte")]
    Empty,
    /// Begins or ends with `/`, or has two of them in a row.
    #[error("a key has no empty segment: no '//', and no '/' at its start or end")]
    EmptySegment,
    /// More than [`MAX_LEN`] bytes.
    #[error("a key has at most {MAX_LEN} bytes")]
    TooLong,
    /// A segment of more than [`MAX_SEGMENT`] bytes.
    #[error("a segment of a key has at most {MAX_SEGMENT} bytes")]
    SegmentTooLong,
    /// Not UTF-8.
    #[error("a key is UTF-8")]
    NotUtf8,
    /// NUL, which no file name can hold.
    #[error("a key holds no NUL")]
    Nul,
    /// `/`, where keys have one segment.
    #[error("a key holds no '/'")]
    Slash,
    /// A segment `.` or `..`, which name directories.
    #[error("no segment of a key is '.' or '..'")]
    Dots,
    /// Begins with [`RESERVED`] or `-/`, or lies below a folder [`RESERVED`]: a snapshot or a copy of a directory has
    /// one.
    #[error(
        "names that begin with '{RESERVED}' or with '{PAGES}', and what lies below a folder '{RESERVED}', are the server's own"
    )]
    Reserved,
    /// Has a segment that is hidden.
    #[error(
        "a segment of it is hidden here, by --hide or --share, so it is neither read nor stored"
    )]
    Hidden,
}

/// A pattern of segments: `*` stands for any characters, `?` for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern(Box<str>);

/// The patterns of the segments that are hidden from this process, set once at its start.
static HIDDEN: OnceLock<Box<[NamePattern]>> = OnceLock::new();

impl NamePattern {
    /// The pattern `text`.
    pub fn new(text: &str) -> Result<Self, &'static str> {
        match text {
            "" => Err("a pattern has one character or more"),
            _ if text.contains('/') => {
                Err("a pattern is of one segment of a key, so it has no '/'")
            }
            _ => Ok(Self(text.into())),
        }
    }

    fn matches(&self, segment: &str) -> bool {
        let (mut rest, mut pattern) = (segment.chars(), self.0.chars());
        // The last star, with what it has not taken yet: it takes one character more where the rest does not match.
        let mut star: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
        loop {
            let (now, before) = (pattern.next(), rest.clone());
            match (now, rest.next()) {
                (Some('*'), _) => {
                    rest = before;
                    star = Some((pattern.clone(), rest.clone()));
                    continue;
                }
                (Some('?'), Some(_)) => continue,
                (Some(wanted), Some(found)) if wanted == found => continue,
                (None, None) => return true,
                _ => {}
            }
            let Some((after, taken)) = &mut star else {
                return false;
            };
            if taken.next().is_none() {
                return false;
            }
            (pattern, rest) = (after.clone(), taken.clone());
        }
    }
}

/// Hides the keys with a segment that matches one of `patterns` from this process. The first call counts: it comes
/// before any key.
pub fn hide(patterns: Vec<NamePattern>) {
    if !patterns.is_empty() {
        let _ = HIDDEN.set(patterns.into());
    }
}

fn is_hidden(name: &str, by: &[NamePattern]) -> bool {
    let mut segments = name.split('/');
    segments.any(|segment| by.iter().any(|pattern| pattern.matches(segment)))
}

impl<'a> Key<'a> {
    /// Checks `name`, as it would stand in the directory.
    pub fn new(name: impl Into<Cow<'a, str>>) -> Result<Self, BadKey> {
        let name = name.into();
        check(&name)?;
        Ok(Self(name))
    }

    /// As [`Key::new`], of a name that the server has recorded: it may have been hidden since.
    pub fn recorded(name: impl Into<Cow<'a, str>>) -> Result<Self, BadKey> {
        let name = name.into();
        check_form(&name)?;
        Ok(Self(name))
    }

    /// The key as text: the file's path.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True when it has one segment: its file lies in the directory itself.
    pub fn is_flat(&self) -> bool {
        !self.0.as_bytes().contains(&b'/')
    }

    /// The segments before the last; empty where there is one.
    pub fn folder(&self) -> &str {
        above(&self.0)
    }

    /// The last segment: the name of the file in its folder.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, name)| name)
    }

    /// This key, borrowing nothing.
    pub fn into_owned(self) -> Key<'static> {
        Key(Cow::Owned(self.0.into_owned()))
    }
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// True when keys may lie below the folder of this path.
pub fn may_have_keys(folder: &str) -> bool {
    let name = folder.rsplit('/').next();
    folder.len() + 2 <= MAX_LEN
        && !PAGES.starts_with(folder)
        && name != Some(RESERVED)
        && check(folder).is_ok()
}

/// The folder `path`, those above it, and the directory itself, which is the empty path.
pub fn folder_and_above(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |&path| (!path.is_empty()).then(|| above(path)))
}

/// The part of `path` before its last `/`: the folder that it lies in.
pub fn above(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(above, _)| above)
}

fn check(name: &str) -> Result<(), BadKey> {
    check_form(name)?;
    match HIDDEN.get() {
        Some(hidden) if is_hidden(name, hidden) => Err(BadKey::Hidden),
        _ => Ok(()),
    }
}

fn check_form(name: &str) -> Result<(), BadKey> {
    if name.is_empty() {
        return Err(BadKey::Empty);
    }
    if name.len() > MAX_LEN {
        return Err(BadKey::TooLong);
    }
    let may_be_reserved = matches!(name.as_bytes()[0], b'.' | b'-');
    if may_be_reserved && (name.starts_with(RESERVED) || name.starts_with(PAGES)) {
        return Err(BadKey::Reserved);
    }
    let mut is_reserved = false;
    let mut segments = name.as_bytes().split(|&b| b == b'/');
    segments.try_for_each(|segment| {
        if is_reserved {
            return Err(BadKey::Reserved);
        }
        is_reserved = segment == RESERVED.as_bytes();
        check_segment(segment)
    })
}

fn check_segment(segment: &[u8]) -> Result<(), BadKey> {
    if segment.is_empty() {
        Err(BadKey::EmptySegment)
    } else if segment.len() > MAX_SEGMENT {
        Err(BadKey::SegmentTooLong)
    } else if segment.contains(&0) {
        Err(BadKey::Nul)
    } else if segment == b"." || segment == b".." {
        Err(BadKey::Dots)
    } else {
        Ok(())
    }
}

/// Refuses a prefix that no key begins with, in words for the author of the file that has it.
pub fn check_prefix(prefix: &str) -> Result<(), String> {
    if prefix.starts_with('/') {
        let prefix = prefix.trim_start_matches('/');
        return Err(format!("no key begins with '/': write {prefix:?}"));
    }
    match Key::recorded(format!("{prefix}x")) {
        Ok(_) => Ok(()),
        Err(why) => Err(format!("no key begins with this prefix: {why}")),
    }
}

/// The media type of a value whose name suggests none.
pub const UNKNOWN_TYPE: &str = "application/octet-stream";

/// The media type that the name `key` suggests, else [`UNKNOWN_TYPE`].
pub fn guessed_type(key: &str) -> &'static str {
    match mime_guess::from_path(key).first_raw() {
        // RFC 8081, section 4.4.3, has made another of it.
        Some("application/font-sfnt") => "font/otf",
        found => found.unwrap_or(UNKNOWN_TYPE),
    }
}

/// Keys that begin with one of some prefixes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Prefixes(
    /// In byte order, none of them the beginning of another.
    Arc<[Box<str>]>,
);

impl Prefixes {
    /// The keys that begin with one of `prefixes`; the empty one is the beginning of all.
    pub fn new<'p>(prefixes: impl IntoIterator<Item = &'p str>) -> Self {
        let mut sorted: Vec<&str> = prefixes.into_iter().collect();
        sorted.sort_unstable();
        // Longer ones that begin with a prefix stand right behind it.
        sorted.dedup_by(|later, kept| later.starts_with(*kept));
        Self(sorted.into_iter().map(Box::from).collect())
    }

    /// All keys.
    pub fn all() -> Self {
        Self::new([""])
    }

    /// True when it has no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True when it has `key`.
    pub fn has(&self, key: &str) -> bool {
        self.prefix_of(key).is_some()
    }

    /// The prefix that `key` begins with, when it has that key.
    pub fn prefix_of(&self, key: &str) -> Option<&str> {
        let at = self.0.partition_point(|prefix| **prefix <= *key);
        let prefix = &**self.0.get(at.checked_sub(1)?)?;
        key.starts_with(prefix).then_some(prefix)
    }

    /// The keys that both have.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let within = |all: &Self, prefix: &&str| all.has(prefix);
        let ours = self.iter().filter(|prefix| within(other, prefix));
        Self::new(ours.chain(other.iter().filter(|prefix| within(self, prefix))))
    }

    /// True when it may have keys that begin with `start`.
    pub fn may_have_below(&self, start: &str) -> bool {
        self.has(start) || self.below(start).next().is_some()
    }

    /// Its prefixes, in byte order; none is the beginning of another.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.below("")
    }

    /// Its prefixes that begin with `start`, in byte order.
    pub fn below<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a str> {
        let from = self.0.partition_point(|prefix| **prefix < *start);
        let below = self.0[from..].iter().map(|prefix| &**prefix);
        below.take_while(move |prefix| prefix.starts_with(start))
    }
}

impl Serialize for Prefixes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.below(""))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_folder_is_shortened_to_the_directory_itself() {
        let above = |path| folder_and_above(path).collect::<Vec<_>>();
        assert_eq!(above("a/b/c"), ["a/b/c", "a/b", "a", ""]);
        assert_eq!(above("a"), ["a", ""]);
        assert_eq!(above(""), [""]);
        assert!(may_have_keys("a") && may_have_keys("a/b") && may_have_keys("--"));
        for none in "|-|-/a|.data-server|..|a/.|a/.data-server".split('|') {
            assert!(!may_have_keys(none), "{none}");
        }
        assert!(!may_have_keys(&"a/".repeat(512)[..MAX_LEN - 1]));
    }

    proptest! {
        #[test]
        fn a_key_is_the_path_of_its_segments_and_stays_as_given(name in "([^/]{0,40}/){0,4}.{0,300}") {
            if let Ok(key) = Key::new(name.as_str()) {
                prop_assert_eq!(key.as_str(), &name);
                let segments = name.split('/');
                let parts = std::path::Path::new(key.as_str()).components();
                prop_assert!(parts.map(std::path::Component::as_os_str).eq(segments.map(std::ffi::OsStr::new)));
                let joined = if key.is_flat() {
                    key.name().to_owned()
                } else {
                    format!("{}/{}", key.folder(), key.name())
                };
                prop_assert_eq!(&joined, &name);
                prop_assert!(key.is_flat() || may_have_keys(key.folder()));
            }
        }
    }

    proptest! {
        #[test]
        fn a_key_is_in_the_set_when_it_begins_with_a_prefix(
            given in prop::collection::vec("[ab/]{0,4}", 0..6),
            other in prop::collection::vec("[ab/]{0,4}", 0..6),
            key in "[ab/]{0,6}",
        ) {
            let set = Prefixes::new(given.iter().map(String::as_str));
            let has = |key: &str| given.iter().any(|prefix| key.starts_with(prefix.as_str()));
            prop_assert_eq!(set.has(&key), has(&key));
            let meets = has(&key) || given.iter().any(|prefix| prefix.starts_with(&key));
            prop_assert_eq!(set.may_have_below(&key), meets);
            prop_assert_eq!(set.is_empty(), given.is_empty());
            let below: Vec<_> = set.below("").filter(|prefix| prefix.starts_with(&key)).collect();
            prop_assert_eq!(set.below(&key).collect::<Vec<_>>(), below);
            let other = Prefixes::new(other.iter().map(String::as_str));
            prop_assert_eq!(set.and(&other).has(&key), set.has(&key) && other.has(&key));
            let kept: Vec<_> = set.below("").collect();
            prop_assert!(kept.windows(2).all(|pair| pair[0] < pair[1] && !pair[1].starts_with(pair[0])));
        }
    }

    #[test]
    fn a_pattern_is_of_whole_segments() {
        let hides = |pattern: &str, name: &str| {
            let pattern = NamePattern::new(pattern).unwrap();
            is_hidden(name, &[pattern])
        };
        for (pattern, hidden, shown) in [
            (".*", ".env|.git/config|a/.ssh/id|.", "a.env|a/b.|a"),
            ("*~", "a~|b/~|~/x", "a~b|~a"),
            ("*.b*k", "a.bk|.bak|x.b.b.bk|d/a.b/k.bk", "bak|a.bkx|a.b"),
            ("?.tmp", "a.tmp|\u{e9}.tmp/x", "ab.tmp|.tmp"),
            ("a*b*c", "abc|axbbxc|abcbc", "ab|acb|abcd"),
            ("Thumbs.db", "Thumbs.db|a/Thumbs.db", "thumbs.db|Thumbs.db2"),
            ("**", "a|b/c", ""),
        ] {
            assert!(
                hidden.split('|').all(|name| hides(pattern, name)),
                "{pattern}"
            );
            let shown = shown.split('|').filter(|name| !name.is_empty());
            assert!(
                shown.into_iter().all(|name| !hides(pattern, name)),
                "{pattern}"
            );
        }
        // Many stars take no exponential time.
        assert!(!hides(&"*a".repeat(60), &("a".repeat(254) + "b")));
        assert!(NamePattern::new("").is_err() && NamePattern::new("a/b").is_err());
    }
}
