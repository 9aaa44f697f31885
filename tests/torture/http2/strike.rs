//! One attack: its frames are sent as fast as the server takes them, while another client asks on, and what it costs
//! the server is measured.

use std::fmt;
use std::net::Shutdown;
use std::sync::atomic::AtomicU32;

use super::wire::{Frame, GOAWAY, PING, Peer, ping};
use crate::prelude::*;

/// What is sent again and again, by its number.
type Repeated = Box<dyn Fn(u32) -> Vec<u8> + Sync>;

/// An attack.
pub(super) struct Attack {
    pub(super) name: &'static str,
    /// Sent once.
    pub(super) opening: Vec<u8>,
    pub(super) repeated: Repeated,
    /// How the server answers it.
    pub(super) ends: Ends,
}

/// How a connection that attacks ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// By GOAWAY with this code.
    GoAway(u32),
    /// It does not: the attack costs next to nothing.
    Flat,
    /// Without a word.
    Cut,
}

/// What an attack has cost.
pub(super) struct Cost {
    pub(super) ends: Ends,
    /// Repetitions that were sent.
    pub(super) sent: u32,
    /// More memory, in KiB.
    pub(super) growth: u64,
    /// CPU time of the reactor.
    pub(super) cpu: Duration,
    /// The 99th percentile of the other client's answer times, and the longest.
    pub(super) p99: Duration,
    pub(super) longest: Duration,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            sent,
            growth,
            cpu,
            p99,
            longest,
            ends,
        } = self;
        write!(
            f,
            "{ends:?}, {sent} sent; {growth} KiB more memory, {cpu:.1?} of CPU, p99 of another client {p99:.1?} ({longest:.1?} at most)"
        )
    }
}

/// The last PING of an attack.
const LAST: [u8; 8] = *b"the last";

/// How much is sent at once, in bytes.
const BATCH: usize = 16 << 10;

/// How often the other client asks, and looks at the server's memory.
const PACE: Duration = Duration::from_millis(2);

impl Attack {
    /// Sends the attack so many times at most.
    pub(super) fn strike(&self, server: &TestServer, count: u32) -> Cost {
        let proc = server.proc();
        let (rss, cpu) = (proc.rss_kib(), proc.cpu_of("reactor"));
        let over = Done::default();
        let (ends, sent, canary) = thread::scope(|scope| {
            let canary = scope.spawn(|| Canary::sing(server, &over));
            let over = over.when_dropped();
            let (ends, sent) = self.send(server, count);
            drop(over);
            (ends, sent, canary.join().expect("a canary that lives"))
        });
        Cost {
            ends,
            sent,
            growth: canary.most_rss.max(proc.rss_kib()).saturating_sub(rss),
            cpu: proc.cpu_of("reactor").saturating_sub(cpu),
            p99: canary.p99(),
            longest: *canary.took.last().expect("an answer"),
        }
    }

    fn send(&self, server: &TestServer, count: u32) -> (Ends, u32) {
        let mut peer = Peer::open(server.addr, &[]);
        peer.send(&self.opening);
        let mut twin = peer.0.twin();
        let sent = AtomicU32::new(0);
        let ends = thread::scope(|scope| {
            scope.spawn(|| {
                let mut batch = Vec::new();
                for n in 0..count {
                    batch.extend((self.repeated)(n));
                    if n + 1 == count {
                        batch.extend(ping(LAST));
                    }
                    if batch.len() >= BATCH || n + 1 == count {
                        if twin.offer(&batch).is_err() {
                            return;
                        }
                        batch.clear();
                        sent.store(n + 1, Ordering::Relaxed);
                    }
                }
            });
            let is_end =
                |frame: &Frame| frame.kind == GOAWAY || frame.kind == PING && frame.payload == LAST;
            match peer.until(is_end) {
                Some(frame) if frame.kind == GOAWAY => {
                    // The server would read on for a while.
                    peer.0.shut(Shutdown::Both);
                    Ends::GoAway(frame.number(4))
                }
                Some(_) => Ends::Flat,
                None => Ends::Cut,
            }
        });
        (ends, sent.into_inner())
    }
}

/// A client that asks all the time, on a connection of its own.
struct Canary {
    /// In order.
    took: Vec<Duration>,
    most_rss: u64,
}

impl Canary {
    fn sing(server: &TestServer, over: &Done) -> Self {
        let mut client = server.connect();
        let mut canary = Self {
            took: Vec::new(),
            most_rss: 0,
        };
        // Once more when it is over, so that there is an answer.
        let mut is_over = false;
        while !is_over {
            is_over = over.is_said();
            let asked = Instant::now();
            let answer = client.ask("GET /here HTTP/1.1\r\nHost: t\r\n\r\n");
            assert_eq!(answer.status, 200);
            canary.took.push(asked.elapsed());
            canary.most_rss = canary.most_rss.max(server.proc().rss_kib());
            thread::sleep(PACE.saturating_sub(asked.elapsed()));
        }
        canary.took.sort_unstable();
        canary
    }

    fn p99(&self) -> Duration {
        self.took[(self.took.len() * 99).div_ceil(100) - 1]
    }
}
