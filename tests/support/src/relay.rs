//! A bad network between a client and the server: a TCP proxy that cuts, stalls, slows or resets what passes.
//!
//! It counts what it has passed on, so that a test knows what the server cannot have seen, and how many connections
//! broke.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, SockRef, Socket, Type};

use crate::prelude::*;

/// What goes wrong, after so many bytes in that direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The connection ends in order (FIN), as far as both sides can see.
    Fin(usize),
    /// Both sides are reset.
    Reset(usize),
    /// Nothing passes any more in this direction, and no end either, until the other side has given up or the test lets
    /// go.
    Stall(usize),
    /// Passes this many bytes a second, and all of them in the end; little is on the way.
    Trickle(usize),
}

/// The directions, and what goes wrong in them.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub up: Fault,
    pub down: Fault,
}

/// Everything passes.
pub const GOOD: Faults = Faults {
    up: Fault::None,
    down: Fault::None,
};

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
    /// How often all were cut.
    cuts: AtomicUsize,
    /// Nothing stalls any more.
    is_let_go: AtomicBool,
}

/// Passes every connection on, some of them badly, until it is dropped.
pub struct Relay {
    accepting: Accepting,
    passed: Arc<Passed>,
}

impl Relay {
    /// Each connection has the faults that `draw` gives it.
    pub fn to(server: SocketAddr, mut draw: impl FnMut() -> Faults + Send + 'static) -> Self {
        let passed = Arc::<Passed>::default();
        let counted = Arc::clone(&passed);
        let accepting = Accepting::with(move |client| {
            let (faults, counted) = (draw(), Arc::clone(&counted));
            counted.open.fetch_add(1, Ordering::AcqRel);
            thread::spawn(move || {
                if let Ok(server) = connect(server, faults) {
                    pass(&client, &server, faults, &counted);
                }
                drop(client);
                counted.open.fetch_sub(1, Ordering::AcqRel);
            });
        });
        Self { accepting, passed }
    }

    /// Each connection stalls after so many bytes for the server.
    pub fn stalling(server: SocketAddr, at: usize) -> Self {
        let up = Fault::Stall(at);
        Self::to(server, move || Faults { up, ..GOOD })
    }

    pub fn addr(&self) -> SocketAddr {
        self.accepting.addr
    }

    /// Bytes that reached the server at most, by all connections.
    pub fn passed_up(&self) -> usize {
        self.passed.up.load(Ordering::Acquire)
    }

    /// Connections so far, and those whose fault has come.
    pub fn counts(&self) -> (usize, usize) {
        let counts = [&self.passed.connections, &self.passed.broken];
        counts.map(|count| count.load(Ordering::Acquire)).into()
    }

    /// What has stalled goes on, and nothing stalls any more.
    pub fn let_go(&self) {
        self.passed.is_let_go.store(true, Ordering::Release);
    }

    /// Ends each connection, as a network that breaks off does.
    pub fn cut(&self) {
        self.passed.cuts.fetch_add(1, Ordering::AcqRel);
    }

    /// Waits until all connections have ended.
    #[track_caller]
    pub fn end(&self) {
        let open = || self.passed.open.load(Ordering::Acquire);
        eventually("all connections have ended", || open() == 0);
    }
}

/// A connection to the server; a slow link holds little itself.
fn connect(server: SocketAddr, faults: Faults) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM, None)?;
    if matches!(faults.down, Fault::Trickle(_)) {
        socket.set_recv_buffer_size(16 << 10)?;
    }
    socket.connect(&server.into())?;
    Ok(socket.into())
}

fn pass(client: &TcpStream, server: &TcpStream, faults: Faults, passed: &Passed) {
    for stream in [client, server] {
        // A pump looks up now and then: its other half may have ended it all.
        let _ = stream.set_read_timeout(Some(Duration::from_millis(20)));
        let _ = stream.set_nodelay(true);
    }
    passed.connections.fetch_add(1, Ordering::AcqRel);
    let (over, down) = (AtomicBool::new(false), AtomicUsize::new(0));
    let cuts = passed.cuts.load(Ordering::Acquire);
    let came = thread::scope(|scope| {
        let pump = |from, to, fault, count| Pump {
            from,
            to,
            fault,
            count,
            passed,
            cuts,
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
    passed: &'a Passed,
    /// How often all were cut before this one came.
    cuts: usize,
    /// Both directions have ended.
    over: &'a AtomicBool,
}

impl Pump<'_> {
    /// Passes on what `from` says until that ends, or the fault comes; whether it came.
    fn run(mut self) -> bool {
        let (mut from, mut to) = (self.from, self.to);
        let mut buffer = vec![0; 16 << 10];
        let mut sum = 0;
        while !self.is_over() {
            let room = match self.fault {
                Fault::Fin(at) | Fault::Reset(at) | Fault::Stall(at) => buffer.len().min(at - sum),
                Fault::Trickle(rate) => buffer.len().min(rate / 20 + 1),
                Fault::None => buffer.len(),
            };
            if room == 0 {
                self.end(self.fault);
                if self.is_over() {
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
            if matches!(self.fault, Fault::Trickle(_)) {
                thread::sleep(Duration::from_millis(50));
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

    fn is_over(&self) -> bool {
        let is_cut = self.passed.cuts.load(Ordering::Acquire) > self.cuts;
        is_cut || self.over.load(Ordering::Acquire)
    }

    /// Lets `fault` come; one that stalls may be let go.
    fn end(&self, fault: Fault) {
        match fault {
            Fault::Stall(_) => {
                // Nothing is read either: the sender's window closes. The other direction sees when somebody gives up.
                while !self.is_over() && is_open(self.to) {
                    if self.passed.is_let_go.load(Ordering::Acquire) {
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
    let mut fds = [PollFd::new(stream, PollFlags::RDHUP)];
    let ended = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    let looked = poll(&mut fds, Some(&Timespec::default()));
    looked.is_ok() && !fds[0].revents().intersects(ended)
}
