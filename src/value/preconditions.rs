//! Preconditions of reads and writes (RFC 9110, section 13), and the verdict about them, for the value as it is now.
//!
//! Pure, and independent of their request: the same preconditions are decided before a body is read, and by the engine
//! at the moment of publishing. A malformed field decides for the safe side: a read is answered in full, a write is
//! refused. Reads no field and knows no status: `http` makes 304 and 412 of a [`Verdict`].

use std::time::{SystemTime, UNIX_EPOCH};

/// The longest list of entity tags, in bytes; a longer one counts as malformed, so that no publisher reads it.
pub const MAX_LIST: usize = 8 << 10;

/// The state of a value that preconditions are compared with.
#[derive(Clone, Copy, Debug)]
pub struct Current<'a> {
    /// The entity tag of the value's own bytes: strong, with its quotes.
    pub etag: &'a str,
    /// The entity tag of its compressed representation, where there is one; strong too.
    pub variant: Option<&'a str>,
    /// The time of its last write.
    pub modified: SystemTime,
}

impl<'a> Current<'a> {
    fn etags(self) -> impl Iterator<Item = &'a str> {
        std::iter::once(self.etag).chain(self.variant)
    }
}

/// The verdict of preconditions about a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// Answer as if there were none.
    Proceed,
    /// The client has the current value, in the representation of this entity tag, which the answer must name for the
    /// client to find it (RFC 9111, section 4.3.4).
    NotModified(&'a str),
    /// The value is another one than the client expects.
    Failed,
}

/// The condition of a write, as an S3 store can decide it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteCondition {
    /// No condition.
    Any,
    /// There is no value.
    Create,
    /// The value has this entity tag, quotes included.
    Swap(String),
}

/// The preconditions of one request, If-Range aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preconditions {
    /// If-Match.
    pub matching: Option<Tags>,
    /// If-None-Match.
    pub none_matching: Option<Tags>,
    /// If-Modified-Since, in seconds since 1970.
    pub modified_since: Option<u64>,
    /// If-Unmodified-Since, in seconds since 1970.
    pub unmodified_since: Option<u64>,
}

impl Preconditions {
    /// `If-None-Match: *`: there is no value.
    pub const NEW: Self = Self {
        matching: None,
        none_matching: Some(Tags::Any),
        modified_since: None,
        unmodified_since: None,
    };

    /// True where they concern a write: If-Modified-Since does not (section 13.1.3).
    pub fn are_of_writes(&self) -> bool {
        self.matching.is_some() || self.none_matching.is_some() || self.unmodified_since.is_some()
    }

    /// The condition that they are, where a store that knows entity tags alone can decide it.
    pub fn exact(&self) -> Option<WriteCondition> {
        match (&self.matching, &self.none_matching, self.unmodified_since) {
            (None, Some(Tags::Any), None) => Some(WriteCondition::Create),
            // If-Unmodified-Since says nothing beside If-Match.
            (Some(Tags::Listed(list)), None, _) => {
                let mut tags = Members(list);
                let tag = tags
                    .next()?
                    .filter(|tag| !tag.weak && tags.next().is_none())?;
                let etag = std::str::from_utf8(tag.opaque).ok()?;
                Some(WriteCondition::Swap(etag.to_owned()))
            }
            _ => None,
        }
    }

    /// The verdict about a GET or HEAD, in the order of section 13.2.2.
    ///
    /// Where there is no value they are ignored, as the answer would not be a success without them (section 13.2.1).
    /// A malformed If-None-Match matches nothing: a full answer is never wrong, a 304 may be. It still silences
    /// If-Modified-Since.
    pub fn for_read<'a>(&self, current: Option<Current<'a>>) -> Verdict<'a> {
        let Some(current) = current else {
            return Verdict::Proceed;
        };
        if !self.allow_change_of(Some(current)) {
            return Verdict::Failed;
        }
        let known = match (&self.none_matching, self.modified_since) {
            (Some(tags), _) => tags.find(current.etags(), Comparison::Weak),
            (None, Some(date)) if second(current.modified) <= date => Some(current.etag),
            _ => None,
        };
        known.map_or(Verdict::Proceed, Verdict::NotModified)
    }

    /// True where they let a PUT or DELETE replace `current`, in the order of section 13.2.2.
    ///
    /// A malformed If-None-Match lets nothing be written: taken for absent, it would turn create-only into overwrite.
    /// A DELETE where there is no value fails without being asked about its preconditions (section 13.2.1).
    pub fn for_write(&self, current: Option<Current<'_>>) -> bool {
        let is_new = match (&self.none_matching, current) {
            (Some(Tags::Malformed), _) => false,
            (Some(tags), Some(current)) => tags.find(current.etags(), Comparison::Weak).is_none(),
            _ => true,
        };
        is_new && self.allow_change_of(current)
    }

    /// If-Match or, only without it, If-Unmodified-Since; the latter says nothing where there is no value.
    fn allow_change_of(&self, current: Option<Current<'_>>) -> bool {
        match (&self.matching, self.unmodified_since, current) {
            (Some(tags), _, Some(current)) => {
                tags.find(current.etags(), Comparison::Strong).is_some()
            }
            (Some(_), _, None) => false,
            (None, Some(date), Some(current)) => second(current.modified) <= date,
            (None, _, _) => true,
        }
    }
}

/// The second of `time`, as Last-Modified has it; nothing is older than 1970 in HTTP.
pub fn second(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |span| span.as_secs())
}

/// The comparisons of section 8.8.3.2: `W/"a"` matches `"a"` by the weak one, and nothing by the strong one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// The value of If-Match or If-None-Match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tags {
    /// `*`
    Any,
    /// A well-formed list, its lines joined by commas.
    Listed(Box<[u8]>),
    /// Neither.
    Malformed,
}

impl Tags {
    /// The tags in the `lines` of one field; `None` where there are none.
    pub fn of(lines: &[&[u8]]) -> Option<Self> {
        match lines {
            [] => None,
            [b"*"] => Some(Self::Any),
            lines => {
                let list = lines.join(&b',');
                let good = list.len() <= MAX_LIST && Members(&list).all(|tag| tag.is_some());
                Some(if good {
                    Self::Listed(list.into())
                } else {
                    Self::Malformed
                })
            }
        }
    }

    /// The first of `etags` that is listed.
    fn find<'a>(
        &self,
        mut etags: impl Iterator<Item = &'a str>,
        comparison: Comparison,
    ) -> Option<&'a str> {
        let list = match self {
            Self::Any => return etags.next(),
            Self::Listed(list) => list,
            Self::Malformed => return None,
        };
        let is_listed = |etag: &&str| {
            Members(list).flatten().any(|tag| {
                tag.opaque == etag.as_bytes() && !(tag.weak && comparison == Comparison::Strong)
            })
        };
        etags.find(is_listed)
    }
}

/// An entity tag as sent; `opaque` has its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tag<'a> {
    weak: bool,
    opaque: &'a [u8],
}

/// The members of a list of entity tags, in order; `None`, and then the end, where one is malformed.
struct Members<'a>(&'a [u8]);

impl<'a> Iterator for Members<'a> {
    type Item = Option<Tag<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        // A list may have empty members (section 5.6.1.2).
        while let [b' ' | b'\t' | b',', rest @ ..] = self.0 {
            self.0 = rest;
        }
        if self.0.is_empty() {
            return None;
        }
        let tag = self.tag();
        if tag.is_none() {
            self.0 = &[];
        }
        Some(tag)
    }
}

impl<'a> Members<'a> {
    /// Takes the tag at the front, with nothing but a comma or the end behind it.
    fn tag(&mut self) -> Option<Tag<'a>> {
        let (weak, tag) = match self.0.strip_prefix(b"W/") {
            Some(tag) => (true, tag),
            None => (false, self.0),
        };
        let inner = tag.strip_prefix(b"\"")?;
        let end = inner.iter().position(|b| *b == b'"')?;
        if !inner[..end].iter().all(|b| is_etagc(*b)) {
            return None;
        }
        let (opaque, rest) = tag.split_at(end + 2);
        let rest = rest.trim_ascii_start();
        if !matches!(rest, [] | [b',', ..]) {
            return None;
        }
        self.0 = rest;
        Some(Tag { weak, opaque })
    }
}

/// `etagc` of section 8.8.3.
fn is_etagc(byte: u8) -> bool {
    matches!(byte, 0x21 | 0x23..=0x7e | 0x80..)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The list one character at a time, by the grammar of sections 5.6.1.2 and 8.8.3.
    fn slow_members(list: &[u8]) -> Option<Vec<(bool, Vec<u8>)>> {
        enum At {
            Start,
            Weak,
            Slash,
            Inside(bool, Vec<u8>),
            After,
        }
        let mut found = vec![];
        let mut at = At::Start;
        for &b in list {
            at = match (at, b) {
                (At::Start | At::After, b',') | (At::Start, b' ' | b'\t') => At::Start,
                (At::Start, b'W') => At::Weak,
                (At::Weak, b'/') => At::Slash,
                (At::Start, b'"') => At::Inside(false, vec![b]),
                (At::Slash, b'"') => At::Inside(true, vec![b]),
                (At::Inside(weak, mut tag), b'"') => {
                    tag.push(b);
                    found.push((weak, tag));
                    At::After
                }
                (At::Inside(weak, mut tag), 0x21..=0x7e | 0x80..) => {
                    tag.push(b);
                    At::Inside(weak, tag)
                }
                (At::After, b' ' | b'\t') => At::After,
                _ => return None,
            };
        }
        match at {
            At::Start | At::After => Some(found),
            _ => None,
        }
    }

    fn a_list() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            3 => "(W/)?\"[ab]\"".prop_map(String::into_bytes),
            3 => "[ \t]{0,2},[ \t]{0,2}".prop_map(String::into_bytes),
            1 => "[\"*W/ ab]".prop_map(String::into_bytes),
            1 => (0x80_u8..).prop_map(|b| vec![b'"', b, b'"']),
        ];
        vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn lists_are_read_as_the_grammar_says(list in a_list()) {
            let members: Option<Vec<_>> = Members(&list)
                .map(|tag| tag.map(|tag| (tag.weak, tag.opaque.to_vec())))
                .collect();
            prop_assert_eq!(members, slow_members(&list));
        }

        #[test]
        fn no_bytes_panic(list in vec(any::<u8>(), 0..40)) {
            let count = Members(&list).count();
            prop_assert!(count <= list.len());
        }
    }
}
