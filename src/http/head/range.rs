//! Byte ranges (RFC 9110, section 14): from a Range field and a length to the regions to send.
//!
//! Pure. The regions are not empty, lie within the value and do not overlap, so an answer never has more bytes than the
//! value, nor more than [`MAX_PARTS`] parts. A field that is malformed, in another unit, too long or of too many parts
//! is ignored, as a server may. If-Range and methods are the caller's: HEAD has no ranges (section 14.2).
//!
//! [`Multipart`] has the parts of a value and the text between them (multipart/byteranges, section 14.6), and so the
//! length of the whole before a byte is sent.

use std::ops::Range;

use bytes::Bytes;
use hyper::header::{HeaderMap, RANGE};

/// The most parts of one response: zsync and electron-updater, which patch a value, ask for hundreds.
pub const MAX_PARTS: usize = 512;

/// Regions no further apart than this are sent as one: less than the head of another part (section 15.3.7.2).
const NEAR: u64 = 80;

/// A longer field is ignored: [`MAX_PARTS`] ranges of any size need two thirds of it.
const MAX_FIELD: usize = 16 << 10;

/// The ranges that a GET with these `headers` asks for of a value of `len` bytes, in the order asked for: empty where
/// none of them holds a byte of it. `None` is all of the value, as if no range were asked for.
pub fn ranges(headers: &HeaderMap, len: u64) -> Option<Vec<Range<u64>>> {
    let mut lines = headers.get_all(RANGE).iter();
    let field = lines.next().filter(|_| lines.next().is_none())?;
    evaluate(field.as_bytes(), len)
}

/// The Content-Range of a part.
pub fn content_range(range: &Range<u64>, len: u64) -> String {
    format!("bytes {}-{}/{len}", range.start, range.end - 1)
}

/// The Content-Range of an answer that says no range could be satisfied.
pub fn unsatisfied(len: u64) -> String {
    format!("bytes */{len}")
}

fn evaluate(field: &[u8], len: u64) -> Option<Vec<Range<u64>>> {
    let specs = specs(field)?;
    // Section 14.1.2: a suffix satisfies an empty value, which no Content-Range can express. Players that ask for all
    // bytes from the first on get the empty value, as from nginx.
    let is_all = |spec: &GeneratedRange| {
        matches!(
            spec,
            GeneratedRange::Last(1..) | GeneratedRange::Between(0, _)
        )
    };
    if len == 0 && specs.iter().any(is_all) {
        return None;
    }
    let found = specs.iter().filter_map(|spec| spec.within(len)).collect();
    Some(coalesce(found)).filter(|parts| parts.len() <= MAX_PARTS)
}

/// The ranges asked for, one at least; `None` where the field is ignored.
fn specs(field: &[u8]) -> Option<Vec<GeneratedRange>> {
    let (unit, set) = field.split_at_checked(b"bytes=".len())?;
    if !unit.eq_ignore_ascii_case(b"bytes=") || field.len() > MAX_FIELD {
        return None;
    }
    // A list may have empty members (section 5.6.1.2).
    let members = set.split(|b| *b == b',').map(<[u8]>::trim_ascii);
    let specs: Option<Vec<GeneratedRange>> = members
        .filter(|member| !member.is_empty())
        .map(GeneratedRange::parse)
        .collect();
    specs.filter(|specs| !specs.is_empty())
}

/// One range as asked for.
#[derive(Clone, Copy)]
enum GeneratedRange {
    /// Both inclusive.
    Between(u64, u64),
    /// The last bytes, of this number.
    Last(u64),
}

impl GeneratedRange {
    fn parse(spec: &[u8]) -> Option<Self> {
        let dash = spec.iter().position(|b| *b == b'-')?;
        match (&spec[..dash], &spec[dash + 1..]) {
            ([], suffix) => Some(Self::Last(number(suffix)?)),
            (first, []) => Some(Self::Between(number(first)?, u64::MAX)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::Between(first, last))
            }
        }
    }

    /// The bytes meant, of a value of `len` bytes; `None` where there are none.
    fn within(self, len: u64) -> Option<Range<u64>> {
        let range = match self {
            Self::Between(first, last) => first..last.saturating_add(1).min(len),
            Self::Last(count) => len.saturating_sub(count)..len,
        };
        (!range.is_empty()).then_some(range)
    }
}

/// The number that the digits are, or the largest one.
fn number(digits: &[u8]) -> Option<u64> {
    let append = |number: u64, digit: &u8| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        Some(number.saturating_mul(10).saturating_add(digit))
    };
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0, append)
}

/// Joins ranges that overlap, touch or nearly touch. A joined range has the place of the first range in it
/// (section 15.3.7.2).
fn coalesce(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut sorted: Vec<_> = ranges.into_iter().enumerate().collect();
    sorted.sort_unstable_by_key(|(_, range)| range.start);
    let mut joined: Vec<(usize, Range<u64>)> = Vec::new();
    for (place, range) in sorted {
        match joined.last_mut() {
            Some((first, last)) if range.start <= last.end.saturating_add(NEAR) => {
                *first = place.min(*first);
                last.end = range.end.max(last.end);
            }
            _ => joined.push((place, range)),
        }
    }
    joined.sort_unstable_by_key(|(place, _)| *place);
    joined.into_iter().map(|(_, range)| range).collect()
}

/// Several ranges of one value as one body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multipart {
    /// The head of each part, and its range: in this order, each head followed by its bytes of the value.
    pub parts: Vec<(Bytes, Range<u64>)>,
    /// The delimiter behind the last part.
    pub end: Bytes,
    /// The length of all of it.
    pub len: u64,
}

impl Multipart {
    /// The framing of `ranges`, none of them empty, of a value of `len` bytes and this `content_type`.
    ///
    /// `boundary` is 1 to 70 letters, digits, `-` or `_`, which need no quotes (RFC 2046, section 5.1.1), and drawn at
    /// random for each answer, so that no value holds it.
    pub fn new(ranges: &[Range<u64>], len: u64, content_type: &str, boundary: &str) -> Self {
        debug_assert!(is_boundary(boundary), "{boundary:?}");
        let mut total = 0;
        let mut parts = Vec::with_capacity(ranges.len());
        for range in ranges {
            // The line break belongs to the delimiter. Before the first it is optional, but zsync takes no other, and
            // other servers send it.
            let head = format!(
                "\r\n--{boundary}\r\ncontent-type: {content_type}\r\ncontent-range: {}\r\n\r\n",
                content_range(range, len)
            );
            total += head.len() as u64 + (range.end - range.start);
            parts.push((Bytes::from(head), range.clone()));
        }
        let end = Bytes::from(format!("\r\n--{boundary}--\r\n"));
        total += end.len() as u64;
        Self {
            parts,
            end,
            len: total,
        }
    }
}

/// The Content-Type of the whole.
pub fn multipart_type(boundary: &str) -> String {
    format!("multipart/byteranges; boundary={boundary}")
}

fn is_boundary(text: &str) -> bool {
    let is_good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    (1..=70).contains(&text.len()) && text.bytes().all(is_good)
}

#[cfg(test)]
mod tests {
    use data_server_testing::{table, words};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use crate::http::head::range::*;

    fn of(field: &str, len: u64) -> Option<Vec<Range<u64>>> {
        evaluate(field.as_bytes(), len)
    }

    /// What is answered of `len` bytes, each range as `START..END`, in a row each with the set of ranges.
    fn answered(len: u64, rows: &str) {
        for [expected, set] in table(rows) {
            let found = of(&format!("bytes={set}"), len).expect(set);
            let found: Vec<_> = found.iter().map(|range| format!("{range:?}")).collect();
            assert_eq!(found.join(" "), expected, "{set}");
        }
    }

    #[test]
    fn the_examples_of_14_1_2() {
        answered(
            10_000,
            "
            0..500 ; 0-499
            500..1000 ; 500-999
            9500..10000 ; -500
            9500..10000 ; 9500-
            0..1 9999..10000 ; 0-0,-1
            0..1000 4500..5500 9000..10000 ; 0-999, 4500-5499, -1000
            500..1000 ; 500-600,601-999
            500..1000 ; 500-700,601-999",
        );
    }

    #[test]
    fn ends_are_clamped_and_numbers_of_any_size_understood() {
        let rows = "
            0..10 ; 0-10
            9..10 ; 9-9
            3..10 ; 3-HUGE
            3..10 ; 3-18446744073709551615
            0..10 ; -HUGE
            0..10 ; -10
            0..10 ; -11
            0..10 ; 0-
            1..3 ; 0000000000000000000000001-2
             ; HUGE-
             ; HUGE-HUGE
             ; 10-
             ; 10-20
             ; -0
             ; -0,10-20,99-
            2..4 ; -0,2-3,99-";
        answered(10, &rows.replace("HUGE", &"9".repeat(60)));
        let (last, most) = (u64::MAX - 1, u64::MAX);
        answered(most, &format!("{last}..{most} ; {last}-"));
    }

    #[test]
    fn what_is_not_understood_is_ignored() {
        let long = format!("bytes=0-1{}", ",".repeat(MAX_FIELD));
        let spaced = [
            "",
            "bytes= , ,",
            "bytes=1 - 2",
            "bytes =0-1",
            " bytes=0-1",
            &long,
        ];
        let others = words(
            "bytes bytes= bytes=, bytes=- bytes=--1 bytes=1 bytes=a-b bytes=1-2-3 bytes=2-1 bytes=0-1,2-1 bytes=0-1,x \
             bytes=0-1;2-3 bytes=+1-2 bytes=0x0-0x1 bytes:0-1 bytes=bytes=0-1 items=0-1 none bytes=\u{661}-\u{662}",
        );
        for field in spaced.into_iter().chain(others) {
            assert_eq!(of(field, 10), None, "{field:?}");
        }
    }

    #[test]
    fn units_have_no_case_and_lists_may_be_spaced() {
        for field in ["BYTES=1-2", "Bytes=1-2", "bytes=\t1-2 ,, ", "bytes=,1-2"] {
            assert_eq!(of(field, 10), of("bytes=1-2", 10), "{field:?}");
        }
    }

    #[test]
    fn the_order_asked_for_is_kept_and_only_what_pays_is_joined() {
        answered(1000, "999..1000 500..510 0..10 ; -1,500-509,0-9");
        let near = |gap: u64| format!("0-9,{}-199", 10 + gap);
        answered(1000, &format!("0..200 ; {}", near(0)));
        answered(1000, &format!("0..200 ; {}", near(NEAR)));
        let apart = format!("0..10 {}..200 ; {}", 10 + NEAR + 1, near(NEAR + 1));
        answered(1000, &apart);
        answered(1 << 40, "0..1099511627776 ; 0-,0-,0-,0-,5-");
    }

    #[test]
    fn content_ranges_count_inclusively() {
        assert_eq!(content_range(&(0..500), 1234), "bytes 0-499/1234");
        assert_eq!(content_range(&(734..1234), 1234), "bytes 734-1233/1234");
        assert_eq!(unsatisfied(47022), "bytes */47022");
    }

    /// A range as generated: first, last, or how many at the end.
    #[derive(Clone, Debug)]
    enum GeneratedRange {
        From(u64),
        Between(u64, u64),
        Last(u64),
    }

    impl GeneratedRange {
        fn text(&self) -> String {
            match self {
                Self::From(first) => format!("{first}-"),
                Self::Between(first, last) => format!("{first}-{last}"),
                Self::Last(count) => format!("-{count}"),
            }
        }

        /// Whether this asks for the byte at `at` of `len`.
        fn holds(&self, at: u64, len: u64) -> bool {
            match self {
                Self::From(first) => *first <= at,
                Self::Between(first, last) => *first <= at && at <= *last,
                Self::Last(count) => len - at <= *count,
            }
        }
    }

    fn wanted() -> impl Strategy<Value = GeneratedRange> {
        prop_oneof![
            1 => (0_u64..4000).prop_map(GeneratedRange::From),
            20 => (0_u64..4000, 0_u64..60).prop_map(|(first, more)| GeneratedRange::Between(first, first + more)),
            1 => (0_u64..4000).prop_map(GeneratedRange::Last),
            3 => (0_u64..100).prop_map(GeneratedRange::Last),
        ]
    }

    /// Byte by byte: which are asked for, which gaps are too small to leave out, which runs remain.
    fn slow(wanted: &[GeneratedRange], len: u64) -> Option<Vec<Range<u64>>> {
        let mut sent: Vec<bool> = (0..len)
            .map(|at| wanted.iter().any(|spec| spec.holds(at, len)))
            .collect();
        let mut last = None;
        for at in 0..sent.len() {
            if sent[at] {
                if let Some(last) = last
                    && at - last <= usize::try_from(NEAR).unwrap() + 1
                {
                    sent[last..at].fill(true);
                }
                last = Some(at);
            }
        }
        let mut runs: Vec<Range<u64>> = vec![];
        for at in (0..len).filter(|at| sent[usize::try_from(*at).unwrap()]) {
            match runs.last_mut() {
                Some(run) if run.end == at => run.end += 1,
                _ => runs.push(at..at + 1),
            }
        }
        let place = |run: &Range<u64>| {
            let asks = |spec: &GeneratedRange| run.clone().any(|at| spec.holds(at, len));
            wanted.iter().position(asks)
        };
        runs.sort_by_key(place);
        (runs.len() <= MAX_PARTS).then_some(runs)
    }

    proptest! {
        #[test]
        fn ranges_are_those_of_the_slow_model(
            wanted in vec(wanted(), 1..24),
            len in 1_u64..3500,
            comma in "[ \t]{0,2},[ \t,]{0,2}",
        ) {
            let texts: Vec<_> = wanted.iter().map(GeneratedRange::text).collect();
            let field = format!("bytes={}", texts.join(&comma));
            prop_assert_eq!(of(&field, len), slow(&wanted, len));
        }

        #[test]
        fn nothing_panics_and_no_answer_is_larger_than_the_value(
            set in "[0-9,\\- ]{0,60}",
            len in prop_oneof![0_u64..200, any::<u64>()],
        ) {
            let parts = of(&format!("bytes={set}"), len).unwrap_or_default();
            prop_assert!(parts.len() <= MAX_PARTS);
            let mut sum = 0_u64;
            for part in parts {
                prop_assert!(part.start < part.end && part.end <= len);
                sum = sum.checked_add(part.end - part.start).unwrap();
            }
            prop_assert!(sum <= len);
        }

        #[test]
        fn bytes_of_any_kind_are_ignored(field in vec(any::<u8>(), 0..40)) {
            // Anything but `bytes=`, in any case, comes up too rarely to matter.
            prop_assert_eq!(evaluate(&field, 10), None);
        }
    }

    /// The body as it is sent.
    fn body(multipart: &Multipart, value: &[u8]) -> Vec<u8> {
        let mut body = vec![];
        for (head, range) in &multipart.parts {
            body.extend_from_slice(head);
            let [start, end] = [range.start, range.end].map(|at| usize::try_from(at).unwrap());
            body.extend_from_slice(&value[start..end]);
        }
        body.extend_from_slice(&multipart.end);
        body
    }

    #[test]
    fn the_example_of_14_6() {
        let ranges = [500..1000, 7000..8000];
        let multipart = Multipart::new(&ranges, 8000, "application/pdf", "THIS_STRING_SEPARATES");
        let value = [b'x'; 8000];
        let expected = [
            "\r\n--THIS_STRING_SEPARATES\r\n\
             content-type: application/pdf\r\n\
             content-range: bytes 500-999/8000\r\n\r\n",
            &"x".repeat(500),
            "\r\n--THIS_STRING_SEPARATES\r\n\
             content-type: application/pdf\r\n\
             content-range: bytes 7000-7999/8000\r\n\r\n",
            &"x".repeat(1000),
            "\r\n--THIS_STRING_SEPARATES--\r\n",
        ]
        .concat();
        let body = body(&multipart, &value);
        assert_eq!(String::from_utf8(body).unwrap(), expected);
        assert_eq!(multipart.len, expected.len() as u64);
        let wanted = "multipart/byteranges; boundary=THIS_STRING_SEPARATES";
        assert_eq!(multipart_type("THIS_STRING_SEPARATES"), wanted);
    }

    #[test]
    fn the_length_is_known_for_values_of_any_size() {
        let ranges = [0..1 << 61, 1 << 62..(1 << 62) + 1];
        let multipart = Multipart::new(&ranges, 1 << 63, "a/b", "x");
        let framing: usize = multipart.parts.iter().map(|(head, _)| head.len()).sum();
        let framing = framing + multipart.end.len();
        assert_eq!(multipart.len, (1 << 61) + 1 + framing as u64);
    }

    #[test]
    fn a_boundary_needs_no_quotes() {
        for good in ["0", "a-B_9", &"f".repeat(70)] {
            assert!(is_boundary(good), "{good}");
        }
        for bad in ["", "a b", "a:b", "a\r\n", "\"a\"", "a;b", &"f".repeat(71)] {
            assert!(!is_boundary(bad), "{bad}");
        }
    }

    /// Reads the body as RFC 2046 tells a client to, knowing only the boundary.
    fn read<'a>(body: &'a str, boundary: &str) -> Option<Vec<(&'a str, &'a str)>> {
        let body = body.strip_prefix(&format!("\r\n--{boundary}\r\n"))?;
        let (parts, rest) = body.split_once(&format!("\r\n--{boundary}--"))?;
        (rest == "\r\n").then_some(())?;
        parts
            .split(&format!("\r\n--{boundary}\r\n"))
            .map(|part| part.split_once("\r\n\r\n"))
            .collect()
    }

    proptest! {
        #[test]
        fn a_client_reads_the_parts_that_were_framed(
            value in "[ -~\r\n]{1,200}",
            cuts in vec((0_usize..200, 1_usize..50), 1..8),
            boundary in "[a-f0-9]{32}",
        ) {
            let len = value.len();
            let cut = |(start, count): (usize, usize)| {
                let start = start % len;
                start as u64..(start + count).min(len) as u64
            };
            let ranges: Vec<_> = cuts.into_iter().map(cut).collect();
            let multipart = Multipart::new(&ranges, len as u64, "text/plain", &boundary);
            let body = String::from_utf8(body(&multipart, value.as_bytes())).unwrap();
            prop_assert_eq!(body.len() as u64, multipart.len);

            let parts = read(&body, &boundary).expect("well-formed");
            prop_assert_eq!(parts.len(), ranges.len());
            for ((head, data), range) in parts.iter().zip(&ranges) {
                let [start, end] = [range.start, range.end].map(|at| usize::try_from(at).unwrap());
                prop_assert_eq!(*data, &value[start..end]);
                let field = format!("content-range: bytes {start}-{}/{len}", end - 1);
                prop_assert!(head.lines().any(|line| line == field), "{}", head);
                prop_assert!(head.lines().any(|line| line == "content-type: text/plain"));
            }
        }
    }
}
