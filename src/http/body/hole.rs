//! What hyper is given of a body: bytes, or a hole of so many, where the connection sends bytes that lie in no memory of this
//! process.
//!
//! hyper counts and orders the bytes of a hole like any others, and never looks at them. The connection finds the hole among what it
//! is to write ([`is_hole`]), and sends the piece in its place that waits in the connection's state.

use std::sync::LazyLock;

use bytes::{Buf, Bytes};

/// The most bytes of a hole that are shown at once.
const SHOWN: usize = 512 << 10;

/// Zeros that no code reads or writes, so that the kernel gives no memory for them.
static HOLE: LazyLock<Box<[u8]>> = LazyLock::new(|| vec![0; SHOWN].into());

/// See the module.
#[derive(Debug)]
pub enum Chunk {
    /// These bytes.
    Bytes(Bytes),
    /// So many of the piece that waits.
    Hole(usize),
}

/// Whether `bytes` are of a hole, and not to be sent.
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
            Self::Hole(len) => &HOLE[..(*len).min(SHOWN)],
        }
    }

    fn advance(&mut self, n: usize) {
        match self {
            Self::Bytes(bytes) => bytes.advance(n),
            Self::Hole(len) => *len -= n,
        }
    }
}
