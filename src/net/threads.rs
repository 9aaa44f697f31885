//! Threads: the reactors and the acceptor, each with a current-thread runtime of its own.
//!
//! A reactor serves the connections that the acceptor hands over, or that it accepts itself. Everything of a connection
//! happens on its thread; nothing of it is shared with another. A task that panics takes its connection with it and
//! nothing else. A thread has finished only when all that ran on it is dropped. Owns also the order of a reactor's
//! drain, and the lag of its event loop: how long what is due waits for its turn.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use rustix::thread::CpuSet;
use scopeguard::guard;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::acceptor::{self, AcceptBatch, Accepted, ReactorListener, Worker, Workers};
use super::connection;
use super::connection_limit::ConnectionLimit;
use super::listen::Listener;
use super::reactor::{Reactor, ReactorConfig};
use super::socket_writer;
use crate::http::Ends;
use crate::lifecycle::Draining;
use crate::metrics::ReactorCounters;

/// Before it closes idle connections, the reactor answers one more request on each for this long, with `Connection:
/// close`. A client whose request meets the close of an idle connection cannot know whether it was read.
const LAME_DUCK: Duration = Duration::from_millis(500);

/// The niceness of the acceptor. On a processor that they share a reactor finishes its turn first, and the clients that
/// wait by then are accepted together; without it each connection costs two context switches.
const NICENESS: i32 = 5;

/// The acceptor's handle on a reactor, which it hands connections to; dropping the last clone asks the reactor to
/// drain.
#[derive(Clone, Debug)]
pub(super) struct Handle {
    /// Has no bound of its own, so that handing over never waits: every connection in it has a permit.
    queue: mpsc::UnboundedSender<Accepted>,
    counters: Arc<ReactorCounters>,
}

impl Worker for Handle {
    fn counters(&self) -> &ReactorCounters {
        &self.counters
    }

    fn serve(&self, accepted: Accepted) {
        // Fails only when the reactor is gone, and with it the process.
        let _ = self.queue.send(accepted);
    }
}

/// Starts accepting for `reactors`, until `draining` asks for the end; their handles are dropped then.
pub(super) fn start_acceptor(
    listeners: Vec<Listener>,
    limit: Arc<ConnectionLimit>,
    reactors: Vec<Handle>,
    draining: Draining,
) -> io::Result<()> {
    let set_up = move || {
        // Failing costs switches, no connection.
        let _ = rustix::process::nice(NICENESS);
        register(listeners)
    };
    let held = draining.clone();
    let run = async move |listeners| {
        let workers = Workers::new(reactors);
        acceptor::accept(listeners, &limit, workers, &draining).await;
    };
    start_thread("acceptor".to_owned(), set_up, run, held)
}

fn register(listeners: Vec<Listener>) -> io::Result<Vec<ReactorListener>> {
    listeners
        .into_iter()
        .map(ReactorListener::register)
        .collect()
}

/// Starts a reactor, which accepts by `listeners` for itself, or is handed its connections.
pub(super) fn start(
    config: ReactorConfig,
    listeners: Option<Vec<Listener>>,
    limit: Arc<ConnectionLimit>,
    draining: Draining,
) -> io::Result<Handle> {
    let (queue, connections) = mpsc::unbounded_channel();
    let counters = Arc::clone(&config.counters);
    let (cpu, name) = (config.cpu, config.name.clone());
    let set_up = move || {
        if let Some(cpu) = cpu {
            pin_to(cpu);
        }
        socket_writer::set_up_splice();
        listeners.map(register).transpose()
    };
    // The reactor's own tasks hold the store until the runtime ends: only then has the thread finished.
    let held = draining.clone();
    let run = async move |listeners| {
        let index = config.index;
        let reactor = Rc::new(Reactor::new(config, limit));
        start_tasks(&reactor);
        if let Some(listeners) = listeners {
            let workers = Workers::new(vec![Rc::clone(&reactor)]);
            acceptor::accept(listeners, &reactor.limit, workers, &draining).await;
        } else {
            serve_accepted(connections, &reactor).await;
        }
        drain(&reactor, index, draining).await;
    };
    start_thread(name, set_up, run, held)?;
    Ok(Handle { queue, counters })
}

/// Starts a thread that makes what it needs by `set_up`, on its runtime, and then runs `run` with it. Returns once it
/// is set up, or with the error of that. `held` is dropped last, after all that ran there.
fn start_thread<T>(
    name: String,
    set_up: impl FnOnce() -> io::Result<T> + Send + 'static,
    run: impl AsyncFnOnce(T) + Send + 'static,
    held: impl Send + 'static,
) -> io::Result<()> {
    let (started, outcome) = sync_channel(1);
    let mut builder = Builder::new_current_thread();
    builder.enable_io().enable_time();
    thread::Builder::new().name(name).spawn(move || {
        let ready = builder
            .build_local(LocalOptions::default())
            .and_then(|runtime| {
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

fn pin_to(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        tracing::warn!(cpu, %error, "cannot pin a reactor to its CPU");
    }
}

/// Starts the tasks beside the connections: the sweep, the closing of idle ones, and the measuring of the lag.
fn start_tasks(reactor: &Rc<Reactor>) {
    let swept = Rc::clone(reactor);
    tokio::task::spawn_local(async move { swept.connections.sweep().await });
    let relieved = Rc::clone(reactor);
    tokio::task::spawn_local(async move { relieved.limit.close_idle(&relieved.connections).await });
    let counters = Arc::clone(&reactor.counters);
    tokio::task::spawn_local(measure_lag(counters));
}

/// Often enough to see a stall of half a second for what it is, seldom enough to cost nothing.
const LAG_PERIOD: Duration = Duration::from_millis(100);

/// Measures the lag for ever. The runtime's timers are a millisecond coarse, and never early.
async fn measure_lag(counters: Arc<ReactorCounters>) {
    let mut ticks = interval(LAG_PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let due = ticks.tick().await;
        let late = Instant::now().duration_since(due);
        counters.lag.observe_duration(late);
    }
}

/// Lets connections end, until `draining` abandons them.
async fn drain(reactor: &Reactor, index: usize, mut draining: Draining) {
    // Each connection is polled once before the drain is announced to it: what had arrived is still answered.
    tokio::task::yield_now().await;
    let connections = &reactor.connections;
    connections.end(Ends::Last);
    tokio::select! {
        () = connections.emptied() => {}
        () = tokio::time::sleep(LAME_DUCK) => {}
        () = draining.abandoned() => {}
    }
    connections.end(Ends::Finish);
    tokio::select! {
        // Where no connection is left, none is abandoned.
        biased;
        () = connections.emptied() => {}
        () = draining.abandoned() => {
            let connections = connections.len();
            tracing::warn!(reactor = index, connections, "connections abandoned: the grace period is over");
        }
    }
    let counters = &reactor.counters;
    tracing::info!(
        reactor = index,
        connections = counters.accepting.accepted.get(),
        requests = counters.all_requests(),
        "reactor drained"
    );
}

/// Serves what the acceptor hands over, until it ends.
async fn serve_accepted(mut connections: mpsc::UnboundedReceiver<Accepted>, reactor: &Rc<Reactor>) {
    let mut batch = AcceptBatch::default();
    while let Some(accepted) = connections.recv().await {
        reactor.serve(accepted);
        batch.count().await;
    }
}

impl Worker for Rc<Reactor> {
    fn counters(&self) -> &ReactorCounters {
        &self.counters
    }

    /// Serves the connection, which gets a task of its own unless it is done with at once: short connections most often
    /// are, and to make a task costs more than to answer.
    fn serve(&self, accepted: Accepted) {
        poll_or_spawn(serve_connection(accepted, Self::clone(self)));
    }
}

/// Polls `serving` once, and spawns what is left of it.
fn poll_or_spawn(serving: impl Future<Output = ()> + 'static) {
    let mut serving = Box::pin(serving);
    // A no-op waker is enough: spawning polls again.
    let mut cx = Context::from_waker(Waker::noop());
    let polled = catch_unwind(AssertUnwindSafe(|| serving.as_mut().poll(&mut cx)));
    if let Ok(Poll::Pending) = polled {
        drop(tokio::task::spawn_local(serving));
    }
}

async fn serve_connection(mut accepted: Accepted, reactor: Rc<Reactor>) {
    // Dropped before the permit: by the counter the next connection is balanced.
    let _finished = count_end(&reactor.counters);
    if let Some(socket) = reactor.accept(accepted.socket, accepted.client) {
        connection::serve(socket, accepted.client, &mut accepted.permit, &reactor).await;
    }
}

/// Counts the end of a connection, also by a panic, when the result is dropped.
fn count_end(counters: &ReactorCounters) -> impl Drop + '_ {
    guard((), |()| {
        if thread::panicking() {
            counters.panics.add(1);
        }
        counters.finished.add(1);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_panics_outside_a_request_is_counted_and_the_reactor_goes_on() {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.build_local(LocalOptions::default());
        let counters = Rc::new(ReactorCounters::default());
        runtime.expect("a runtime").block_on(async {
            for (panics, waits) in [(true, false), (true, true), (false, true), (false, false)] {
                let counters = Rc::clone(&counters);
                poll_or_spawn(async move {
                    let _finished = count_end(&counters);
                    if waits {
                        tokio::task::yield_now().await;
                    }
                    assert!(!panics, "by order");
                });
            }
            while counters.finished.get() < 4 {
                tokio::task::yield_now().await;
            }
        });
        assert_eq!((counters.panics.get(), counters.finished.get()), (2, 4));
    }
}
