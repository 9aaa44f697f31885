//! The framing of a chunked body: where in the bytes of a connection it ends, and nothing else.
//!
//! Stricter than hyper, which decodes it: a size has at most 16 digits, and no line holds a bare LF or NUL. How long
//! extensions and trailers may be, hyper decides.

use memchr::memchr3;

use crate::http::head::syntax::FramingError;

/// Where in a chunked body the next byte lies (RFC 9112, section 7.1).
#[derive(Debug)]
pub enum Chunks {
    Size {
        size: u64,
        digits: u8,
    },
    Extension {
        size: u64,
    },
    SizeLf {
        size: u64,
    },
    Data {
        left: u64,
    },
    DataCr,
    DataLf,
    /// At the beginning of a trailer, or of the empty line that ends all.
    Line,
    Trailer,
    TrailerLf,
    LastLf,
}

impl Chunks {
    pub const START: Self = Self::Size { size: 0, digits: 0 };

    /// Goes on in `bytes`: how many of them were of the body, and whether that ended.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(usize, bool), FramingError> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            let (len, next) = match *self {
                Self::Data { left } => skip(left, bytes.len() - at),
                Self::Extension { size } => to_cr(&bytes[at..], Self::SizeLf { size }, || {
                    Self::Extension { size }
                })?,
                Self::Trailer => to_cr(&bytes[at..], Self::TrailerLf, || Self::Trailer)?,
                Self::LastLf if byte == b'\n' => return Ok((at + 1, true)),
                _ => (1, self.next(byte).ok_or(FramingError::Chunks)?),
            };
            at += len;
            *self = next;
        }
        Ok((at, false))
    }

    /// The state after one byte of the framing.
    fn next(&self, byte: u8) -> Option<Self> {
        match (self, byte) {
            (&Self::Size { size, digits }, _) => {
                if let (Some(digit), 0..16) = (char::from(byte).to_digit(16), digits) {
                    let size = size << 4 | u64::from(digit);
                    let digits = digits + 1;
                    return Some(Self::Size { size, digits });
                }
                match byte {
                    b'\r' if digits > 0 => Some(Self::SizeLf { size }),
                    b';' | b' ' | b'\t' if digits > 0 => Some(Self::Extension { size }),
                    _ => None,
                }
            }
            (Self::SizeLf { size: 0 } | Self::TrailerLf, b'\n') => Some(Self::Line),
            (&Self::SizeLf { size }, b'\n') => Some(Self::Data { left: size }),
            (Self::DataCr, b'\r') => Some(Self::DataLf),
            (Self::DataLf, b'\n') => Some(Self::START),
            (Self::Line, b'\r') => Some(Self::LastLf),
            (Self::Line, b'\n' | 0) => None,
            (Self::Line, _) => Some(Self::Trailer),
            _ => None,
        }
    }
}

/// As much of `left` bytes of data as there is.
fn skip(left: u64, there: usize) -> (usize, Chunks) {
    let len = usize::try_from(left).map_or(there, |left| left.min(there));
    match left - len as u64 {
        0 => (len, Chunks::DataCr),
        left => (len, Chunks::Data { left }),
    }
}

/// Up to the CR that ends a line, and what follows that; else all of `bytes`, and the same again.
fn to_cr(
    bytes: &[u8],
    next: Chunks,
    same: impl FnOnce() -> Chunks,
) -> Result<(usize, Chunks), FramingError> {
    match memchr3(b'\r', b'\n', 0, bytes) {
        Some(end) if bytes[end] == b'\r' => Ok((end + 1, next)),
        Some(_) => Err(FramingError::Chunks),
        None => Ok((bytes.len(), same())),
    }
}
