//! A restart with a socket that is passed fails no request of clients that have several on one connection: a server says by
//! GOAWAY which of them it has read, and answers those.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use h2::Reason;

use super::launch;
use crate::support::{Asked, DataDir, Done, Http2, eventually, held_socket, pattern};

/// Requests of a client at once.
const AT_ONCE: u64 = 4;

/// A client with one connection, until the server takes no more requests on it.
struct Steady<'a> {
    addr: SocketAddr,
    answered: &'a AtomicU64,
}

impl Steady<'_> {
    /// Writes and reads keys of its own until `done`; each read must return the last write.
    fn run(&self, number: u64, done: &Done) -> Result<(), String> {
        let mut client = Http2::connect(self.addr);
        for round in 0.. {
            if done.is_said() {
                break;
            }
            let value = pattern(
                number * 1_000_000 + round,
                if round % 2 == 0 { 100 } else { 20_000 },
            );
            self.all(&mut client, "PUT", number, &value)?;
            self.all(&mut client, "GET", number, &value)?;
        }
        Ok(())
    }

    /// Asks for all keys at once, and checks the answers.
    fn all(&self, client: &mut Http2, method: &str, n: u64, value: &[u8]) -> Result<(), String> {
        let mut left: Vec<_> = (0..AT_ONCE)
            .map(|key| format!("http://t/k{n}-{key}"))
            .collect();
        for _ in 0..3 {
            let begun: Vec<_> = left
                .drain(..)
                .map(|uri| {
                    let asked = begin(client, method, &uri, value);
                    (uri, asked)
                })
                .collect();
            for (uri, asked) in begun {
                match asked.and_then(Asked::answer) {
                    Ok(got) if got.status == 200 && (method == "PUT" || got.body == value) => {
                        self.answered.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(got) => return Err(format!("{method} {uri}: {}", got.status)),
                    Err(error) if was_not_read(&error) => left.push(uri),
                    Err(error) => return Err(format!("{method} {uri}: {error}")),
                }
            }
            if left.is_empty() {
                return Ok(());
            }
            *client = Http2::connect(self.addr);
        }
        Err(format!("{method} {left:?}: refused three times"))
    }
}

fn begin(client: &mut Http2, method: &str, uri: &str, value: &[u8]) -> Result<Asked, h2::Error> {
    let is_put = method == "PUT";
    let mut asked = client.ask(method, uri, &[], !is_put)?;
    if is_put {
        asked.send(value.to_vec(), true)?;
    }
    Ok(asked)
}

/// The server goes away, and has not read this request: it can be asked again (RFC 9113, section 8.7).
fn was_not_read(error: &h2::Error) -> bool {
    error.is_go_away() && error.is_remote() && error.reason() == Some(Reason::NO_ERROR)
}

#[test]
fn five_restarts_under_six_clients_fail_no_request() {
    let (socket, dir) = (held_socket(), DataDir::in_memory());
    let addr = socket.local_addr().expect("its address");
    let start = || {
        launch(&["--threads", "2"])
            .on(&dir)
            .passing(&socket)
            .start()
    };
    let (answered, done) = (AtomicU64::new(0), Done::default());
    let mut server = start();
    thread::scope(|scope| {
        let end = done.when_dropped();
        let clients: Vec<_> = (0..6)
            .map(|number| {
                let (answered, done) = (&answered, &done);
                scope.spawn(move || Steady { addr, answered }.run(number, done))
            })
            .collect();
        let busy = || {
            let before = answered.load(Ordering::Relaxed);
            eventually("clients are served", || {
                let is_over = clients.iter().any(thread::ScopedJoinHandle::is_finished);
                answered.load(Ordering::Relaxed) >= before + 200 || is_over
            });
        };
        for _ in 0..5 {
            busy();
            server.stop();
            server = start();
        }
        busy();
        drop(end);
        let ended = clients.into_iter().map(thread::ScopedJoinHandle::join);
        let outcomes: Vec<_> = ended.map(|outcome| outcome.expect("a client")).collect();
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    });
    println!("5 restarts, {answered:?} requests answered, 0 failed");
}
