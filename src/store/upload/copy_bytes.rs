//! Bytes of one file as those of another, by the kernel where it can, else by hand. Blocks.

use std::ops::Range;

use rustix::io::{Errno, retry_on_intr};

use crate::store::value_file::ValueFile;
use crate::transfer::{CHUNK, read_at, write_at};
use crate::value::Error;

/// Copies these bytes of one file to another, from this offset on. Blocks.
pub fn copy_range(
    from: &ValueFile,
    to: &ValueFile,
    range: Range<u64>,
    mut written_at: u64,
) -> Result<(), Error> {
    let mut read_at = range.start;
    while read_at < range.end {
        let left = usize::try_from(range.end - read_at).unwrap_or(usize::MAX);
        let copied = retry_on_intr(|| {
            let (input, output) = (Some(&mut read_at), Some(&mut written_at));
            rustix::fs::copy_file_range(from, input, to, output, left)
        });
        match copied {
            Ok(0) => return Err(Error::Truncated),
            Ok(_) => {}
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                return copy_by_hand(from, to, read_at..range.end, written_at);
            }
            Err(errno) => return Err(Error::new("copy", errno)),
        }
    }
    Ok(())
}

/// As [`copy_range`], by reads and writes: for file systems that the kernel does not copy between.
fn copy_by_hand(
    from: &ValueFile,
    to: &ValueFile,
    range: Range<u64>,
    mut written_at: u64,
) -> Result<(), Error> {
    let mut at = range.start;
    while at < range.end {
        let most = usize::try_from(range.end - at).map_or(CHUNK, |left| left.min(CHUNK));
        let mut buffer = vec![0; most];
        let read = read_at(from, at, &mut buffer)?;
        buffer.truncate(read);
        let len = buffer.len() as u64;
        write_at(to, written_at, &[buffer.into()])?;
        (at, written_at) = (at + len, written_at + len);
    }
    Ok(())
}
