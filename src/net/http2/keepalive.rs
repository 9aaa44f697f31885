//! Whether a client with streams under way is still there: it is asked now and then (PING), for a machine that has gone
//! without a word may have a stream that waits for hours.

use std::task::{Context, Poll};
use std::time::Duration;

use h2::{Ping, PingPong};
use tokio::time::{Instant, Interval, interval_at};

/// How often a client is asked, and how long it has for its answer.
const EVERY: Duration = Duration::from_secs(20);

/// See the module.
pub(super) struct Keepalive {
    pings: Option<PingPong>,
    ticks: Interval,
    /// It was asked, when so many bytes had moved.
    asked_at: Option<u64>,
}

impl Keepalive {
    /// Asks by `pings`.
    pub(super) fn new(pings: Option<PingPong>) -> Self {
        Self {
            pings,
            ticks: interval_at(Instant::now() + EVERY, EVERY),
            asked_at: None,
        }
    }

    /// Whether the client is gone: it was asked and has not answered, and nothing of the `moved` bytes has moved since. A
    /// slow link may have much to carry before the question.
    pub(super) fn poll_is_dead(
        &mut self,
        cx: &mut Context<'_>,
        has_streams: bool,
        moved: u64,
    ) -> bool {
        let Some(pings) = &mut self.pings else {
            return false;
        };
        if self.asked_at.is_some() && matches!(pings.poll_pong(cx), Poll::Ready(Ok(_))) {
            self.asked_at = None;
        }
        while self.ticks.poll_tick(cx).is_ready() {
            if self.asked_at == Some(moved) {
                return true;
            }
            if self.asked_at.is_some() || (has_streams && pings.send_ping(Ping::opaque()).is_ok()) {
                self.asked_at = Some(moved);
            }
        }
        false
    }
}
