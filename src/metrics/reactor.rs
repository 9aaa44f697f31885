//! The counters of one reactor, of the thread that accepts for it, and of authentication.
//!
//! A reactor's thread writes its own without an atomic addition; authentication is rare enough for counters that all
//! threads share. An array of counters has one for each variant of an enum.

use super::{Counter, DELAY, Exposition, Histogram, Label, SharedCounter, SharedHistogram};

named! {
    /// The methods that are counted apart; a client may invent any number of others.
    #[allow(missing_docs, reason = "each variant is its own name")]
    Method by "method":
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
    Direction by "direction":
    /// From a client.
    Receive = "receive",
    /// To a client.
    Send = "send",
}

named! {
    /// The time limits whose excess ends a request or a connection.
    TimeLimit by "limit":
    /// The time for the head of a request.
    Header = "header-timeout",
    /// The time between two reads or writes of a body.
    Body = "body-timeout",
    /// The rate of a body, in bytes a second.
    Rate = "min-rate",
}

named! {
    /// The result of a TLS handshake.
    Handshake by "result":
    /// A new session.
    Full = "full",
    /// The session of an earlier connection continues.
    Resumed = "resumed",
    /// The connection ended before there was a session.
    Failed = "failed",
}

/// How many classes of statuses there are.
pub(super) const CLASSES: usize = 6;

/// The classes of statuses, by their first digit; `none`: the client left before there was a response.
pub(super) const STATUS: Label = ("status", &["none", "1xx", "2xx", "3xx", "4xx", "5xx"]);

/// The class of `status` in [`STATUS`]; a `status` of 0 is none.
pub(super) fn class_of(status: u16) -> usize {
    usize::from(status / 100).min(CLASSES - 1)
}

counters! {
    /// The counters of one reactor. Its thread alone writes them, except for [`ReactorCounters::accepting`].
    ReactorCounters {
        /// Written by the thread that accepts for the reactor.
        pub accepting: AcceptCounters;
        pub finished: Counter = each "data_server_connections_finished_total" "Connections that have ended.";
        pub bad_proxy_headers: Counter = sum "data_server_proxy_headers_refused_total" "Connections closed because they began with no valid header of the PROXY protocol.";
        pub handshakes: [Counter; Handshake::COUNT] = each "data_server_tls_handshakes_total" "TLS handshakes, by result." by Handshake::LABEL;
        pub time_limits: [Counter; TimeLimit::COUNT] = each "data_server_time_limits_total" "Clients that exceeded a time limit, by the option that sets the limit." by TimeLimit::LABEL;
        pub panics: Counter = sum "data_server_panics_total" "Panics that were caught.";
        pub requests: [[Counter; CLASSES]; Method::COUNT] = each "data_server_requests_total" "Requests whose response has ended; status none: the client left before a response." by Method::LABEL, STATUS;
        pub takeovers: [Counter; Direction::COUNT] = each "data_server_takeovers_total" "Long bodies moved by splice or sendfile, without hyper." by Direction::LABEL;
        pub received_bytes: Counter = each "data_server_received_bytes_total" "Bytes received.";
        /// Those that the kernel sent from a file among them.
        pub sent_bytes: Counter = each "data_server_sent_bytes_total" "Bytes sent.";
        pub duration: Histogram = each "data_server_request_duration_seconds" "Time from the request head to the last byte of the response given to the socket.";
        pub first_byte: Histogram<DELAY> = each "data_server_time_to_first_byte_seconds" "Time from the request head to the first byte of the response given to the socket.";
        pub lag: Histogram<DELAY> = each "data_server_event_loop_lag_seconds" "How much later than due a timer of the reactor ran.";
        pub cache_hits: Counter = sum "data_server_cache_hits_total" "Reads answered from the cache.";
        pub cache_misses: Counter = sum "data_server_cache_misses_total" "Reads that the cache could not answer.";
        /// Uploads that have started.
        pub uploads_started: Counter;
        /// Uploads that have ended, however they did.
        pub uploads_finished: Counter;
    }
}

counters! {
    /// The counters of the thread that accepts, for one reactor. Kept on cache lines of its own: it writes these while
    /// the reactor writes the others.
    #[repr(align(128))]
    AcceptCounters {
        pub accepted: Counter = each "data_server_connections_accepted_total" "Connections handed to a reactor.";
        /// They count for the reactor whose turn it was.
        pub errors: Counter = sum "data_server_accept_errors_total" "Attempts to accept a connection that failed.";
        /// They count for the reactor whose turn it was, or which learned the client from a proxy.
        pub refused: SharedCounter = sum "data_server_connections_refused_total" "Connections closed at once, for --max-connections-per-ip.";
    }
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
    AuthResult by "result":
    /// A token was right, also in the place of a password.
    Token = "token",
    /// A password was right.
    Password = "password",
    /// A certificate was right.
    Certificate = "certificate",
    /// A proxy has signed a subject on.
    Proxy = "proxy",
    /// A signed link was right.
    Link = "link",
    /// A signature by a key of S3 was right.
    Signature = "signature",
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

counters! {
    /// The counters of authentication, of all reactors together.
    AccessCounters {
        pub results: [SharedCounter; AuthResult::COUNT] = sum "data_server_auth_total" "Authentications (repeats on a connection count once) and refusals, by result." by AuthResult::LABEL;
        pub remembered: SharedCounter = sum "data_server_auth_cache_hits_total" "Passwords accepted without a check, as they were right a short while ago.";
        pub checks: SharedHistogram = sum "data_server_password_checks_seconds" "Time that checking a password took.";
        pub reloads: [SharedCounter; 2] = sum "data_server_access_reloads_total" "Rereads of the access file, by result." by ("result", &["ok", "failed"]);
    }
}
