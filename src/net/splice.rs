//! Long regions of files on their way to a socket, by way of a pipe: what sendfile does, in larger steps.
//!
//! sendfile passes 64 KiB at a time from the file to the socket. A pipe with more room saves a tenth of the kernel's time.
//! Each reactor's thread has one such pipe, which is empty between two calls: what a socket did not take is dropped, and
//! taken from the file again. No byte is copied. sendfile reports what is wrong with a file.

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::{Errno, Result};
use rustix::pipe::{
    PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice,
};

/// The capacity of a pipe, in bytes.
const CAPACITY: usize = 512 << 10;

/// The shortest region that is spliced, in bytes: a shorter one is sent with less ado by sendfile.
const MIN_SPLICED: usize = 128 << 10;

thread_local! {
    static PIPE: RefCell<Option<SplicePipe>> = const { RefCell::new(None) };
}

/// The pipe of a reactor's thread.
struct SplicePipe {
    into: OwnedFd,
    out: OwnedFd,
    /// Takes what is dropped.
    nowhere: File,
}

/// Makes one for this thread: two descriptors and a third, for as long as it runs. Without it all is left to sendfile.
pub(super) fn set_up() {
    PIPE.set(SplicePipe::new().ok());
}

/// Sends up to `most` bytes of `file`, from `offset` on, to a `socket` that does not block: how many it took. `None` when
/// that is for sendfile to do.
pub(super) fn send(
    socket: impl AsFd,
    file: impl AsFd,
    offset: u64,
    most: usize,
) -> Option<Result<usize>> {
    if most < MIN_SPLICED {
        return None;
    }
    PIPE.with_borrow_mut(|place| {
        let pipe = place.as_ref()?;
        let filled = pipe.fill(file, offset, most)?;
        let sent = pipe.pass(socket, filled);
        if pipe.drop_rest(filled - sent.unwrap_or(0)).is_err() {
            *place = SplicePipe::new().ok();
        }
        Some(sent)
    })
}

impl SplicePipe {
    fn new() -> Result<Self> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        fcntl_setpipe_size(&into, CAPACITY)?;
        let nowhere = File::options().write(true).open("/dev/null");
        let nowhere = nowhere.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let is_enough = fcntl_getpipe_size(&into)? >= CAPACITY;
        let pipe = Self { into, out, nowhere };
        is_enough.then_some(pipe).ok_or(Errno::PERM)
    }

    fn fill(&self, file: impl AsFd, mut offset: u64, most: usize) -> Option<usize> {
        let most = most.min(CAPACITY);
        let filled = splice(file, Some(&mut offset), &self.into, None, most, FLAGS);
        filled.ok().filter(|&filled| filled > 0)
    }

    fn pass(&self, socket: impl AsFd, filled: usize) -> Result<usize> {
        splice(&self.out, None, socket, None, filled, FLAGS)
    }

    fn drop_rest(&self, mut left: usize) -> Result<()> {
        while left > 0 {
            match splice(&self.out, None, &self.nowhere, None, left, FLAGS)? {
                0 => return Err(Errno::IO),
                dropped => left -= dropped,
            }
        }
        Ok(())
    }
}

const FLAGS: SpliceFlags = SpliceFlags::NONBLOCK.union(SpliceFlags::MOVE);

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let ours = TcpStream::connect(listener.local_addr().expect("an address")).expect("one end");
        ours.set_nonblocking(true).expect("no waiting");
        (ours, listener.accept().expect("the other end").0)
    }

    #[test]
    fn what_a_socket_does_not_take_is_taken_from_the_file_again() {
        const LEN: usize = 20 << 20;
        let value: Vec<u8> = (0..=250).cycle().take(LEN).collect();
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&value).expect("a value");
        file.rewind().expect("its start");
        set_up();
        let (ours, mut theirs) = connected();
        let (mut sent, mut refused) = (0, 0);
        let mut received = vec![0; LEN];
        let mut got = 0;
        while sent < LEN {
            match send(&ours, &file, sent as u64, LEN - sent) {
                None => sent += rest_of(&ours, &file, sent as u64, LEN - sent),
                Some(Ok(n)) => sent += n,
                Some(Err(errno)) => {
                    assert_eq!(errno, Errno::AGAIN);
                    refused += 1;
                    // Not all that is on its way: the next send meets a socket with little room.
                    let most = got + (sent - got) * 2 / 3;
                    theirs.read_exact(&mut received[got..most]).expect("bytes");
                    got = most;
                }
            }
        }
        drop(ours);
        theirs.read_exact(&mut received[got..]).expect("the rest");
        assert!(refused > 1, "the socket took everything at once");
        assert!(received == value);
        PIPE.with_borrow(|pipe| {
            let out = &pipe.as_ref().expect("a pipe").out;
            assert_eq!(rustix::io::ioctl_fionread(out), Ok(0), "bytes stay behind");
        });
    }

    fn rest_of(socket: &TcpStream, file: &File, mut offset: u64, most: usize) -> usize {
        assert!(most < MIN_SPLICED);
        rustix::fs::sendfile(socket, file, Some(&mut offset), most).unwrap_or(0)
    }

    #[test]
    fn an_end_and_a_file_without_pages_are_left_to_sendfile() {
        set_up();
        let (ours, _theirs) = connected();
        let file = tempfile::tempfile().expect("a file");
        assert!(send(&ours, &file, 0, MIN_SPLICED).is_none());
        let directory = File::open("/").expect("a directory");
        assert!(send(&ours, &directory, 0, MIN_SPLICED).is_none());
    }
}
