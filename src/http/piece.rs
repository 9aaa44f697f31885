//! The pieces of a body, as a connection sends them: bytes, or a region of a file; and the chunks that hyper gets of
//! them.
//!
//! A chunk is bytes, or a hole: the connection sends a region of a file in its place. hyper counts and orders the bytes
//! of a hole like any others, and never looks at them; the connection finds the hole among what it is to write
//! ([`is_hole`]), and sends the region in its place that waits in the connection's state.

use std::sync::LazyLock;

use bytes::{Buf, Bytes};

use crate::store::Descriptor;

/// Bytes of a file, to be sent from it.
#[derive(Debug)]
pub struct Region {
    /// The file.
    pub file: Descriptor,
    /// The place of the first byte.
    pub offset: u64,
    /// The length in bytes, never 0.
    pub len: usize,
}

impl Region {
    /// Removes its first `n` bytes, which have been sent.
    pub fn advance(&mut self, n: usize) {
        self.offset += n as u64;
        self.len -= n;
    }
}

/// A piece of a body, as the connection sends it.
#[derive(Debug)]
pub enum Piece {
    /// Bytes in memory.
    Bytes(Bytes),
    /// Bytes of a file.
    Region(Region),
}

impl Piece {
    /// True once all of it has been sent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes its first `n` bytes, which have been sent.
    pub fn advance(&mut self, n: usize) {
        match self {
            Self::Bytes(bytes) => bytes.advance(n),
            Self::Region(region) => region.advance(n),
        }
    }

    /// Its length, in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Region(region) => region.len,
        }
    }
}

/// The longest slice that hyper gets of a hole, in bytes.
const MAX_SLICE: usize = 512 << 10;

/// Zeros that no code reads or writes, so that the kernel gives no memory for them.
static HOLE: LazyLock<Box<[u8]>> = LazyLock::new(|| vec![0; MAX_SLICE].into());

/// A chunk that hyper is given of a body.
#[derive(Debug)]
pub enum Chunk {
    Bytes(Bytes),
    /// A hole of this length in bytes, in place of the region that waits.
    Hole(usize),
}

/// True where `bytes` are of a hole, and not to be sent.
pub fn is_hole(bytes: &[u8]) -> bool {
    HOLE.as_ptr_range().contains(&bytes.as_ptr())
}

impl Buf for Chunk {
    fn remaining(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Hole(len) => *len,
        }
    }

    fn chunk(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Hole(len) => &HOLE[..(*len).min(MAX_SLICE)],
        }
    }

    fn advance(&mut self, n: usize) {
        match self {
            Self::Bytes(bytes) => bytes.advance(n),
            Self::Hole(len) => *len -= n,
        }
    }
}
