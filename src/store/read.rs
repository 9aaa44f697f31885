//! Reading a small value whole, or the beginning of a larger one: at once where the kernel has it in memory, else on a
//! disk thread.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::Stat;
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};

use super::directory_fd::Opened;
use super::value_file::ValueFile;
use crate::transfer::BlockingPool;
use crate::value::{Error, Meta};

/// How often a file is read that another program writes meanwhile.
const TRIES: usize = 3;

/// A small file and all of its bytes, with `stat` from before they were read.
pub(super) struct Read {
    pub(super) fd: OwnedFd,
    pub(super) stat: Stat,
    pub(super) bytes: Bytes,
}

/// Reads all of `opened` without blocking the caller's thread; with `is_memory`, there is nothing to wait for.
pub(super) async fn whole(
    opened: Opened,
    disk: &BlockingPool,
    is_memory: bool,
) -> Result<Read, Error> {
    if is_memory {
        return whole_blocking(opened);
    }
    let mut buf = buffer(&opened.stat);
    let len = buf.len();
    let slices = &mut [IoSliceMut::new(&mut buf)];
    if len == 0 || rustix::io::preadv2(&opened.fd, slices, 0, ReadWriteFlags::NOWAIT) == Ok(len) {
        return Ok(Read {
            fd: opened.fd,
            stat: opened.stat,
            bytes: buf.into(),
        });
    }
    disk.run(move || whole_blocking(opened)).await
}

/// The first `len` bytes of `file`, or fewer where it has become shorter, without blocking the caller's thread.
pub(super) async fn start(
    file: &Arc<ValueFile>,
    len: usize,
    disk: &BlockingPool,
    is_memory: bool,
) -> Result<Vec<u8>, Error> {
    let mut buf = vec![0; len];
    if is_memory {
        let filled = fill(&**file, &mut buf)?;
        buf.truncate(filled);
        return Ok(buf);
    }
    let slices = &mut [IoSliceMut::new(&mut buf)];
    if len == 0 || rustix::io::preadv2(&**file, slices, 0, ReadWriteFlags::NOWAIT) == Ok(len) {
        return Ok(buf);
    }
    let file = Arc::clone(file);
    let read = move || {
        let filled = fill(&*file, &mut buf)?;
        buf.truncate(filled);
        Ok(buf)
    };
    disk.run(read).await
}

/// Reads all of `opened`. Blocks.
pub(super) fn whole_blocking(Opened { fd, mut stat }: Opened) -> Result<Read, Error> {
    for _ in 0..TRIES {
        let mut buf = buffer(&stat);
        if fill(&fd, &mut buf)? == buf.len() {
            return Ok(Read {
                fd,
                stat,
                bytes: buf.into(),
            });
        }
        stat = retry_on_intr(|| rustix::fs::fstat(&fd)).map_err(Error::errno_while("stat"))?;
    }
    Err(Error::Truncated)
}

fn buffer(stat: &Stat) -> Vec<u8> {
    vec![0; usize::try_from(Meta::of(stat).len).unwrap_or(usize::MAX)]
}

/// Reads until `buf` is full or the file ends; how much was read.
fn fill(fd: impl AsFd, buf: &mut [u8]) -> Result<usize, Error> {
    let mut filled = 0;
    while filled < buf.len() {
        match rustix::io::pread(&fd, &mut buf[filled..], filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::new("read", errno)),
        }
    }
    Ok(filled)
}
