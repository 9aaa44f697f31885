//! A thread with a runtime of its own, and the lag of its event loop: how long what is due waits for its turn.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use std::{io, thread};

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::metrics::ReactorCounters;

/// Starts a thread that makes what it needs by `set_up`, on its runtime, and then runs `run` with it. Returns once it is
/// set up, or why it cannot be. What is `held` is dropped last, after all that ran there.
pub(super) fn start<T>(
    name: String,
    set_up: impl FnOnce() -> io::Result<T> + Send + 'static,
    run: impl AsyncFnOnce(T) + Send + 'static,
    held: impl Send + 'static,
) -> io::Result<()> {
    let (started, outcome) = sync_channel(1);
    thread::Builder::new().name(name).spawn(move || {
        let ready = runtime().and_then(|runtime| {
            let made = runtime.block_on(async { set_up() })?;
            Ok((runtime, made))
        });
        match ready {
            Ok((runtime, made)) => {
                let _ = started.send(Ok(()));
                runtime.block_on(run(made));
                drop(runtime);
                drop(held);
            }
            Err(error) => drop(started.send(Err(error))),
        }
    })?;
    outcome.recv().map_err(io::Error::other)?
}

fn runtime() -> io::Result<LocalRuntime> {
    let mut builder = Builder::new_current_thread();
    let builder = builder.enable_io().enable_time();
    builder.build_local(LocalOptions::default())
}

/// Often enough to see a stall of half a second for what it is, seldom enough to cost nothing.
const PERIOD: Duration = Duration::from_millis(100);

/// Measures for ever. The runtime's timers are a millisecond coarse, and never early.
pub(super) async fn measure_lag(counters: Arc<ReactorCounters>) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let due = ticks.tick().await;
        let late = Instant::now().duration_since(due);
        counters.latency.event_loop.observe_duration(late);
    }
}
