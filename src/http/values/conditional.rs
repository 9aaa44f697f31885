//! Preconditions (RFC 9110, section 13): the verdict about a request to the value as it is now, and the part of it that answers a read,
//! by preconditions first, then by ranges (section 13.2.2).
//!
//! Pure, and independent of their request, so the same preconditions are decided twice: before a body is read, and by the publisher
//! at the moment of publishing. A malformed field decides for the safe side: a read is answered in full, a write is refused. Knows
//! no status; the caller makes 304 and 412 of a [`Verdict`].

use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

use hyper::header::{
    HeaderMap, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    IF_UNMODIFIED_SINCE,
};

use crate::http::head::syntax::only;
use crate::http::values::range::{Ranges, ranges};

/// The longest list of entity tags, in bytes; a longer one counts as malformed, so that no publisher reads it.
const MAX_LIST: usize = 8 << 10;

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
    /// The client has the current value, in the representation of this entity tag, which the answer must name for the client to find
    /// it (RFC 9111, section 4.3.4).
    NotModified(&'a str),
    /// The value is another one than the client expects.
    Failed,
}

/// A precondition of a write that an S3 store can decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Single<'a> {
    /// There is no value.
    IsNew,
    /// The value has this entity tag, quotes included.
    Is(&'a str),
}

/// The preconditions of one request, If-Range aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preconditions {
    matching: Option<Tags>,
    none_matching: Option<Tags>,
    modified_since: Option<u64>,
    unmodified_since: Option<u64>,
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

    /// The preconditions in `headers`, or `None` where there are none: the common case, which costs four lookups.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        const NAMES: [HeaderName; 4] = [
            IF_NONE_MATCH,
            IF_MODIFIED_SINCE,
            IF_MATCH,
            IF_UNMODIFIED_SINCE,
        ];
        NAMES
            .iter()
            .any(|name| headers.contains_key(name))
            .then(|| Self {
                matching: Tags::of(headers, &IF_MATCH),
                none_matching: Tags::of(headers, &IF_NONE_MATCH),
                modified_since: date(headers, &IF_MODIFIED_SINCE),
                unmodified_since: date(headers, &IF_UNMODIFIED_SINCE),
            })
    }

    /// The one precondition that they are, where an S3 store can decide it.
    pub fn single(&self) -> Option<Single<'_>> {
        let has_no_dates = self.unmodified_since.is_none();
        match (&self.matching, &self.none_matching) {
            (None, Some(Tags::Any)) if has_no_dates => Some(Single::IsNew),
            // If-Unmodified-Since says nothing beside If-Match.
            (Some(Tags::Listed(list)), None) => {
                let mut tags = Members(list);
                match (tags.next(), tags.next()) {
                    (
                        Some(Some(Tag {
                            weak: false,
                            opaque,
                        })),
                        None,
                    ) => std::str::from_utf8(opaque).ok().map(Single::Is),
                    _ => None,
                }
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

/// The part of a value that is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All of it.
    Whole,
    /// One range of it.
    Part(Range<u64>),
    /// Several ranges of it, in this order.
    Parts(Vec<Range<u64>>),
    /// None of it: the client has it, under this entity tag.
    NotModified(String),
}

/// The reason why nothing of the value is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSelection {
    /// A precondition does not hold: 412.
    Precondition,
    /// No range lies within the value, which has this length.
    Unsatisfiable(u64),
}

/// Selects the part of the `current` value, `len` bytes long, that answers a request with these preconditions and with the fields
/// Range and If-Range of `wanted`.
pub fn select(
    preconditions: Option<&Preconditions>,
    wanted: &HeaderMap,
    current: Current<'_>,
    len: u64,
) -> Result<Selection, NoSelection> {
    let verdict = preconditions.map_or(Verdict::Proceed, |p| p.for_read(Some(current)));
    match verdict {
        Verdict::Failed => return Err(NoSelection::Precondition),
        Verdict::NotModified(etag) => return Ok(Selection::NotModified(etag.to_owned())),
        Verdict::Proceed => {}
    }
    if wanted.is_empty() || !if_range(wanted, current) {
        return Ok(Selection::Whole);
    }
    match ranges(wanted, len) {
        Ranges::Whole => Ok(Selection::Whole),
        Ranges::Single(range) => Ok(Selection::Part(range)),
        Ranges::Multi(ranges) => Ok(Selection::Parts(ranges)),
        Ranges::Unsatisfiable => Err(NoSelection::Unsatisfiable(len)),
    }
}

/// True where the Range of a GET counts (section 13.1.5): there is no If-Range, or it names the very bytes of `current`.
///
/// An entity tag must be that of the value's own bytes, which ranges are taken of. A date never holds: the server cannot know that the value did
/// not change twice in that second (section 8.8.2.2).
pub fn if_range(headers: &HeaderMap, current: Current<'_>) -> bool {
    !headers.contains_key(IF_RANGE)
        || only(headers, &IF_RANGE).is_some_and(|tag| tag == current.etag)
}

/// The second that a field names; one that is no date, or several, is ignored (sections 13.1.3 and 13.1.4).
fn date(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    let text = std::str::from_utf8(only(headers, name)?.as_bytes()).ok()?;
    httpdate::parse_http_date(text).ok().map(second)
}

/// The second that `time` lies in, as its Last-Modified tells it; nothing is older than 1970 in HTTP.
fn second(time: SystemTime) -> u64 {
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
enum Tags {
    /// `*`
    Any,
    /// A well-formed list, its lines joined by commas.
    Listed(Box<[u8]>),
    Malformed,
}

impl Tags {
    fn of(headers: &HeaderMap, name: &HeaderName) -> Option<Self> {
        let lines: Vec<&[u8]> = headers.get_all(name).iter().map(AsRef::as_ref).collect();
        match &lines[..] {
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
    use std::time::Duration;

    use hyper::header::HeaderValue;
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use crate::http::values::conditional::*;

    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const WRITTEN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    /// Written within the second that `WRITTEN` names.
    fn value() -> Current<'static> {
        Current {
            etag: r#""a""#,
            variant: Some(r#""a-gzip""#),
            modified: UNIX_EPOCH + Duration::from_millis(784_111_777_600),
        }
    }

    fn headers(fields: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name = HeaderName::try_from(*name).unwrap();
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    fn preconditions(fields: &[(&str, &str)]) -> Preconditions {
        Preconditions::of(&headers(fields)).expect("preconditions")
    }

    #[test]
    fn requests_without_preconditions_have_none() {
        assert_eq!(Preconditions::of(&HeaderMap::new()), None);
        let others = headers(&[("if-range", r#""a""#), ("range", "bytes=0-")]);
        assert_eq!(Preconditions::of(&others), None);
    }

    #[test]
    fn a_store_can_decide_preconditions_that_ask_one_thing() {
        for (fields, single) in [
            (&[("if-none-match", "*")][..], Some(Single::IsNew)),
            (&[("if-match", r#""a""#)], Some(Single::Is(r#""a""#))),
            (&[("if-match", r#" , "a" "#)], Some(Single::Is(r#""a""#))),
            (
                &[("if-match", r#""a""#), ("if-unmodified-since", BEFORE)],
                Some(Single::Is(r#""a""#)),
            ),
            (&[("if-match", r#""a", "b""#)], None),
            (&[("if-match", r#"W/"a""#)], None),
            (&[("if-match", "*")], None),
            (&[("if-match", "a")], None),
            (&[("if-none-match", r#""a""#)], None),
            (&[("if-none-match", "*"), ("if-match", r#""a""#)], None),
            (
                &[("if-none-match", "*"), ("if-unmodified-since", AFTER)],
                None,
            ),
            (&[("if-unmodified-since", AFTER)], None),
        ] {
            assert_eq!(preconditions(fields).single(), single, "{fields:?}");
        }
    }

    #[test]
    fn preconditions_can_travel_to_another_thread() {
        fn check<T: Send + 'static>() {}
        check::<Preconditions>();
    }

    #[test]
    fn if_none_match_compares_weakly_and_names_the_representation_that_the_client_has() {
        for (list, known) in [
            (r#""a""#, Some(r#""a""#)),
            (r#"W/"a""#, Some(r#""a""#)),
            (r#""x", "a""#, Some(r#""a""#)),
            (r#""x",W/"a-gzip" , "y""#, Some(r#""a-gzip""#)),
            (r#"  ,, "a" ,"#, Some(r#""a""#)),
            ("*", Some(r#""a""#)),
            (r#""A""#, None),
            (r#""x""#, None),
            ("", None),
        ] {
            let asked = preconditions(&[("if-none-match", list)]);
            let expected = known.map_or(Verdict::Proceed, Verdict::NotModified);
            assert_eq!(asked.for_read(Some(value())), expected, "{list}");
            assert_eq!(asked.for_write(Some(value())), known.is_none(), "{list}");
            assert!(asked.for_write(None), "{list}");
        }
    }

    #[test]
    fn if_match_compares_strongly() {
        for (list, good) in [
            (r#""a""#, true),
            (r#""x", "a-gzip""#, true),
            ("*", true),
            (r#"W/"a""#, false),
            (r#"W/"a", "a""#, true),
            (r#""x""#, false),
            ("", false),
        ] {
            let asked = preconditions(&[("if-match", list)]);
            assert_eq!(asked.for_write(Some(value())), good, "{list}");
            assert!(!asked.for_write(None), "{list}");
            let read = if good {
                Verdict::Proceed
            } else {
                Verdict::Failed
            };
            assert_eq!(asked.for_read(Some(value())), read, "{list}");
        }
    }

    #[test]
    fn what_is_malformed_is_read_in_full_and_not_written() {
        for list in [
            "a",
            r#""a" "a""#,
            r#""a"x"#,
            r#""a"#,
            r#"w/"a""#,
            r#"W/ "a""#,
            r#""a b", "a""#,
            r#"*, "a""#,
            r#""a", *"#,
            &format!("\"a\"{}", ",".repeat(MAX_LIST)),
        ] {
            let of = |name| preconditions(&[(name, list)]);
            let none_match = of("if-none-match");
            assert_eq!(
                none_match.for_read(Some(value())),
                Verdict::Proceed,
                "{list}"
            );
            assert!(!none_match.for_write(Some(value())), "{list}");
            assert!(!none_match.for_write(None), "{list}");
            let matching = of("if-match");
            assert_eq!(matching.for_read(Some(value())), Verdict::Failed, "{list}");
            assert!(!matching.for_write(Some(value())), "{list}");
        }
    }

    #[test]
    fn several_lines_are_one_list() {
        let asked = preconditions(&[("if-none-match", r#""x""#), ("if-none-match", r#""a""#)]);
        assert_eq!(
            asked.for_read(Some(value())),
            Verdict::NotModified(r#""a""#)
        );
        let twice = preconditions(&[("if-none-match", "*"), ("if-none-match", r#""a""#)]);
        assert!(!twice.for_write(None), "a star stands alone");
    }

    #[test]
    fn dates_are_compared_by_the_second_that_last_modified_tells() {
        for (date, since, unmodified) in [
            (BEFORE, false, false),
            (WRITTEN, true, true),
            (AFTER, true, true),
            ("Sunday, 06-Nov-94 08:49:37 GMT", true, true),
            ("Sun Nov  6 08:49:37 1994", true, true),
        ] {
            let asked = preconditions(&[("if-modified-since", date)]);
            let verdict = asked.for_read(Some(value()));
            assert_eq!(verdict == Verdict::NotModified(r#""a""#), since, "{date}");
            assert!(
                asked.for_write(Some(value())),
                "13.1.3: for GET and HEAD only"
            );

            let asked = preconditions(&[("if-unmodified-since", date)]);
            assert_eq!(asked.for_write(Some(value())), unmodified, "{date}");
            assert_eq!(
                asked.for_read(Some(value())) == Verdict::Failed,
                !unmodified
            );
            assert!(asked.for_write(None), "13.1.4: nothing has no date");
        }
    }

    #[test]
    fn invalid_and_repeated_dates_are_ignored() {
        for fields in [
            &[("if-modified-since", "yesterday")][..],
            &[("if-modified-since", "Mon, 06 Nov 1994 08:49:37 GMT")],
            &[("if-modified-since", "784111777")],
            &[("if-modified-since", "S\u{fc}n, 06 Nov 1994 08:49:37 GMT")],
            &[("if-modified-since", AFTER), ("if-modified-since", AFTER)],
            &[("if-unmodified-since", "")],
            &[
                ("if-unmodified-since", BEFORE),
                ("if-unmodified-since", BEFORE),
            ],
        ] {
            let asked = preconditions(fields);
            assert_eq!(
                asked.for_read(Some(value())),
                Verdict::Proceed,
                "{fields:?}"
            );
            assert!(asked.for_write(Some(value())), "{fields:?}");
        }
    }

    #[test]
    fn entity_tags_go_before_dates_and_expectations_before_news() {
        let a = r#""a""#;
        let b = r#""b""#;
        for (fields, expected) in [
            (
                [("if-none-match", b), ("if-modified-since", AFTER)],
                Verdict::Proceed,
            ),
            (
                [("if-none-match", "bad"), ("if-modified-since", AFTER)],
                Verdict::Proceed,
            ),
            (
                [("if-none-match", a), ("if-modified-since", BEFORE)],
                Verdict::NotModified(a),
            ),
            (
                [("if-match", a), ("if-unmodified-since", BEFORE)],
                Verdict::Proceed,
            ),
            (
                [("if-match", b), ("if-unmodified-since", AFTER)],
                Verdict::Failed,
            ),
            ([("if-match", b), ("if-none-match", a)], Verdict::Failed),
            (
                [("if-match", a), ("if-none-match", a)],
                Verdict::NotModified(a),
            ),
            (
                [("if-unmodified-since", BEFORE), ("if-none-match", a)],
                Verdict::Failed,
            ),
            (
                [("if-match", a), ("if-modified-since", WRITTEN)],
                Verdict::NotModified(a),
            ),
        ] {
            let asked = preconditions(&fields);
            assert_eq!(asked.for_read(Some(value())), expected, "{fields:?}");
            assert_eq!(asked.for_read(None), Verdict::Proceed, "13.2.1: {fields:?}");
        }
    }

    #[test]
    fn if_range_wants_the_same_bytes() {
        for (field, good) in [
            (r#""a""#, true),
            (r#"W/"a""#, false),
            (r#""b""#, false),
            (r#""a-gzip""#, false),
            (r#""a", "a""#, false),
            ("a", false),
            ("*", false),
            ("", false),
            // A date is no strong validator (section 8.8.2.2).
            (WRITTEN, false),
            (AFTER, false),
        ] {
            let asked = headers(&[("if-range", field)]);
            assert_eq!(if_range(&asked, value()), good, "{field}");
        }
        assert!(if_range(&HeaderMap::new(), value()));
        let a = r#""a""#;
        let twice = headers(&[("if-range", a), ("if-range", a)]);
        assert!(!if_range(&twice, value()));
    }

    #[test]
    fn a_value_older_than_1970_is_as_old_as_http_can_say() {
        let old = Current {
            modified: UNIX_EPOCH - Duration::from_secs(86_400),
            ..value()
        };
        let epoch = "Thu, 01 Jan 1970 00:00:00 GMT";
        let asked = preconditions(&[("if-modified-since", epoch)]);
        assert_eq!(asked.for_read(Some(old)), Verdict::NotModified(r#""a""#));
    }

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

    /// Section 13.2.2 as it is written, over lists that are known to be good: `Some(true)` proceeds, `Some(false)` is
    /// 412, `None` is 304.
    fn slow_verdict(
        asked: &RequestInfo,
        is_read: bool,
        current: Option<(&str, i64)>,
    ) -> Option<bool> {
        let any = |tags: &[(bool, &str)], weakly: bool| {
            current.is_some_and(|(etag, _)| {
                tags.iter()
                    .any(|(weak, tag)| *tag == etag && (weakly || !weak))
            })
        };
        // Steps 1 and 2
        if let Some(tags) = &asked.matching {
            if !any(tags, false) {
                return Some(false);
            }
        } else if let (Some(date), Some((_, modified))) = (asked.unmodified_since, current)
            && modified > date
        {
            return Some(false);
        }
        // Steps 3 and 4
        if let Some(tags) = &asked.none_matching {
            if any(tags, true) {
                return if is_read { None } else { Some(false) };
            }
        } else if let (true, Some(date), Some((_, modified))) =
            (is_read, asked.modified_since, current)
            && modified <= date
        {
            return None;
        }
        Some(true)
    }

    #[derive(Debug)]
    struct RequestInfo {
        matching: Option<Vec<(bool, &'static str)>>,
        none_matching: Option<Vec<(bool, &'static str)>>,
        modified_since: Option<i64>,
        unmodified_since: Option<i64>,
    }

    impl RequestInfo {
        fn headers(&self) -> HeaderMap {
            let mut headers = HeaderMap::new();
            for (name, tags) in [
                (IF_MATCH, &self.matching),
                (IF_NONE_MATCH, &self.none_matching),
            ] {
                for (weak, tag) in tags.iter().flatten() {
                    let line = format!("{}{tag}", if *weak { "W/" } else { "" });
                    headers.append(name.clone(), line.try_into().unwrap());
                }
                if tags.as_ref().is_some_and(Vec::is_empty) {
                    headers.append(name, HeaderValue::from_static(""));
                }
            }
            for (name, date) in [
                (IF_MODIFIED_SINCE, self.modified_since),
                (IF_UNMODIFIED_SINCE, self.unmodified_since),
            ] {
                if let Some(date) = date {
                    let date = httpdate::fmt_http_date(at(date));
                    headers.append(name, date.try_into().unwrap());
                }
            }
            headers
        }
    }

    fn at(second: i64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(second.unsigned_abs())
    }

    fn asked() -> impl Strategy<Value = RequestInfo> {
        let tag = (any::<bool>(), prop::sample::select(&[r#""a""#, r#""b""#]));
        let tags = option::of(vec(tag, 0..3));
        let date = option::of(10_i64..13);
        (tags.clone(), tags, date.clone(), date).prop_map(
            |(matching, none_matching, modified_since, unmodified_since)| RequestInfo {
                matching,
                none_matching,
                modified_since,
                unmodified_since,
            },
        )
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

        #[test]
        fn verdicts_follow_13_2_2(asked in asked(), exists: bool, modified in 10_i64..13) {
            let current = Current { etag: r#""a""#, variant: None, modified: at(modified) };
            let current = exists.then_some(current);
            let model = exists.then_some((r#""a""#, modified));
            if let Some(preconditions) = Preconditions::of(&asked.headers()) {
                prop_assert_eq!(
                    preconditions.for_write(current),
                    slow_verdict(&asked, false, model) == Some(true)
                );
                let read = match preconditions.for_read(current) {
                    Verdict::Proceed => Some(true),
                    Verdict::Failed => Some(false),
                    Verdict::NotModified(_) => None,
                };
                let slow = if exists { slow_verdict(&asked, true, model) } else { Some(true) };
                prop_assert_eq!(read, slow);
            }
        }
    }
}
