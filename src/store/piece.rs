//! Bytes of a value gathered in memory for one write, copied together where they come in small runs.

use bytes::{Bytes, BytesMut};

/// Received bytes in runs shorter than this are copied together: each run that is kept holds on to the whole receive
/// buffer it lies in.
const WORTH_KEEPING: usize = 16 << 10;

/// Bytes gathered for one write.
#[derive(Default)]
pub(super) struct Piece {
    pub(super) whole: Vec<Bytes>,
    tail: BytesMut,
    /// Bytes gathered so far.
    pub(super) len: usize,
}

impl Piece {
    pub(super) fn push(&mut self, data: Bytes) {
        self.len += data.len();
        if data.len() < WORTH_KEEPING {
            self.tail.extend_from_slice(&data);
            return;
        }
        self.close_tail();
        self.whole.push(data);
    }

    /// All of them; nothing is left.
    pub(super) fn take(&mut self) -> Vec<Bytes> {
        self.close_tail();
        self.len = 0;
        std::mem::take(&mut self.whole)
    }

    /// Makes what was copied together a part of the whole.
    pub(super) fn close_tail(&mut self) {
        if !self.tail.is_empty() {
            self.whole.push(self.tail.split().freeze());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_piece_keeps_every_byte_in_order(runs in prop::collection::vec((0..40_000_usize, any::<u8>()), 0..20)) {
            let mut piece = Piece::default();
            let mut expected = Vec::new();
            for (len, byte) in runs {
                expected.extend(std::iter::repeat_n(byte, len));
                piece.push(Bytes::from(vec![byte; len]));
            }
            prop_assert_eq!(piece.len, expected.len());
            prop_assert_eq!(piece.take().concat(), expected);
            prop_assert_eq!(piece.len, 0);
        }
    }
}
