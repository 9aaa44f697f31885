//! The bytes of a response as frames take them: from memory, from a file, or from a pipe.

use std::io;

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::io::pread;

use crate::http::{Piece, Region};
use crate::net::tls_session::cut_short;

/// Takes `len` bytes of `piece`; fewer where it has fewer at hand, never none.
pub(super) fn take(piece: &mut Piece, len: usize) -> io::Result<Bytes> {
    match piece {
        Piece::Bytes(bytes) => Ok(bytes.split_to(len)),
        Piece::Region(region) => {
            let bytes = read(region, len)?;
            region.offset += bytes.len() as u64;
            region.len -= bytes.len();
            Ok(bytes)
        }
        Piece::Piped(piped) => {
            let mut bytes = vec![0; len];
            let read = piped.read(&mut bytes)?;
            bytes.truncate(read);
            piped.len -= read;
            if read == 0 {
                Err(cut_short())
            } else {
                Ok(bytes.into())
            }
        }
    }
}

/// The first bytes of `region`. Its pages are in memory: the body sees to that.
fn read(region: &Region, len: usize) -> io::Result<Bytes> {
    let mut bytes = Vec::with_capacity(len);
    match pread(&region.file, spare_capacity(&mut bytes), region.offset)? {
        0 => Err(cut_short()),
        _ => Ok(bytes.into()),
    }
}
