//! The identifier of a resumable upload: 128 random bits, so that it cannot be guessed.
//!
//! It is the name of the upload's file, and the last segment of the path of its upload resource.

use std::fmt;

use super::super::error::Error;
use super::super::random::random;

/// Bytes of an identifier.
const LEN: usize = 16;

/// Identifies one resumable upload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UploadId(u128);

impl UploadId {
    pub(in crate::store) fn random() -> Result<Self, Error> {
        let bits = random().map_err(Error::errno_while("draw random bytes"))?;
        Ok(Self(bits))
    }

    /// The one that is written so: 32 hexadecimal digits, the letters small.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        let is_whole = text.len() == 2 * LEN && text.bytes().all(is_digit);
        is_whole.then(|| u128::from_str_radix(text, 16).ok().map(Self))?
    }
}

impl fmt::Display for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// It lets its holder change the upload, so a log does not show it.
impl fmt::Debug for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UploadId")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_identifier_is_read_as_it_is_written(bits in any::<u128>()) {
            let id = UploadId(bits);
            prop_assert_eq!(UploadId::parse(&id.to_string()), Some(id));
        }

        #[test]
        fn an_identifier_has_one_spelling(text in "[0-9a-fA-F+-]{0,40}") {
            if let Some(id) = UploadId::parse(&text) {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }

    #[test]
    fn no_two_are_the_same() {
        assert_ne!(UploadId::random().unwrap(), UploadId::random().unwrap());
    }
}
