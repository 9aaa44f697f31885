//! The conditions of a request (RFC 9110, section 13): its preconditions, as its fields name them, whether its ranges
//! count, and the part of a value that answers a read. Pure.

use std::ops::Range;

use hyper::header::{
    HeaderMap, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    IF_UNMODIFIED_SINCE,
};

use crate::http::head::syntax::only;
use crate::store::{Current, Preconditions, Tags, second};

/// The preconditions in `headers`, or `None` where there are none: the common case, which costs four lookups.
pub fn preconditions(headers: &HeaderMap) -> Option<Preconditions> {
    const NAMES: [HeaderName; 4] = [
        IF_NONE_MATCH,
        IF_MODIFIED_SINCE,
        IF_MATCH,
        IF_UNMODIFIED_SINCE,
    ];
    NAMES
        .iter()
        .any(|name| headers.contains_key(name))
        .then(|| Preconditions {
            matching: tags(headers, &IF_MATCH),
            none_matching: tags(headers, &IF_NONE_MATCH),
            modified_since: date(headers, &IF_MODIFIED_SINCE),
            unmodified_since: date(headers, &IF_UNMODIFIED_SINCE),
        })
}

/// Those of a request that changes something: If-Modified-Since does not concern it (section 13.1.3), nor an
/// If-Unmodified-Since that is no date (section 13.1.4).
pub fn preconditions_of_write(headers: &HeaderMap) -> Option<Preconditions> {
    preconditions(headers).filter(Preconditions::are_of_writes)
}

fn tags(headers: &HeaderMap, name: &HeaderName) -> Option<Tags> {
    let lines: Vec<&[u8]> = headers.get_all(name).iter().map(AsRef::as_ref).collect();
    Tags::of(&lines)
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

impl Selection {
    /// The range of the first bytes that are sent of a value of `len` bytes.
    pub fn first(&self, len: u64) -> Option<Range<u64>> {
        match self {
            Self::Whole => Some(0..len),
            Self::Part(range) => Some(range.clone()),
            Self::Parts(ranges) => ranges.first().cloned(),
            Self::NotModified(_) => None,
        }
    }
}

/// True where the Range of a GET counts (section 13.1.5): there is no If-Range, or it names the very bytes of
/// `current`.
///
/// An entity tag must be that of the value's own bytes, which ranges are taken of. A date never holds: the server
/// cannot know that the value did not change twice in that second (section 8.8.2.2).
pub fn if_range(headers: &HeaderMap, current: Current<'_>) -> bool {
    !headers.contains_key(IF_RANGE)
        || only(headers, &IF_RANGE).is_some_and(|tag| tag == current.etag)
}

/// The second that a field names; one that is no date, or several, is ignored (sections 13.1.3 and 13.1.4).
fn date(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    let text = std::str::from_utf8(only(headers, name)?.as_bytes()).ok()?;
    httpdate::parse_http_date(text).ok().map(second)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use data_server_testing::table;
    use hyper::header::HeaderValue;
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use crate::http::values::conditional::preconditions as preconditions_of;
    use crate::http::values::conditional::*;
    use crate::value::{MAX_LIST, Verdict, WriteCondition};

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

    /// These fields, parted by `|`, with the dates for their names.
    fn headers(fields: &str) -> HeaderMap {
        let dates = [("BEFORE", BEFORE), ("WRITTEN", WRITTEN), ("AFTER", AFTER)];
        let fields = dates.iter().fold(fields.to_owned(), |text, (name, date)| {
            text.replace(name, date)
        });
        let field = |line: &str| {
            let (name, value) = line.split_once(':').unwrap();
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            (HeaderName::try_from(name).unwrap(), value)
        };
        fields.split('|').map(field).collect()
    }

    fn preconditions(fields: &str) -> Preconditions {
        preconditions_of(&headers(fields)).expect("preconditions")
    }

    #[test]
    fn requests_without_preconditions_have_none() {
        assert_eq!(preconditions_of(&HeaderMap::new()), None);
        let others = headers("if-range:\"a\"|range:bytes=0-");
        assert_eq!(preconditions_of(&others), None);
    }

    #[test]
    fn a_store_can_decide_preconditions_that_ask_one_thing() {
        for [fields, exact] in table(
            r#"
            if-none-match:* ; create
            if-match:"a" ; swap
            if-match: , "a"  ; swap
            if-match:"a"|if-unmodified-since:BEFORE ; swap
            if-match:"a", "b"
            if-match:W/"a"
            if-match:*
            if-match:a
            if-none-match:"a"
            if-none-match:*|if-match:"a"
            if-none-match:*|if-unmodified-since:AFTER
            if-unmodified-since:AFTER"#,
        ) {
            let exact = match exact {
                "create" => Some(WriteCondition::Create),
                "swap" => Some(WriteCondition::Swap(r#""a""#.to_owned())),
                _ => None,
            };
            assert_eq!(preconditions(fields).exact(), exact, "{fields:?}");
        }
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
            let asked = preconditions(&format!("if-none-match:{list}"));
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
            let asked = preconditions(&format!("if-match:{list}"));
            assert_eq!(asked.for_write(Some(value())), good, "{list}");
            assert!(!asked.for_write(None), "{list}");
            let is_read = asked.for_read(Some(value())) == Verdict::Proceed;
            assert_eq!(is_read, good, "{list}");
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
            let of = |name| preconditions(&format!("{name}:{list}"));
            let none_match = of("if-none-match");
            let read = none_match.for_read(Some(value()));
            assert_eq!(read, Verdict::Proceed, "{list}");
            assert!(!none_match.for_write(Some(value())), "{list}");
            assert!(!none_match.for_write(None), "{list}");
            let matching = of("if-match");
            assert_eq!(matching.for_read(Some(value())), Verdict::Failed, "{list}");
            assert!(!matching.for_write(Some(value())), "{list}");
        }
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
            let asked = preconditions(&format!("if-modified-since:{date}"));
            let verdict = asked.for_read(Some(value()));
            assert_eq!(verdict == Verdict::NotModified(r#""a""#), since, "{date}");
            // 13.1.3: for GET and HEAD alone.
            assert!(asked.for_write(Some(value())), "{date}");
            let asked = preconditions(&format!("if-unmodified-since:{date}"));
            assert_eq!(asked.for_write(Some(value())), unmodified, "{date}");
            let read = asked.for_read(Some(value()));
            assert_eq!(read == Verdict::Failed, !unmodified, "{date}");
            assert!(asked.for_write(None), "13.1.4: nothing has no date");
        }
    }

    #[test]
    fn invalid_and_repeated_dates_are_ignored() {
        for fields in [
            "if-modified-since:yesterday",
            "if-modified-since:Mon, 06 Nov 1994 08:49:37 GMT",
            "if-modified-since:784111777",
            "if-modified-since:S\u{fc}n, 06 Nov 1994 08:49:37 GMT",
            "if-modified-since:AFTER|if-modified-since:AFTER",
            "if-unmodified-since:",
            "if-unmodified-since:BEFORE|if-unmodified-since:BEFORE",
        ] {
            let asked = preconditions(fields);
            let read = asked.for_read(Some(value()));
            assert_eq!(read, Verdict::Proceed, "{fields}");
            assert!(asked.for_write(Some(value())), "{fields}");
        }
    }

    #[test]
    fn if_range_wants_the_same_bytes() {
        // A date is no strong validator (section 8.8.2.2).
        let others =
            r#"W/"a" ; "b" ; "a-gzip" ; "a", "a" ; a ; * ;  ; WRITTEN ; AFTER ; "a"|if-range:"a""#;
        for field in others.split(" ; ") {
            let asked = headers(&format!("if-range:{field}"));
            assert!(!if_range(&asked, value()), "{field}");
        }
        assert!(if_range(&headers(r#"if-range:"a""#), value()));
        assert!(if_range(&HeaderMap::new(), value()));
    }

    #[test]
    fn a_value_older_than_1970_is_as_old_as_http_can_say() {
        let old = Current {
            modified: UNIX_EPOCH - Duration::from_secs(86_400),
            ..value()
        };
        let epoch = "Thu, 01 Jan 1970 00:00:00 GMT";
        let asked = preconditions(&format!("if-modified-since:{epoch}"));
        assert_eq!(asked.for_read(Some(old)), Verdict::NotModified(r#""a""#));
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
        fn verdicts_follow_13_2_2(asked in asked(), exists: bool, modified in 10_i64..13) {
            let current = Current { etag: r#""a""#, variant: None, modified: at(modified) };
            let current = exists.then_some(current);
            let model = exists.then_some((r#""a""#, modified));
            if let Some(preconditions) = preconditions_of(&asked.headers()) {
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
