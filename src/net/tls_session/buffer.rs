//! The memory of TLS sessions: a queue of bytes that has memory only while it holds any.
//!
//! An empty [`Buffer`] takes a spare of its reactor's thread when it is written to, and gives it back with its last byte. So
//! thousands of idle sessions share the little that a few busy ones need, and that is in the processor's caches.

use std::cell::RefCell;

/// The length of a spare, in bytes: a piece that is received or encrypted, and a record (RFC 8446, section 5.2) beside it.
const SPARE: usize = 96 << 10;

/// How many spares wait for the next session.
const MOST_SPARES: usize = 4;

thread_local! {
    static SPARES: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer of one session.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    memory: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }

    /// The bytes that it holds.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.end]
    }

    /// Room behind that, for `least` bytes or more. What is written there is held once [`Self::grow`] has been told of it.
    pub(super) fn room(&mut self, least: usize) -> &mut [u8] {
        if self.memory.len() - self.end < least {
            self.make_room(least);
        }
        &mut self.memory[self.end..]
    }

    fn make_room(&mut self, least: usize) {
        let len = self.len();
        if self.memory.len() < len + least {
            let mut memory = SPARES.with_borrow_mut(Vec::pop).unwrap_or_default();
            memory.resize((len + least).max(SPARE), 0);
            memory[..len].copy_from_slice(self.bytes());
            give_back(std::mem::replace(&mut self.memory, memory));
        } else {
            self.memory.copy_within(self.start..self.end, 0);
        }
        (self.start, self.end) = (0, len);
    }

    /// Holds the first `len` bytes of its room too.
    pub(super) fn grow(&mut self, len: usize) {
        self.end += len;
    }

    /// Holds a copy of `bytes` too.
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
            self.grow(bytes.len());
        }
    }

    /// Lets its first `len` bytes go.
    pub(super) fn consume(&mut self, len: usize) {
        self.start += len;
        if self.is_empty() {
            self.clear();
        }
    }

    /// Keeps no more memory than it needs: for a peer that may let it wait.
    pub(super) fn shrink(&mut self) {
        if self.len() < self.memory.len() {
            let held = self.bytes().to_vec();
            self.clear();
            self.end = held.len();
            self.memory = held;
        }
    }

    fn clear(&mut self) {
        give_back(std::mem::take(&mut self.memory));
        (self.start, self.end) = (0, 0);
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Keeps `memory` for the next, if it is worth that.
fn give_back(memory: Vec<u8>) {
    if memory.len() == SPARE {
        // The thread may be ending.
        let _ = SPARES.try_with(|spares| {
            let mut spares = spares.borrow_mut();
            if spares.len() < MOST_SPARES {
                spares.push(memory);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::iter;

    use proptest::prelude::*;

    use super::*;

    fn spares() -> usize {
        SPARES.with_borrow(Vec::len)
    }

    proptest! {
        /// Whatever is written, taken and shrunk, and when: the bytes come out in order, and an empty buffer has no memory.
        #[test]
        fn bytes_come_out_as_they_went_in(
            steps in prop::collection::vec((0_usize..40_000, 0_usize..60_000, any::<bool>()), 0..20),
        ) {
            let mut buffer = Buffer::default();
            let mut expected = VecDeque::new();
            let mut next = 0_u8;
            for (write, take, shrinks) in steps {
                let bytes = iter::repeat_with(|| { next = next.wrapping_mul(5).wrapping_add(1); next });
                let bytes: Vec<u8> = bytes.take(write).collect();
                buffer.extend(&bytes);
                expected.extend(bytes);
                if shrinks {
                    buffer.shrink();
                    prop_assert_eq!(buffer.memory.len(), buffer.len());
                }
                let take = take.min(buffer.len());
                let right: Vec<u8> = expected.drain(..take).collect();
                prop_assert!(buffer.bytes()[..take] == right);
                buffer.consume(take);
                prop_assert_eq!(buffer.len(), expected.len());
                prop_assert!(!buffer.is_empty() || buffer.memory.is_empty());
            }
        }
    }

    #[test]
    fn sessions_that_are_done_share_their_memory() {
        let mut first = Buffer::default();
        first.extend(b"sealed");
        assert_eq!(spares(), 0);
        first.consume(6);
        assert_eq!(spares(), 1);
        let mut second = Buffer::default();
        second.extend(&[0; 10]);
        assert_eq!(spares(), 0);
        drop(second);
        assert_eq!(spares(), 1);
    }

    #[test]
    fn few_spares_are_kept_and_only_those_of_their_length() {
        let mut many: Vec<Buffer> = (0..10).map(|_| Buffer::default()).collect();
        for buffer in &mut many {
            buffer.extend(&[1; 100]);
        }
        many[0].extend(&vec![1; SPARE]);
        drop(many);
        assert_eq!(spares(), MOST_SPARES);
        assert!(SPARES.with_borrow(|spares| spares.iter().all(|spare| spare.len() == SPARE)));
    }
}
