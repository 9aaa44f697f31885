//! The counters of one reactor, of the thread that accepts for it, and of authentication.
//!
//! A reactor's thread writes its own without an atomic addition; authentication is rare enough for counters that all
//! threads share.

use super::{Counter, Histogram, Scale, SharedCounter, SharedHistogram};

/// The methods that are counted apart; a client may invent any number of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET.
    Get,
    /// HEAD.
    Head,
    /// PUT.
    Put,
    /// POST.
    Post,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
    /// OPTIONS.
    Options,
    /// Any other.
    Other,
}

impl Method {
    /// All of them, with their names.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::Get, "GET"),
        (Self::Head, "HEAD"),
        (Self::Put, "PUT"),
        (Self::Post, "POST"),
        (Self::Patch, "PATCH"),
        (Self::Delete, "DELETE"),
        (Self::Options, "OPTIONS"),
        (Self::Other, "other"),
    ];
}

/// Which way a body moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From a client.
    Receive,
    /// To a client.
    Send,
}

impl Direction {
    /// Both, with their names.
    pub const ALL: [(Self, &'static str); 2] = [(Self::Receive, "receive"), (Self::Send, "send")];
}

/// The time limits that a client is told of, or cut for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLimit {
    /// Of the head of a request.
    Header,
    /// Between two reads or writes of a body.
    Body,
    /// The rate of a body, in bytes a second.
    Rate,
}

impl TimeLimit {
    /// All of them, with the options that set them.
    pub const ALL: [(Self, &'static str); 3] = [
        (Self::Header, "header-timeout"),
        (Self::Body, "body-timeout"),
        (Self::Rate, "min-rate"),
    ];
}

/// How a handshake of TLS ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// A session has begun.
    Full,
    /// A session goes on that was begun by a connection before.
    Resumed,
    /// The connection ends before there is a session.
    Failed,
}

impl Handshake {
    /// All of them, with their names.
    pub const ALL: [(Self, &'static str); 3] = [
        (Self::Full, "full"),
        (Self::Resumed, "resumed"),
        (Self::Failed, "failed"),
    ];
}

/// The classes of statuses, by their first digit. No status at all: the client left before there was an answer.
pub const STATUSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// The counters of one reactor. Its thread alone writes them, but for [`ReactorCounters::accepting`].
#[derive(Debug, Default)]
pub struct ReactorCounters {
    /// Written by the thread that accepts for the reactor.
    pub accepting: AcceptCounters,
    /// Connections that have ended.
    pub finished: Counter,
    /// Connections closed because they did not begin as the PROXY protocol has it.
    pub bad_proxy_headers: Counter,
    /// Panics that were caught.
    pub panics: Counter,
    /// The bytes that moved through its sockets.
    pub bytes: ByteCounters,
    /// How long things took.
    pub latency: LatencyHistograms,
    /// How reads met the cache.
    pub cache: CacheCounters,
    /// Values that clients send.
    pub uploads: UploadCounters,
    takeovers: [Counter; Direction::ALL.len()],
    handshakes: [Counter; Handshake::ALL.len()],
    time_limits: [Counter; TimeLimit::ALL.len()],
    requests: [[Counter; STATUSES.len()]; Method::ALL.len()],
}

/// Bytes that the sockets of a reactor moved.
#[derive(Debug, Default)]
pub struct ByteCounters {
    /// From clients.
    pub received: Counter,
    /// To clients, those that the kernel sent from a file among them.
    pub sent: Counter,
}

/// How long the requests of a reactor took, and how late it was.
#[derive(Debug)]
pub struct LatencyHistograms {
    /// From the head of a request to the last byte of its answer.
    pub request: Histogram,
    /// From the head of a request to the first byte of its answer.
    pub first_byte: Histogram,
    /// How much later than it was due a timer ran.
    pub event_loop: Histogram,
}

impl Default for LatencyHistograms {
    fn default() -> Self {
        Self {
            request: Histogram::default(),
            first_byte: Histogram::new(&Scale::DELAY),
            event_loop: Histogram::new(&Scale::DELAY),
        }
    }
}

/// How reads met the cache.
#[derive(Debug, Default)]
pub struct CacheCounters {
    /// Reads answered from it.
    pub hits: Counter,
    /// Reads that it had no answer to.
    pub misses: Counter,
}

/// Values that clients send.
#[derive(Debug, Default)]
pub struct UploadCounters {
    /// Uploads that have started.
    pub started: Counter,
    /// Uploads that have ended, however they did.
    pub finished: Counter,
}

/// The counters of the thread that accepts, for one reactor. Kept on cache lines of its own: it writes these while the
/// reactor writes the others.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct AcceptCounters {
    /// Connections handed to the reactor.
    pub accepted: Counter,
    /// Attempts to accept that failed when it was the reactor's turn.
    pub errors: Counter,
    /// Connections closed at once when it was the reactor's turn: their client had too many. The reactor counts those whose
    /// client it learns from a proxy.
    pub refused: SharedCounter,
}

impl ReactorCounters {
    /// A request has been answered; a `status` of 0 is none.
    #[inline]
    pub fn answered(&self, method: Method, status: u16) {
        let class = usize::from(status / 100).min(STATUSES.len() - 1);
        self.requests[method as usize][class].add(1);
    }

    /// Requests answered, by method and class of status.
    pub fn requests(&self, method: Method, class: usize) -> u64 {
        self.requests[method as usize][class].get()
    }

    /// A connection takes its socket over from hyper for a long body.
    pub fn takes_over(&self, direction: Direction) {
        self.takeovers[direction as usize].add(1);
    }

    /// Long bodies that connections took over, by the way they moved.
    pub fn takeovers(&self, direction: Direction) -> u64 {
        self.takeovers[direction as usize].get()
    }

    /// A handshake of TLS has ended so.
    pub fn shakes_hands(&self, handshake: Handshake) {
        self.handshakes[handshake as usize].add(1);
    }

    /// Handshakes of TLS that ended so.
    pub fn handshakes(&self, handshake: Handshake) -> u64 {
        self.handshakes[handshake as usize].get()
    }

    /// A client was over this limit.
    pub fn exceeds(&self, limit: TimeLimit) {
        self.time_limits[limit as usize].add(1);
    }

    /// Clients that were over this limit.
    pub fn exceeded(&self, limit: TimeLimit) -> u64 {
        self.time_limits[limit as usize].get()
    }

    /// All requests answered.
    pub fn all_requests(&self) -> u64 {
        self.requests.iter().flatten().map(Counter::get).sum()
    }

    /// Connections open now, roughly: two counts are read one after the other.
    pub fn active(&self) -> u64 {
        let finished = self.finished.get();
        self.accepting.accepted.get().saturating_sub(finished)
    }
}

/// The result of an authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthResult {
    /// A token was right.
    Token,
    /// A password was right, or a token in its place.
    Password,
    /// A certificate was right.
    Certificate,
    /// A signed link was right.
    Link,
    /// The claim was wrong.
    Wrong,
    /// There was no claim where one is needed.
    Missing,
    /// It was known who asked, and that one may not.
    NotAllowed,
    /// The client had failed too often.
    Limited,
    /// Too many passwords were being checked.
    Busy,
}

impl AuthResult {
    /// All of them, with their names.
    pub const ALL: [(Self, &'static str); 9] = [
        (Self::Token, "token"),
        (Self::Password, "password"),
        (Self::Certificate, "certificate"),
        (Self::Link, "link"),
        (Self::Wrong, "wrong"),
        (Self::Missing, "missing"),
        (Self::NotAllowed, "not_allowed"),
        (Self::Limited, "limited"),
        (Self::Busy, "busy"),
    ];
}

/// The counters of authentication, of all reactors together.
#[derive(Debug, Default)]
pub struct AccessCounters {
    results: [SharedCounter; AuthResult::ALL.len()],
    /// Passwords that were right a short while ago.
    pub remembered: SharedCounter,
    /// Readings of the file that replaced the policy, and that did not.
    pub reloads: [SharedCounter; 2],
    /// Durations of the checks of passwords.
    pub checks: SharedHistogram,
}

impl AccessCounters {
    /// A claim ended so.
    pub fn ended(&self, result: AuthResult) {
        self.results[result as usize].add(1);
    }

    /// How many ended so.
    pub fn results(&self, result: AuthResult) -> u64 {
        self.results[result as usize].get()
    }
}
