//! The counters of one reactor, of the thread that accepts for it, and of authentication.
//!
//! A reactor's thread writes its own without an atomic addition; authentication is rare enough for counters that all
//! threads share. An array of counters has one for each variant of an enum.

use super::{Counter, DELAY, Histogram, SharedCounter, SharedHistogram};

named! {
    /// The methods that are counted apart; a client may invent any number of others.
    #[allow(missing_docs, reason = "each variant is its own name")]
    Method:
    Get = "GET",
    Head = "HEAD",
    Put = "PUT",
    Post = "POST",
    Patch = "PATCH",
    Delete = "DELETE",
    Move = "MOVE",
    Copy = "COPY",
    Options = "OPTIONS",
    Mkcol = "MKCOL",
    Other = "other",
}

named! {
    /// The direction in which a body moves.
    Direction:
    /// From a client.
    Receive = "receive",
    /// To a client.
    Send = "send",
}

named! {
    /// The time limits whose excess ends a request or a connection.
    TimeLimit:
    /// The time for the head of a request.
    Header = "header-timeout",
    /// The time between two reads or writes of a body.
    Body = "body-timeout",
    /// The rate of a body, in bytes a second.
    Rate = "min-rate",
}

named! {
    /// The result of a TLS handshake.
    Handshake:
    /// A new session.
    Full = "full",
    /// The session of an earlier connection continues.
    Resumed = "resumed",
    /// The connection ended before there was a session.
    Failed = "failed",
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
    /// Connections closed at once when it was the reactor's turn: their client had too many. The reactor counts those
    /// whose client it learns from a proxy.
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

named! {
    /// The result of an authentication.
    AuthResult:
    /// A token was right.
    Token = "token",
    /// A password was right, or a token in its place.
    Password = "password",
    /// A certificate was right.
    Certificate = "certificate",
    /// A signed link was right.
    Link = "link",
    /// The credentials were wrong.
    Wrong = "wrong",
    /// There were no credentials where some are needed.
    Missing = "missing",
    /// The subject is known, and lacks the right.
    NotAllowed = "not_allowed",
    /// The client had failed too often.
    Limited = "limited",
    /// Too many passwords were being checked.
    Busy = "busy",
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
