//! Bytes of a value gathered in memory for one write, and the write. Short runs of bytes are copied together.

use std::io::IoSlice;
use std::os::fd::AsFd;

use bytes::{Bytes, BytesMut};
use rustix::io::Errno;

use super::limits::COPIED;
use crate::value::Error;

/// `IOV_MAX` of Linux: what one pwritev takes.
const MAX_SLICES: usize = 1024;

/// Bytes gathered for one write.
#[derive(Debug, Default)]
pub struct WriteBuffer {
    runs: Vec<Bytes>,
    /// What is being copied together; it follows the `runs`.
    tail: BytesMut,
    len: usize,
}

impl WriteBuffer {
    /// How many bytes it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn push(&mut self, data: Bytes) {
        self.len += data.len();
        if data.len() < COPIED {
            self.tail.extend_from_slice(&data);
            return;
        }
        self.close_tail();
        self.runs.push(data);
    }

    /// Takes a copy: nothing is kept of what `data` lies in. Up to `most` bytes will come.
    pub fn copy(&mut self, data: &[u8], most: usize) {
        self.len += data.len();
        self.tail.reserve(most.saturating_sub(self.tail.len()));
        self.tail.extend_from_slice(data);
    }

    /// All bytes; the buffer is empty afterwards.
    pub fn take(&mut self) -> Vec<Bytes> {
        self.close_tail();
        self.len = 0;
        std::mem::take(&mut self.runs)
    }

    /// All bytes; they stay in the buffer.
    pub fn share(&mut self) -> Vec<Bytes> {
        self.close_tail();
        self.runs.clone()
    }

    fn close_tail(&mut self) {
        if !self.tail.is_empty() {
            self.runs.push(std::mem::take(&mut self.tail).freeze());
        }
    }
}

/// Writes all of `runs` to `file` from `offset` on. Blocks.
pub fn write_at(file: impl AsFd, mut offset: u64, runs: &[Bytes]) -> Result<(), Error> {
    let mut slices: Vec<_> = runs.iter().map(|run| IoSlice::new(run)).collect();
    let mut rest = &mut slices[..];
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        let batch = rest.len().min(MAX_SLICES);
        match rustix::io::pwritev(&file, &rest[..batch], offset) {
            Ok(0) => return Err(Error::new("write", Errno::NOSPC)),
            Ok(n) => {
                offset += n as u64;
                IoSlice::advance_slices(&mut rest, n);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::new("write", errno)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_write_buffer_keeps_every_byte_in_order(runs in prop::collection::vec((0..40_000_usize, any::<u8>()), 0..20)) {
            let mut buffer = WriteBuffer::default();
            let mut expected = Vec::new();
            for (len, byte) in runs {
                expected.extend(std::iter::repeat_n(byte, len));
                buffer.push(Bytes::from(vec![byte; len]));
            }
            prop_assert_eq!(buffer.len(), expected.len());
            prop_assert_eq!(buffer.share().concat(), &expected[..]);
            prop_assert_eq!(buffer.take().concat(), expected);
            prop_assert_eq!(buffer.len(), 0);
        }
    }
}
