//! Memory for the bodies of small uploads, used again and again by their reactor.
//!
//! A body is let go by the thread that writes it. Freed there, it would be memory of one thread that another gives back,
//! and that the allocator may hand to the system and ask for again, page by page, with each upload. Holds [`KEPT`] bytes
//! at most for each reactor.

use std::cell::RefCell;

use bytes::{Bytes, BytesMut};

/// What one thread keeps, in bytes.
const KEPT: usize = 1 << 20;

thread_local! {
    static SPARE: RefCell<Spare> = const { RefCell::new(Spare::new()) };
}

struct Spare {
    buffers: Vec<BytesMut>,
    bytes: usize,
}

impl Spare {
    const fn new() -> Self {
        Self {
            buffers: Vec::new(),
            bytes: 0,
        }
    }

    fn take(&mut self) -> BytesMut {
        let buffer = self.buffers.pop().unwrap_or_default();
        self.bytes -= buffer.capacity();
        buffer
    }

    fn keep(&mut self, mut buffer: BytesMut) {
        buffer.clear();
        if self.bytes + buffer.capacity() <= KEPT {
            self.bytes += buffer.capacity();
            self.buffers.push(buffer);
        }
    }
}

/// An empty buffer with room for `len` bytes.
pub(super) fn take(len: usize) -> BytesMut {
    let mut buffer = SPARE.with_borrow_mut(Spare::take);
    buffer.reserve(len);
    buffer
}

/// Keeps what `body` lies in, unless somebody else has it still.
pub(super) fn give_back(body: Bytes) {
    if let Ok(buffer) = body.try_into_mut() {
        SPARE.with_borrow_mut(|spare| spare.keep(buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_nobody_has_any_more_is_used_again_and_no_other() {
        let body = |len| {
            let mut buffer = take(len);
            buffer.resize(len, 1);
            buffer.freeze()
        };
        let first = body(1000);
        let (at, other) = (first.as_ptr(), first.clone());
        give_back(first);
        assert_ne!(take(10).as_ptr(), at, "it is read still");
        give_back(other);
        let again = take(10);
        assert!(again.is_empty() && again.as_ptr() == at);
    }

    #[test]
    fn no_more_is_kept_than_the_bound() {
        for len in [64 << 10; 40] {
            give_back(BytesMut::zeroed(len).freeze());
        }
        SPARE.with_borrow(|spare| {
            let kept: usize = spare.buffers.iter().map(BytesMut::capacity).sum();
            assert!(kept == spare.bytes && kept <= KEPT && kept > KEPT / 2);
        });
    }
}
