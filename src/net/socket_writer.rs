//! The sending side of a connection: bytes as they are, and parts of files by sendfile or a [`SplicePipe`].
//!
//! Tells the connection's exchange what the socket took and whether it waits for the peer. What a client sent before it
//! went is still performed, so responses to it are thrown away, and are no errors. One send never keeps a reactor for
//! longer than [`BURST`] bytes take.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};

use bytes::Buf;
use rustix::fs::sendfile;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
use rustix::pipe::{
    PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice,
};
use tokio::io::Interest;

use super::raw_socket::is_again;
use super::socket::{Socket, TlsSession, cut_short};
use crate::http::Region;

/// Bytes sent before other connections of the reactor have their turn: this bounds how long one response can delay
/// them.
pub(super) const BURST: usize = 512 << 10;

/// Bytes up to this length are copied together: one plain send costs less than a vectored one.
const TOGETHER: usize = 2 << 10;

thread_local! {
    /// Where short responses are copied together, on their reactor's thread: [`TOGETHER`] bytes at most.
    static GATHERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The capacity of a splice pipe, in bytes.
const PIPE_CAPACITY: usize = 512 << 10;

/// The shortest region that is spliced, in bytes: a shorter one is sent with less ado by sendfile.
const MIN_SPLICED: usize = 128 << 10;

/// Neither side of a splice blocks.
const FLAGS: SpliceFlags = SpliceFlags::NONBLOCK.union(SpliceFlags::MOVE);

thread_local! {
    static PIPE: RefCell<Option<SplicePipe>> = const { RefCell::new(None) };
}

/// The rest that follows the bytes that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    /// Nothing that is known of: they are to leave at once.
    Nothing,
    /// More bytes, at once: they may wait for these.
    More,
}

/// A peer that is gone is an error, not a signal, and a reactor never waits in the kernel.
const AT_ONCE: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

impl Socket {
    /// Begins a turn of the reactor: after a full burst the others have had theirs.
    pub(super) fn begin_turn(&self) {
        if self.burst.get() >= BURST {
            self.burst.set(0);
        }
    }

    /// Sends of `bufs`, one after the other, what the socket takes: how many bytes. Over TLS what it does not take at
    /// once is encrypted, and [`Socket::poll_flush`] sends it.
    pub(super) fn poll_send(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
        follows: Follows,
    ) -> Poll<io::Result<usize>> {
        let flags = self.flags(follows);
        let all: usize = bufs.iter().map(|buf| buf.len()).sum();
        if self.exchange.has_lost_client() {
            return Poll::Ready(Ok(all));
        }
        if let Some(tls) = self.tls() {
            let encrypt = || tls.borrow_mut().encrypt(bufs);
            return self.poll_send_encrypted(tls, cx, (all, follows), encrypt);
        }
        let polled = if all > TOGETHER {
            self.poll_call(cx, |socket| {
                let mut nothing = SendAncillaryBuffer::default();
                Ok(sendmsg(socket, bufs, &mut nothing, flags)?)
            })
        } else {
            GATHERED.with_borrow_mut(|gathered| {
                gathered.clear();
                for buf in bufs {
                    gathered.extend_from_slice(buf);
                }
                self.poll_call(cx, |socket| Ok(send(socket, gathered, flags)?))
            })
        };
        Poll::Ready(self.count(ready!(polled), all, follows))
    }

    /// Sends all of `rest`, and takes from it what has left.
    pub(super) fn poll_send_whole(
        &self,
        cx: &mut Context<'_>,
        rest: &mut impl Buf,
        follows: Follows,
    ) -> Poll<io::Result<()>> {
        while rest.has_remaining() {
            let sent = ready!(self.poll_send(cx, &[IoSlice::new(rest.chunk())], follows))?;
            rest.advance(sent);
        }
        Poll::Ready(Ok(()))
    }

    fn flags(&self, follows: Follows) -> SendFlags {
        // The last bytes of a connection leave together with its end, in one packet.
        if follows != Follows::Nothing || self.exchange.is_ending() {
            AT_ONCE | SendFlags::MORE
        } else {
            AT_ONCE
        }
    }

    /// Has `encrypt` encrypt bytes of `all`, once what was encrypted before has been sent: how many.
    fn poll_send_encrypted(
        &self,
        tls: &RefCell<TlsSession>,
        cx: &mut Context<'_>,
        (all, follows): (usize, Follows),
        encrypt: impl FnOnce() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let flags = self.flags(follows);
        ready!(self.poll_send_all(tls, cx, flags))?;
        let encrypted = encrypt()?;
        let more = encrypted < all || follows != Follows::Nothing;
        self.exchange.record.sent(encrypted, more);
        // Bytes that the socket does not take now are sent before the next.
        let _ = self.poll_send_all(tls, cx, flags)?;
        Poll::Ready(Ok(encrypted))
    }

    /// Sends all that `tls` has encrypted.
    fn poll_send_all(
        &self,
        tls: &RefCell<TlsSession>,
        cx: &mut Context<'_>,
        flags: SendFlags,
    ) -> Poll<io::Result<()>> {
        while tls.borrow().wants_write() && !self.exchange.has_lost_client() {
            let sent =
                ready!(self.poll_call(cx, |socket| tls.borrow_mut().write_to(socket, flags)));
            self.count_moved(sent, 0)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what is encrypted and has not been sent: without TLS nothing.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.tls() {
            Some(tls) => self.poll_send_all(tls, cx, self.flags(Follows::Nothing)),
            None => Poll::Ready(Ok(())),
        }
    }

    /// Says that nothing follows, over TLS: without it, closing the socket does.
    pub(super) fn poll_close(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(tls) = self.tls() {
            tls.borrow_mut().close();
        }
        self.poll_flush(cx)
    }

    /// Sends of `region` what the socket takes, [`BURST`] bytes at most: how many.
    pub(super) fn poll_send_region(
        &self,
        cx: &mut Context<'_>,
        region: &Region,
        follows: Follows,
    ) -> Poll<io::Result<usize>> {
        if self.exchange.has_lost_client() {
            return Poll::Ready(Ok(region.len));
        }
        if let Some(tls) = self.tls() {
            let all = (region.len, follows);
            let encrypt = || tls.borrow_mut().encrypt_region(region);
            return self.poll_send_encrypted(tls, cx, all, encrypt);
        }
        let sent = ready!(self.poll_call(cx, |socket| send_region(socket, region)));
        Poll::Ready(self.count(sent, region.len, follows))
    }

    /// Counts what was `sent` of `all`, which is thrown away when the client is gone.
    fn count(&self, sent: io::Result<usize>, all: usize, follows: Follows) -> io::Result<usize> {
        let sent = self.count_moved(sent, all)?;
        let more = sent < all || follows != Follows::Nothing;
        self.exchange.record.sent(sent, more);
        Ok(sent)
    }

    /// Counts what was `sent`; `all` when the client is gone.
    fn count_moved(&self, sent: io::Result<usize>, all: usize) -> io::Result<usize> {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut};
        let progress = &self.exchange.progress;
        let sent = match sent {
            Err(error) if matches!(error.kind(), BrokenPipe | ConnectionReset | TimedOut) => {
                progress.writing.set(false);
                self.exchange.lose_client();
                all
            }
            sent => sent?,
        };
        progress.count(sent);
        Ok(sent)
    }

    /// Runs `send` when the socket takes bytes, until it moves some or the socket is full.
    fn poll_call(
        &self,
        cx: &mut Context<'_>,
        mut send: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let progress = &self.exchange.progress;
        if progress.nudged.take() {
            self.raw.nudge();
        }
        if self.raw.has_write_hint.get() {
            match self.raw.with(&mut send) {
                Err(error) if is_again(&error) => {}
                result => {
                    progress.writing.set(false);
                    return Poll::Ready(result);
                }
            }
        }
        let polled = self.raw.poll_io(cx, Interest::WRITABLE, send);
        progress.writing.set(polled.is_pending());
        polled
    }
}

/// One step of `region`; a file that ends before the region does has been cut short by another program.
fn send_region(socket: BorrowedFd<'_>, region: &Region) -> io::Result<usize> {
    let (mut offset, most) = (region.offset, region.len.min(BURST));
    let sent = send_spliced(socket, &region.file, offset, most);
    match sent.unwrap_or_else(|| sendfile(socket, &region.file, Some(&mut offset), most))? {
        0 => Err(cut_short()),
        n => Ok(n),
    }
}

/// The pipe of a reactor's thread, by which long regions go from a file to a socket without a copy.
///
/// sendfile passes 64 KiB at a time; a pipe with more room saves a tenth of the kernel's time. It is empty between two
/// calls: what a socket did not take is dropped, and taken from the file again.
struct SplicePipe {
    into: OwnedFd,
    out: OwnedFd,
    /// `/dev/null`, which dropped bytes go to.
    nowhere: File,
}

/// Makes the splice pipe of this thread: three descriptors, for as long as it runs. Without it all is left to sendfile.
pub(super) fn set_up_splice() {
    PIPE.set(SplicePipe::new().ok());
}

/// Sends up to `most` bytes of `file`, from `offset` on, to a `socket` that does not block: how many it took. `None`
/// when that is for sendfile to do, which also reports what is wrong with a file.
fn send_spliced(
    socket: impl AsFd,
    file: impl AsFd,
    offset: u64,
    most: usize,
) -> Option<Result<usize, Errno>> {
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
    fn new() -> Result<Self, Errno> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        fcntl_setpipe_size(&into, PIPE_CAPACITY)?;
        let nowhere = File::options().write(true).open("/dev/null");
        let nowhere = nowhere.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let is_enough = fcntl_getpipe_size(&into)? >= PIPE_CAPACITY;
        let pipe = Self { into, out, nowhere };
        is_enough.then_some(pipe).ok_or(Errno::PERM)
    }

    fn fill(&self, file: impl AsFd, mut offset: u64, most: usize) -> Option<usize> {
        let most = most.min(PIPE_CAPACITY);
        let filled = splice(file, Some(&mut offset), &self.into, None, most, FLAGS);
        filled.ok().filter(|&filled| filled > 0)
    }

    fn pass(&self, socket: impl AsFd, filled: usize) -> Result<usize, Errno> {
        splice(&self.out, None, socket, None, filled, FLAGS)
    }

    fn drop_rest(&self, mut left: usize) -> Result<(), Errno> {
        while left > 0 {
            match splice(&self.out, None, &self.nowhere, None, left, FLAGS)? {
                0 => return Err(Errno::IO),
                dropped => left -= dropped,
            }
        }
        Ok(())
    }
}

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
        set_up_splice();
        let (ours, mut theirs) = connected();
        let (mut sent, mut refused) = (0, 0);
        let mut received = vec![0; LEN];
        let mut got = 0;
        while sent < LEN {
            match send_spliced(&ours, &file, sent as u64, LEN - sent) {
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
        set_up_splice();
        let (ours, _theirs) = connected();
        let file = tempfile::tempfile().expect("a file");
        assert!(send_spliced(&ours, &file, 0, MIN_SPLICED).is_none());
        let directory = File::open("/").expect("a directory");
        assert!(send_spliced(&ours, &directory, 0, MIN_SPLICED).is_none());
    }
}
