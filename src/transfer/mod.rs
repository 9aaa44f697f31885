//! The ways of a value's bytes, whichever engine keeps it: threads that may wait, pipes, buffers, digests on the way, the quota of
//! uploads, and the sizes at which a value is handled in another way. It knows no key.
//!
//! A value on its way in stays in memory up to [`SMALL`] and lies in a temporary file beyond. A value on its way out is answered from
//! memory up to [`IN_MEMORY`] and from its file beyond.

mod pipes;
mod quota;
mod receiver;
mod threads;

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

pub use pipes::{BodySource, Pipe, Piped, Pipes, read};
pub use quota::{
    InFlight, Reservation, ReservationHandle, StagingBounds, StagingQuota, UPLOADS_OF_ONE, Uploader,
};
pub use receiver::{Hashing, Receiver, WriteBuffer, hash_file, write_at};
pub use threads::{BlockingPool, spawn_vital};

/// The longest value that is answered from memory: copying more costs more than having the kernel send it from its own
/// cache.
pub const IN_MEMORY: u64 = 16 << 10;

/// The longest upload that stays in memory until it is published. Up to this length, and without a bound on what may be
/// staged, an upload touches neither a file nor a shared counter before the publisher has it.
pub const SMALL: u64 = 64 << 10;

/// Whether a value of this length goes to a file before it is whole.
pub fn is_large(len: u64) -> bool {
    len > SMALL
}

/// The size of one write to a temporary file, and of one read of a file that is hashed: large enough that the hand-over to
/// another thread is a small part of the cost. An upload buffers at most two of these.
pub const CHUNK: usize = 256 << 10;

/// Received runs of bytes shorter than this are copied together: each run that is kept holds on to the whole receive
/// buffer that it lies in.
pub const COPIED: usize = 16 << 10;

/// How far the reservation of an upload of unknown length grows at a time: as far as its next write goes.
pub const RESERVED_AT_ONCE: u64 = CHUNK as u64;

/// Freeing the blocks of a file longer than this takes long enough to delay others on the same thread: the disk threads
/// close it.
pub const SLOW_TO_FREE: u64 = 256 << 10;

/// A file of up to this length that was removed by hand may stay on the disk until its key is next read or it falls out of
/// the cache; the next sweep of the cache gives up a longer one.
pub const NEGLIGIBLE: u64 = 64 << 10;

/// 128 bits that cannot be guessed.
pub fn random() -> Result<u128, Errno> {
    let mut bytes = [0; 16];
    match getrandom(&mut bytes, GetRandomFlags::empty())? {
        16 => Ok(u128::from_ne_bytes(bytes)),
        _ => Err(Errno::IO),
    }
}
