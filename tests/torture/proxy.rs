//! A bad network between a client and the server: a TCP proxy that cuts, stalls, slows or resets what passes.
//!
//! It counts what it has passed on, so that a test knows what the server cannot have seen.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socket2::SockRef;

/// What goes wrong, after so many bytes in that direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// The connection ends in order (FIN), as far as both sides can see.
    Fin(usize),
    /// Both sides are reset.
    Reset(usize),
    /// Nothing passes any more in this direction, and no end either, until the other side has given up.
    Stall(usize),
    /// Passes this many bytes a second, and all of them in the end.
    Trickle(usize),
    /// One bit of the byte at this place is turned.
    Flip(usize),
}

/// The directions, and what goes wrong in them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    pub(crate) up: Fault,
    pub(crate) down: Fault,
}

/// Passes one connection on, badly.
pub(crate) struct Proxy {
    pub(crate) addr: SocketAddr,
    passed_up: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    pub(crate) fn to(server: SocketAddr, faults: Faults) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("its address");
        let passed_up = Arc::new(AtomicUsize::new(0));
        let passed = Arc::clone(&passed_up);
        let thread = thread::spawn(move || {
            if let Ok((client, _)) = listener.accept()
                && let Ok(server) = TcpStream::connect(server)
            {
                pass(&client, &server, faults, &passed);
            }
        });
        Self {
            addr,
            passed_up,
            thread: Some(thread),
        }
    }

    /// Waits until both sides have ended; the bytes that reached the server at most.
    pub(crate) fn passed_up(mut self) -> usize {
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the proxy");
        }
        self.passed_up.load(Ordering::Acquire)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // It may wait for a client that never came.
            let _ = TcpStream::connect(self.addr);
            let _ = thread.join();
        }
    }
}

fn pass(client: &TcpStream, server: &TcpStream, faults: Faults, passed_up: &AtomicUsize) {
    for stream in [client, server] {
        // A pump looks up now and then: its other half may have ended it all.
        let _ = stream.set_read_timeout(Some(Duration::from_millis(20)));
        let _ = stream.set_nodelay(true);
    }
    let (over, passed_down) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| pump(client, server, faults.up, passed_up, &over));
        pump(server, client, faults.down, &passed_down, &over);
    });
}

/// Passes on what `from` says until that ends, or the fault comes.
fn pump(
    mut from: &TcpStream,
    mut to: &TcpStream,
    fault: Fault,
    passed: &AtomicUsize,
    over: &AtomicBool,
) {
    let mut buffer = vec![0; 16 << 10];
    let mut sum = 0;
    while !over.load(Ordering::Acquire) {
        let room = match fault {
            Fault::Fin(at) | Fault::Reset(at) | Fault::Stall(at) => buffer.len().min(at - sum),
            Fault::Trickle(rate) => buffer.len().min(rate / 20 + 1),
            Fault::None | Fault::Flip(_) => buffer.len(),
        };
        if room == 0 {
            return end(from, to, fault, over);
        }
        let got = match from.read(&mut buffer[..room]) {
            Ok(0) => {
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
            Ok(got) => got,
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                continue;
            }
            Err(_) => return end(from, to, Fault::Reset(0), over),
        };
        match fault {
            Fault::Flip(at) if (sum..sum + got).contains(&at) => buffer[at - sum] ^= 1,
            Fault::Trickle(_) => thread::sleep(Duration::from_millis(50)),
            _ => {}
        }
        sum += got;
        // Before the bytes themselves: what was counted at the end covers all that the server can have seen.
        passed.store(sum, Ordering::Release);
        if to.write_all(&buffer[..got]).is_err() {
            return end(from, to, Fault::Reset(0), over);
        }
    }
}

fn end(from: &TcpStream, to: &TcpStream, fault: Fault, over: &AtomicBool) {
    match fault {
        Fault::Stall(_) => {
            // Nothing is read either: the sender's window closes. The other direction sees when somebody gives up.
            while !over.load(Ordering::Acquire) && is_open(to) {
                thread::sleep(Duration::from_millis(20));
            }
            over.store(true, Ordering::Release);
        }
        Fault::Reset(_) => {
            for stream in [from, to] {
                let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
            }
            over.store(true, Ordering::Release);
        }
        _ => {
            let _ = to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
            over.store(true, Ordering::Release);
        }
    }
}

/// Whether the peer of `stream` has neither ended nor reset the connection.
fn is_open(stream: &TcpStream) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let watched = PollFlags::RDHUP;
    let mut fds = [PollFd::new(stream, watched)];
    let now = Timespec::default();
    let ended = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    poll(&mut fds, Some(&now)).is_ok() && !fds[0].revents().intersects(ended)
}
