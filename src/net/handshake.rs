//! The count of handshakes: each one of TLS is counted once, when it is over or its connection ends before that.

use super::connection_context::ConnectionContext;
use super::tls_session::TlsSession;
use crate::metrics::{Handshake, ReactorCounters};

/// A handshake that has not been counted yet. In the clear there is none.
pub(super) struct Uncounted<'a> {
    session: Option<&'a TlsSession>,
    counters: &'a ReactorCounters,
}

impl<'a> Uncounted<'a> {
    /// That of a new connection.
    pub(super) fn of(context: &'a ConnectionContext<'_>) -> Self {
        Self {
            session: context.socket.tls(),
            counters: context.reactor.counters(),
        }
    }

    /// Counts it, if it is over by now.
    pub(super) fn look(&mut self) {
        if let Some(handshake) = self.session.and_then(TlsSession::handshake) {
            self.session = None;
            self.counters.shakes_hands(handshake);
        }
    }
}

impl Drop for Uncounted<'_> {
    fn drop(&mut self) {
        if self.session.is_some() {
            self.counters.shakes_hands(Handshake::Failed);
        }
    }
}
