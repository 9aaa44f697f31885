//! The framing of several ranges in one answer: multipart/byteranges (RFC 9110, section 14.6).
//!
//! Pure: it knows where the parts of a value lie and what stands between them, and so the length of the whole before a
//! byte is sent. It holds no byte of the value.

use std::ops::Range;

use bytes::Bytes;

use crate::http::values::range::content_range;

/// Several ranges of one value as one body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multipart {
    /// What stands before each part, and the part: in this order, each followed by its bytes of the value.
    pub parts: Vec<(Bytes, Range<u64>)>,
    /// What stands behind the last part.
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
            // The line break before a delimiter belongs to the delimiter, and the first has nothing before it.
            let line_break = if parts.is_empty() { "" } else { "\r\n" };
            let head = format!(
                "{line_break}--{boundary}\r\ncontent-type: {content_type}\r\ncontent-range: {}\r\n\r\n",
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
pub fn content_type(boundary: &str) -> String {
    format!("multipart/byteranges; boundary={boundary}")
}

fn is_boundary(text: &str) -> bool {
    let is_good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    (1..=70).contains(&text.len()) && text.bytes().all(is_good)
}

#[cfg(test)]
mod tests {
    use crate::http::values::multipart::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

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
            "--THIS_STRING_SEPARATES\r\n\
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
        assert_eq!(
            content_type("THIS_STRING_SEPARATES"),
            "multipart/byteranges; boundary=THIS_STRING_SEPARATES"
        );
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
        let body = body.strip_prefix(&format!("--{boundary}\r\n"))?;
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
