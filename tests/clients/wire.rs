//! A relay that counts requests and responses of HTTP/2 on the wire: what a client of a server that restarts has lost.
//!
//! h2load cannot tell: it counts a request as started that its library then does not send, behind a GOAWAY. A request
//! is lost that the server was sent, that no GOAWAY leaves to the client to send again, and that has no response to its
//! end (RFC 9113, sections 5.1 and 6.8).

use std::net::Shutdown;

use crate::support::frames::{DATA, END_STREAM, Frame, GOAWAY, HEADERS, frame};
use crate::support::prelude::*;

const PREFACE: usize = 24;
/// What has passed of one connection.
#[derive(Debug)]
struct Streams {
    asked: BTreeSet<u32>,
    answered: BTreeSet<u32>,
    /// The last stream that the server has not left to the client to send again.
    last: u32,
}

/// All connections of one client.
pub struct Wire {
    accepting: Accepting,
    ended: Arc<Mutex<Vec<Streams>>>,
    open: Arc<AtomicUsize>,
}

impl Wire {
    pub fn to(server: SocketAddr) -> Self {
        let ended = Arc::<Mutex<Vec<Streams>>>::default();
        let open = Arc::<AtomicUsize>::default();
        let (all, now) = (Arc::clone(&ended), Arc::clone(&open));
        let accepting = Accepting::with(move |client| {
            let (all, now) = (Arc::clone(&all), Arc::clone(&now));
            now.fetch_add(1, Ordering::AcqRel);
            thread::spawn(move || {
                if let Ok(server) = TcpStream::connect(server) {
                    let streams = pass(&client, &server);
                    all.lock().expect("no panic").push(streams);
                }
                drop(client);
                now.fetch_sub(1, Ordering::AcqRel);
            });
        });
        Self {
            accepting,
            ended,
            open,
        }
    }

    pub fn addr(&self) -> SocketAddr {
        self.accepting.addr
    }

    /// Once all connections have ended: how many requests were sent, and which were lost, by connection.
    #[track_caller]
    pub fn end(self) -> (usize, Vec<Vec<u32>>) {
        let open = || self.open.load(Ordering::Acquire);
        eventually("all connections have ended", || open() == 0);
        let ended = self.ended.lock().expect("no panic");
        let lost = ended.iter().map(|of| {
            let lost = of.asked.difference(&of.answered);
            lost.copied().filter(|id| *id <= of.last).collect()
        });
        let lost = lost.filter(|lost: &Vec<u32>| !lost.is_empty()).collect();
        (ended.iter().map(|of| of.asked.len()).sum(), lost)
    }
}

fn pass(client: &TcpStream, server: &TcpStream) -> Streams {
    let (mut asked, mut answered, mut last) = (BTreeSet::new(), BTreeSet::new(), u32::MAX);
    thread::scope(|scope| {
        scope.spawn(|| {
            pump(client, server, PREFACE, |frame| {
                if frame.kind == HEADERS {
                    asked.insert(frame.stream);
                }
            });
        });
        pump(server, client, 0, |frame| {
            if frame.ends_stream() {
                answered.insert(frame.stream);
            }
            if frame.kind == GOAWAY {
                last = frame.number(0);
            }
        });
        // What the client still sends, the server has not got.
        let _ = client.shutdown(Shutdown::Read);
    });
    Streams {
        asked,
        answered,
        last,
    }
}

/// Passes on what `from` says until one of the two ends, and each of its frames to `see`, once it was passed on.
fn pump(mut from: &TcpStream, mut to: &TcpStream, mut before: usize, mut see: impl FnMut(Frame)) {
    let (mut buffer, mut rest) = (vec![0; 16 << 10], Vec::new());
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
        rest.extend_from_slice(&buffer[..read]);
        let skipped = before.min(rest.len());
        rest.drain(..skipped);
        before -= skipped;
        while let Some(frame) = Frame::first_of(&mut rest) {
            see(frame);
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// A request that the server drops is found, and one that a GOAWAY leaves to the client is none.
#[test]
fn a_lost_request_is_found_on_the_wire() {
    for (last, expected) in [(7_u32, vec![vec![3, 5]]), (3, vec![vec![3]]), (1, vec![])] {
        let answer = [
            frame(HEADERS, 4, 1, &[0x88]),
            frame(DATA, END_STREAM, 1, b"v"),
            frame(GOAWAY, 0, 0, &[last.to_be_bytes(), [0; 4]].concat()),
        ];
        let answer = answer.concat();
        let ask: Vec<u8> = [1, 3, 5].map(|id| frame(HEADERS, 5, id, &[0x82])).concat();
        let len = PREFACE + ask.len();
        let server = Accepting::with(move |mut client| {
            let mut asked = vec![0; len];
            client.read_exact(&mut asked).expect("requests");
            client.write_all(&answer).expect("a client");
        });
        let wire = Wire::to(server.addr);
        let mut client = TcpStream::connect(wire.addr()).expect("the relay");
        client.write_all(&[0; PREFACE]).expect("the relay");
        client.write_all(&ask).expect("the relay");
        let mut answered = Vec::new();
        client.read_to_end(&mut answered).expect("the answer");
        drop(client);
        assert_eq!(wire.end(), (3, expected));
    }
}
