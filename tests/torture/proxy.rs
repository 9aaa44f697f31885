//! A bad network between a client and the server: a TCP proxy that cuts, stalls, slows or resets what passes.
//!
//! It counts what it has passed on, so that a test knows what the server cannot have seen, and how many connections broke.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::thread::JoinHandle;

use socket2::SockRef;

use crate::support::prelude::*;

/// What goes wrong, after so many bytes in that direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// The connection ends in order (FIN), as far as both sides can see.
    Fin(usize),
    /// Both sides are reset.
    Reset(usize),
    /// Nothing passes any more in this direction, and no end either, until the other side has given up or the test lets go.
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
    passed: Arc<Passed>,
    thread: Option<JoinHandle<()>>,
}

/// What has passed a proxy.
#[derive(Debug, Default)]
struct Passed {
    /// Bytes that reached the server at most.
    up: AtomicUsize,
    /// Connections whose fault has come.
    broken: AtomicUsize,
    connections: AtomicUsize,
    /// How many have not ended.
    open: AtomicUsize,
    /// Nothing stalls any more.
    is_let_go: AtomicBool,
}

impl Proxy {
    pub(crate) fn to(server: SocketAddr, faults: Faults) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("its address");
        let passed = Arc::new(Passed::default());
        let counted = Arc::clone(&passed);
        let thread = thread::spawn(move || {
            if let Ok((client, _)) = listener.accept()
                && let Ok(server) = TcpStream::connect(server)
            {
                pass(&client, &server, faults, &counted);
            }
        });
        Self {
            addr,
            passed,
            thread: Some(thread),
        }
    }

    /// Waits until both sides have ended; the bytes that reached the server at most.
    pub(crate) fn passed_up(mut self) -> usize {
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the proxy");
        }
        self.passed.up.load(Ordering::Acquire)
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

/// Passes every connection on, some of them badly, until it is dropped.
pub(crate) struct Relay {
    pub(crate) addr: SocketAddr,
    over: Arc<AtomicBool>,
    passed: Arc<Passed>,
}

impl Relay {
    /// Each connection has the faults that `draw` gives it.
    pub(crate) fn to(
        server: SocketAddr,
        mut draw: impl FnMut() -> Faults + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("its address");
        let (over, passed) = (Arc::<AtomicBool>::default(), Arc::<Passed>::default());
        let (is_over, counted) = (Arc::clone(&over), Arc::clone(&passed));
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept()
                && !is_over.load(Ordering::Acquire)
            {
                let (faults, counted) = (draw(), Arc::clone(&counted));
                counted.open.fetch_add(1, Ordering::AcqRel);
                thread::spawn(move || {
                    if let Ok(server) = TcpStream::connect(server) {
                        pass(&client, &server, faults, &counted);
                    }
                    drop(client);
                    counted.open.fetch_sub(1, Ordering::AcqRel);
                });
            }
        });
        Self { addr, over, passed }
    }

    /// Bytes that reached the server at most, by all connections.
    pub(crate) fn passed_up(&self) -> usize {
        self.passed.up.load(Ordering::Acquire)
    }

    /// Connections so far, and those whose fault has come.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let Passed {
            connections,
            broken,
            ..
        } = &*self.passed;
        let counts = [connections, broken].map(|count| count.load(Ordering::Acquire));
        counts.into()
    }

    /// What has stalled goes on, and nothing stalls any more; waits until all connections have ended.
    #[track_caller]
    pub(crate) fn let_go(&self) {
        self.passed.is_let_go.store(true, Ordering::Release);
        eventually("all connections have ended", || {
            self.passed.open.load(Ordering::Acquire) == 0
        });
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        let _ = TcpStream::connect(self.addr);
    }
}

fn pass(client: &TcpStream, server: &TcpStream, faults: Faults, passed: &Passed) {
    for stream in [client, server] {
        // A pump looks up now and then: its other half may have ended it all.
        let _ = stream.set_read_timeout(Some(Duration::from_millis(20)));
        let _ = stream.set_nodelay(true);
    }
    passed.connections.fetch_add(1, Ordering::AcqRel);
    let (over, down) = (AtomicBool::new(false), AtomicUsize::new(0));
    let came = thread::scope(|scope| {
        let pump = |from, to, fault, count| Pump {
            from,
            to,
            fault,
            count,
            is_let_go: &passed.is_let_go,
            over: &over,
        };
        let up = pump(client, server, faults.up, &passed.up);
        let up = scope.spawn(|| up.run());
        let came_down = pump(server, client, faults.down, &down).run();
        up.join().expect("a pump") || came_down
    });
    if came {
        passed.broken.fetch_add(1, Ordering::AcqRel);
    }
}

/// One direction of a connection.
struct Pump<'a> {
    from: &'a TcpStream,
    to: &'a TcpStream,
    fault: Fault,
    /// Counts what was passed on.
    count: &'a AtomicUsize,
    is_let_go: &'a AtomicBool,
    /// Both directions have ended.
    over: &'a AtomicBool,
}

impl Pump<'_> {
    /// Passes on what `from` says until that ends, or the fault comes; whether it came.
    fn run(mut self) -> bool {
        let (mut from, mut to) = (self.from, self.to);
        let mut buffer = vec![0; 16 << 10];
        let mut sum = 0;
        while !self.over.load(Ordering::Acquire) {
            let room = match self.fault {
                Fault::Fin(at) | Fault::Reset(at) | Fault::Stall(at) => buffer.len().min(at - sum),
                Fault::Trickle(rate) => buffer.len().min(rate / 20 + 1),
                Fault::None | Fault::Flip(_) => buffer.len(),
            };
            if room == 0 {
                self.end(self.fault);
                if self.over.load(Ordering::Acquire) {
                    return true;
                }
                self.fault = Fault::None;
                continue;
            }
            let got = match from.read(&mut buffer[..room]) {
                Ok(0) => {
                    let _ = to.shutdown(Shutdown::Write);
                    return false;
                }
                Ok(got) => got,
                Err(error) if is_pause(&error) => continue,
                Err(_) => {
                    self.end(Fault::Reset(0));
                    return false;
                }
            };
            match self.fault {
                Fault::Flip(at) if (sum..sum + got).contains(&at) => buffer[at - sum] ^= 1,
                Fault::Trickle(_) => thread::sleep(Duration::from_millis(50)),
                _ => {}
            }
            sum += got;
            // Before the bytes themselves: what was counted at the end covers all that the server can have seen.
            self.count.fetch_add(got, Ordering::AcqRel);
            if to.write_all(&buffer[..got]).is_err() {
                self.end(Fault::Reset(0));
                return false;
            }
        }
        false
    }

    /// Lets `fault` come; one that stalls may be let go.
    fn end(&self, fault: Fault) {
        match fault {
            Fault::Stall(_) => {
                // Nothing is read either: the sender's window closes. The other direction sees when somebody gives up.
                while !self.over.load(Ordering::Acquire) && is_open(self.to) {
                    if self.is_let_go.load(Ordering::Acquire) {
                        return;
                    }
                    thread::sleep(Duration::from_millis(20));
                }
            }
            Fault::Reset(_) => {
                for stream in [self.from, self.to] {
                    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
                }
            }
            _ => {
                let _ = self.to.shutdown(Shutdown::Both);
                let _ = self.from.shutdown(Shutdown::Both);
            }
        }
        self.over.store(true, Ordering::Release);
    }
}

/// Whether nothing came in time, and something may come.
fn is_pause(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
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
