//! The lag of a reactor's event loop: how long what is due waits for its turn.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::metrics::ReactorCounters;

/// Often enough to see a stall of half a second for what it is, seldom enough to cost nothing.
const PERIOD: Duration = Duration::from_millis(100);

/// Measures for ever. The runtime's timers are a millisecond coarse, and never early.
pub(super) async fn measure(counters: Arc<ReactorCounters>) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let due = ticks.tick().await;
        let late = Instant::now().duration_since(due);
        counters.latency.event_loop.observe_duration(late);
    }
}
