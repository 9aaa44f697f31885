//! The counters of one reactor, of the thread that accepts for it, and of authentication.
//!
//! A reactor's thread writes its own without an atomic addition; authentication is rare enough for counters that all
//! threads share. An array of counters has one for each variant of an enum, whose `NAMES` are in the same order.

use super::{Counter, DELAY, Histogram, SharedCounter, SharedHistogram};

/// The methods that are counted apart; a client may invent any number of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant is its own name")]
pub enum Method {
    Get,
    Head,
    Put,
    Post,
    Patch,
    Delete,
    Move,
    Copy,
    Options,
    Mkcol,
    Other,
}

impl Method {
    /// The names of the methods.
    pub const NAMES: [&str; 11] = [
        "GET", "HEAD", "PUT", "POST", "PATCH", "DELETE", "MOVE", "COPY", "OPTIONS", "MKCOL",
        "other",
    ];
}

/// The direction in which a body moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From a client.
    Receive,
    /// To a client.
    Send,
}

impl Direction {
    /// The names of both.
    pub const NAMES: [&str; 2] = ["receive", "send"];
}

/// The time limits whose excess ends a request or a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLimit {
    /// The time for the head of a request.
    Header,
    /// The time between two reads or writes of a body.
    Body,
    /// The rate of a body, in bytes a second.
    Rate,
}

impl TimeLimit {
    /// The options that set the limits.
    pub const NAMES: [&str; 3] = ["header-timeout", "body-timeout", "min-rate"];
}

/// The result of a TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// A new session.
    Full,
    /// The session of an earlier connection continues.
    Resumed,
    /// The connection ended before there was a session.
    Failed,
}

impl Handshake {
    /// The names of the results.
    pub const NAMES: [&str; 3] = ["full", "resumed", "failed"];
}

/// The classes of statuses, by their first digit; `none`: the client left before there was an answer.
pub const STATUSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// The index of `status` in [`STATUSES`]; a `status` of 0 is none.
pub(super) fn class_of(status: u16) -> usize {
    usize::from(status / 100).min(STATUSES.len() - 1)
}

/// The counters of one reactor. Its thread alone writes them, except for [`ReactorCounters::accepting`].
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
    /// Bytes from clients.
    pub received_bytes: Counter,
    /// Bytes to clients, those that the kernel sent from a file among them.
    pub sent_bytes: Counter,
    /// Time from the request head to the last byte of the response.
    pub duration: Histogram,
    /// Time from the request head to the first byte of the response.
    pub first_byte: Histogram<DELAY>,
    /// How much later than it was due a timer ran.
    pub lag: Histogram<DELAY>,
    /// Reads answered from the cache.
    pub cache_hits: Counter,
    /// Reads that the cache could not answer.
    pub cache_misses: Counter,
    /// Uploads that have started.
    pub uploads_started: Counter,
    /// Uploads that have ended, however they did.
    pub uploads_finished: Counter,
    /// Long bodies that connections took over from hyper, by [`Direction`].
    pub takeovers: [Counter; Direction::NAMES.len()],
    /// Handshakes, by [`Handshake`].
    pub handshakes: [Counter; Handshake::NAMES.len()],
    /// Clients over a limit, by [`TimeLimit`].
    pub time_limits: [Counter; TimeLimit::NAMES.len()],
    /// Requests answered, by [`Method`] and class of status, as [`STATUSES`] names it.
    pub requests: [[Counter; STATUSES.len()]; Method::NAMES.len()],
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
    /// Counts a request that was answered; a `status` of 0 is no answer.
    #[inline]
    pub fn answered(&self, method: Method, status: u16) {
        self.requests[method as usize][class_of(status)].add(1);
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
    /// The credentials were wrong.
    Wrong,
    /// There were no credentials where some are needed.
    Missing,
    /// The subject is known, and lacks the right.
    NotAllowed,
    /// The client had failed too often.
    Limited,
    /// Too many passwords were being checked.
    Busy,
}

impl AuthResult {
    /// The names of the results.
    pub const NAMES: [&str; 9] = [
        "token",
        "password",
        "certificate",
        "link",
        "wrong",
        "missing",
        "not_allowed",
        "limited",
        "busy",
    ];
}

/// The counters of authentication, of all reactors together.
#[derive(Debug, Default)]
pub struct AccessCounters {
    /// Authentications and refusals, by [`AuthResult`].
    pub results: [SharedCounter; AuthResult::NAMES.len()],
    /// Passwords that were not checked again, as they were right a short while ago.
    pub remembered: SharedCounter,
    /// Readings of the file that replaced the policy, and that did not.
    pub reloads: [SharedCounter; 2],
    /// Durations of the checks of passwords.
    pub checks: SharedHistogram,
}
