//! A way to the server that lets so many bytes of requests through, and the rest when it is told to: an upload through
//! it stands still for as long as the test looks at it.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::Condvar;

use crate::support::prelude::*;

/// Relays connections to a server, in threads that end with their connections.
pub(crate) struct Relay {
    accepting: Accepting,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    /// Bytes that each connection may still send; `None` is any number.
    limit: Mutex<Option<usize>>,
    opened: Condvar,
    /// Each connection, to be cut.
    passing: Mutex<Vec<TcpStream>>,
}

impl Relay {
    /// Lets `limit` bytes of each connection through.
    pub(crate) fn to(server: SocketAddr, limit: usize) -> Self {
        let gate = Arc::new(Gate {
            limit: Mutex::new(Some(limit)),
            opened: Condvar::new(),
            passing: Mutex::default(),
        });
        let shared = Arc::clone(&gate);
        let accepting = Accepting::with(move |client| {
            let Ok(server) = TcpStream::connect(server) else {
                return;
            };
            let gate = Arc::clone(&shared);
            gate.keep(clone(&client));
            let (from, to) = (clone(&client), clone(&server));
            thread::spawn(move || gate.pass(from, to));
            thread::spawn(move || copy(server, client));
        });
        Self { accepting, gate }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.accepting.addr
    }

    /// Ends each connection, as a network that breaks off does. Later ones pass so many bytes.
    pub(crate) fn cut(&self, limit: Option<usize>) {
        *self.gate.limit.lock().expect("no panic under the lock") = limit;
        let mut passing = self.gate.passing.lock().expect("no panic under the lock");
        for connection in passing.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
        self.gate.opened.notify_all();
    }

    /// Lets everything through.
    pub(crate) fn open(&self) {
        *self.gate.limit.lock().expect("no panic under the lock") = None;
        self.gate.opened.notify_all();
    }
}

impl Gate {
    fn keep(&self, connection: TcpStream) {
        let mut passing = self.passing.lock().expect("no panic under the lock");
        passing.push(connection);
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = vec![0; 64 << 10];
        let mut passed = 0;
        while let Ok(got @ 1..) = from.read(&mut buffer) {
            if to.write_all(&buffer[..got]).is_err() {
                break;
            }
            passed += got;
            let mut limit = self.limit.lock().expect("no panic under the lock");
            let is_shut = |limit: &mut Option<usize>| {
                limit.is_some_and(|limit| passed >= limit) && !is_gone(&from)
            };
            // Wakes now and then to see whether the client has left meanwhile.
            while is_shut(&mut limit) {
                let woken = self.opened.wait_timeout(limit, Duration::from_millis(50));
                limit = woken.expect("no panic under the lock").0;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    }
}

/// Whether the client has closed; what it sent before may still lie there unread.
fn is_gone(client: &TcpStream) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut ends = [PollFd::new(client, PollFlags::RDHUP)];
    poll(&mut ends, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
}

fn clone(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("a second handle")
}
