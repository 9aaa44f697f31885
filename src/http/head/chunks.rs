//! The framing of a chunked body (RFC 9112, section 7.1): where each chunk ends, and where the body does.
//!
//! Promises that a line is taken when it is whole, and refused as soon as it is malformed. Reads no byte of a chunk's
//! data.

use crate::http::head::syntax::{FramingError, MAX_HEAD, line};

/// The longest line with the size of a chunk, in bytes: hyper takes as much of extensions.
const MAX_SIZE_LINE: usize = 16 << 10;

/// The part that comes next of a chunked body. Stricter than hyper, which decodes the body: a size has at most 16
/// digits, and no line holds a bare CR, LF or NUL. hyper limits extensions and trailers together.
#[derive(Debug)]
pub enum Chunks {
    /// The line with the size of a chunk.
    Size,
    /// The bytes that are left of a chunk, and the line end behind it.
    Data(u64),
    /// A trailer, or the empty line that ends all.
    Trailer,
}

impl Chunks {
    /// Follows the body through `bytes`: how many of them it has, and whether it ended. A line that is not whole comes
    /// again.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(usize, bool), FramingError> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            if let Self::Data(left @ 1..) = self {
                let len = at_hand(*left, rest.len());
                *left -= len as u64;
                at += len;
                continue;
            }
            let whole = line(rest).map_err(|_| FramingError::Chunks)?;
            let begun = whole.unwrap_or(rest.strip_suffix(b"\r").unwrap_or(rest));
            // A line that is malformed is refused before it is whole.
            let next = match (&*self, begun.len()) {
                (Self::Size, ..=MAX_SIZE_LINE) => chunk_of(begun),
                (Self::Data(_), 0) => Some(Self::Size),
                (Self::Trailer, ..=MAX_HEAD) => Some(Self::Trailer),
                _ => None,
            };
            let next = next.ok_or(FramingError::Chunks)?;
            let Some(line) = whole else { break };
            at += line.len() + 2;
            if matches!((&*self, line), (Self::Trailer, [])) {
                return Ok((at, true));
            }
            *self = next;
        }
        Ok((at, false))
    }
}

/// What follows the line with the size of a chunk, or the beginning of one.
fn chunk_of(line: &[u8]) -> Option<Chunks> {
    let end = line.iter().position(|b| !b.is_ascii_hexdigit());
    let (digits, extension) = line.split_at(end.unwrap_or(line.len()));
    let is_good = digits.len() <= 16 && matches!(extension, [] | [b';' | b' ' | b'\t', ..]);
    let size = std::str::from_utf8(digits).ok().filter(|_| is_good)?;
    match u64::from_str_radix(size, 16).ok()? {
        0 => Some(Chunks::Trailer),
        size => Some(Chunks::Data(size)),
    }
}

/// How many of the `there` bytes are of a body of which `left` are to come.
pub fn at_hand(left: u64, there: usize) -> usize {
    usize::try_from(left).map_or(there, |left| left.min(there))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_chunked_body_comes_again_until_it_is_whole() {
        let bad = Err(FramingError::Chunks);
        for (bytes, expected) in [
            ("5", Ok((0, false))),
            ("5;a=\"b\"\r", Ok((0, false))),
            ("0000000000000005\r\n", Ok((18, false))),
            ("A \r\nab", Ok((6, false))),
            ("2\r\nab\r", Ok((5, false))),
            ("2\r\nab\r\n3", Ok((7, false))),
            ("0\r\nA: b", Ok((3, false))),
            ("0\r\n\r\nGET", Ok((5, true))),
            ("0\r\nA: b\r\n\r\nGET", Ok((11, true))),
            ("\r", bad),
            ("g", bad),
            ("+5", bad),
            ("5:", bad),
            ("00000000000000005", bad),
            ("5\n", bad),
            ("5;\0", bad),
            ("2\r\nabc", bad),
            ("2\r\nab\n", bad),
            ("0\r\nA\rb", bad),
        ] {
            assert_eq!(Chunks::Size.feed(bytes.as_bytes()), expected, "{bytes:?}");
        }
        let line = |len: usize| format!("1;{}", "a".repeat(len - 2));
        let feed = |line: String| Chunks::Size.feed(line.as_bytes());
        assert_eq!(feed(line(MAX_SIZE_LINE)), Ok((0, false)));
        assert_eq!(feed(line(MAX_SIZE_LINE + 1)), bad);
    }
}
