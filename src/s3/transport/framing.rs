//! How a body that is sent as it comes is proved whole: in pieces, with a checksum behind the last one (`aws-chunked`), or
//! plain, where its SHA-256 is known beforehand and signed.
//!
//! Either way the end is held back until the upload is to be published: without it the store has nothing to publish.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use crc64fast_nvme::Digest;
use hyper::header::{CONTENT_ENCODING, HeaderName, HeaderValue};

use super::call::Call;
use super::sign::hex;
use crate::value::Error;

/// The payload of a body in pieces.
const PIECES: &str = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";

/// The length of all pieces but the last. Their heads are known beforehand, so nothing is gathered for them.
const PIECE: u64 = 1 << 20;

/// The field of the checksum.
pub const CHECKSUM: &str = "x-amz-checksum-crc64nvme";

/// The length of the trailer, with the piece of no length before it: the checksum takes 12 characters.
const TRAILER_LEN: u64 = 3 + CHECKSUM.len() as u64 + 1 + 12 + 4;

/// A body on its way.
pub struct Framing {
    /// How many bytes are to come.
    left: u64,
    kind: Kind,
}

enum Kind {
    Pieces {
        /// How many of them belong to the piece that has begun.
        piece: u64,
        checksum: Digest,
    },
    Plain {
        sha256: [u8; 32],
        /// The last byte.
        last: Bytes,
    },
}

impl Framing {
    /// Of `len` bytes, whose digest is known or not.
    pub fn new(len: u64, sha256: Option<[u8; 32]>) -> Self {
        let kind = match sha256 {
            Some(sha256) if len > 0 => Kind::Plain {
                sha256,
                last: Bytes::new(),
            },
            _ => Kind::Pieces {
                piece: 0,
                checksum: Digest::new(),
            },
        };
        Self { left: len, kind }
    }

    /// How many bytes of the value are to come.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// What the request is signed for.
    pub fn payload(&self) -> String {
        match &self.kind {
            Kind::Pieces { .. } => PIECES.to_owned(),
            Kind::Plain { sha256, .. } => hex(sha256),
        }
    }

    /// How long the body is; before any of it is pushed.
    pub fn body_len(&self) -> u64 {
        let len = self.left;
        match self.kind {
            Kind::Plain { .. } => len,
            Kind::Pieces { .. } => {
                let (full, rest) = (len / PIECE, len % PIECE);
                let last = if rest > 0 { framed_len(rest) } else { 0 };
                full * framed_len(PIECE) + last + TRAILER_LEN
            }
        }
    }

    /// `call`, with the fields that tell how its body is framed.
    pub fn describe(&self, mut call: Call) -> Result<Call, Error> {
        match &self.kind {
            // An upload in parts takes the checksums that it was begun with, and no other: the signature proves the part.
            Kind::Plain { .. } if call.is_part() => Ok(call),
            Kind::Plain { sha256, .. } => {
                let checksum = HeaderName::from_static("x-amz-checksum-sha256");
                call.with(checksum, &BASE64_STANDARD.encode(sha256))
            }
            Kind::Pieces { .. } => {
                let mut coding = b"aws-chunked".to_vec();
                if let Some(own) = call.headers.get(CONTENT_ENCODING) {
                    coding.push(b',');
                    coding.extend_from_slice(own.as_bytes());
                }
                if let Ok(coding) = HeaderValue::from_bytes(&coding) {
                    call.headers.insert(CONTENT_ENCODING, coding);
                }
                let length = HeaderName::from_static("x-amz-decoded-content-length");
                let call = call.with(length, &self.left.to_string())?;
                Ok(call.with_static("x-amz-trailer", CHECKSUM))
            }
        }
    }

    /// Gives `push` what `data`, the next bytes of the value, are in the body.
    pub fn frame(&mut self, mut data: Bytes, mut push: impl FnMut(Bytes)) -> Result<(), Error> {
        let len = data.len() as u64;
        self.left = self.left.checked_sub(len).ok_or(Error::TooLarge)?;
        match &mut self.kind {
            Kind::Plain { last, .. } => {
                if self.left == 0 && last.is_empty() && len > 0 {
                    *last = data.split_off(data.len() - 1);
                }
                if !data.is_empty() {
                    push(data);
                }
            }
            Kind::Pieces { piece, checksum } => {
                checksum.write(&data);
                let mut to_come = self.left + len;
                while !data.is_empty() {
                    if *piece == 0 {
                        *piece = to_come.min(PIECE);
                        push(format!("{piece:x}\r\n").into());
                    }
                    let room = usize::try_from(*piece).unwrap_or(usize::MAX);
                    let part = data.split_to(room.min(data.len()));
                    let taken = part.len() as u64;
                    push(part);
                    *piece -= taken;
                    to_come -= taken;
                    if *piece == 0 {
                        push(Bytes::from_static(b"\r\n"));
                    }
                }
            }
        }
        Ok(())
    }

    /// The end of the body, once all bytes have been pushed.
    pub fn end(self) -> Result<Bytes, Error> {
        if self.left > 0 {
            return Err(Error::Incomplete);
        }
        Ok(match self.kind {
            Kind::Plain { last, .. } => last,
            Kind::Pieces { checksum, .. } => {
                let checksum = BASE64_STANDARD.encode(checksum.sum64().to_be_bytes());
                format!("0\r\n{CHECKSUM}:{checksum}\r\n\r\n").into()
            }
        })
    }
}

/// How long a piece is with what frames it.
fn framed_len(piece: u64) -> u64 {
    let digits = u64::from(piece.ilog2() / 4 + 1);
    digits + 2 + piece + 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The body of a value that is pushed in runs of `run` bytes.
    fn body(value: &[u8], run: usize, sha256: Option<[u8; 32]>) -> Vec<u8> {
        let mut framing = Framing::new(value.len() as u64, sha256);
        let len = framing.body_len();
        let mut body = Vec::new();
        for data in value.chunks(run) {
            let push = |data: Bytes| body.extend_from_slice(&data);
            framing.frame(Bytes::copy_from_slice(data), push).unwrap();
        }
        assert!((body.len() as u64) < len, "the end is held back");
        body.extend_from_slice(&framing.end().unwrap());
        assert_eq!(body.len() as u64, len);
        body
    }

    /// What the pieces of `body` say, and its trailer.
    fn unframed(mut body: &[u8]) -> (Vec<u8>, String) {
        let mut value = Vec::new();
        loop {
            let end = body.windows(2).position(|two| two == b"\r\n").unwrap();
            let len = std::str::from_utf8(&body[..end]).unwrap();
            let len = usize::from_str_radix(len, 16).unwrap();
            body = &body[end + 2..];
            if len == 0 {
                return (value, String::from_utf8(body.to_vec()).unwrap());
            }
            value.extend_from_slice(&body[..len]);
            assert_eq!(&body[len..len + 2], b"\r\n");
            body = &body[len + 2..];
        }
    }

    #[test]
    fn the_checksum_is_the_published_one() {
        // The check value of CRC-64/NVME.
        let (value, trailer) = unframed(&body(b"123456789", 4, None));
        assert_eq!(value, b"123456789");
        let check = BASE64_STANDARD.encode(0xAE8B_1486_0A79_9888_u64.to_be_bytes());
        assert_eq!(trailer, format!("x-amz-checksum-crc64nvme:{check}\r\n\r\n"));
        let (value, _) = unframed(&body(b"", 1, None));
        assert!(value.is_empty());
    }

    #[test]
    fn more_and_less_than_was_said_are_refused() {
        for sha256 in [None, Some([0; 32])] {
            let mut framing = Framing::new(2, sha256);
            framing.frame(Bytes::from_static(b"1"), |_| {}).unwrap();
            let more = framing.frame(Bytes::from_static(b"23"), |_| {});
            assert!(matches!(more, Err(Error::TooLarge)));
            let mut framing = Framing::new(2, sha256);
            framing.frame(Bytes::from_static(b"1"), |_| {}).unwrap();
            assert!(matches!(framing.end(), Err(Error::Incomplete)));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn a_body_has_the_length_it_was_said_to_have(
            len in prop_oneof![1..300_usize, 1_048_570..1_048_580_usize, 2_097_150..2_100_000_usize],
            run in 1..2_000_000_usize,
        ) {
            let value: Vec<u8> = (0..=250_u8).cycle().take(len).collect();
            let run = run.max(len / 1000);
            prop_assert_eq!(unframed(&body(&value, run, None)).0, &value[..]);
            prop_assert_eq!(body(&value, run, Some([1; 32])), value);
        }
    }
}
