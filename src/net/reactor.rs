//! A reactor: one thread, one current-thread runtime, and the connections that were handed to it.
//!
//! Everything of a connection happens here, on this thread; nothing of it is shared with another. A task that panics
//! takes its connection with it and nothing else.

use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hyper::server::conn::http1;
use rustix::thread::CpuSet;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc;

use super::connection;
use super::gate::{Load, Slot};
use super::lag;
use super::own::{self, Listening, Own};
use super::socket::Socket;
use super::stream;
use super::watch::{Limits, Watch};
use crate::drain::Draining;
use crate::http::Service;
use crate::metrics::ReactorCounters;

/// So many new connections in a row are begun with before others have their turn.
const ROW: usize = 32;

/// A connection on its way from the acceptor to a reactor.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) socket: std::net::TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) slot: Slot,
}

/// Where the acceptor hands a reactor its connections; dropping it asks the reactor to drain.
#[derive(Debug)]
pub(super) struct Handle {
    /// Has no bound of its own, so that handing over never waits: every connection in it holds a slot.
    pub(super) queue: mpsc::UnboundedSender<Accepted>,
    pub(super) load: Load,
    pub(super) counters: Arc<ReactorCounters>,
}

/// Where a reactor's connections come from.
#[derive(Debug)]
enum Source {
    Acceptor(mpsc::UnboundedReceiver<Accepted>),
    Own(Listening),
}

/// What a reactor is made of.
#[derive(Debug)]
pub struct Setup {
    /// Its number, from 0.
    pub index: usize,
    /// Its thread's name.
    pub name: String,
    /// What answers requests.
    pub service: Service,
    /// How long peers may take.
    pub limits: Limits,
    /// Before the server drains: how long clients have to ask once more, and be told in the answer that the connection
    /// closes. None where nobody comes after this process.
    pub notice: Option<Duration>,
    /// Where it counts.
    pub counters: Arc<ReactorCounters>,
    /// The only CPU it may run on, if any.
    pub cpu: Option<usize>,
}

/// The reactor, as its connections see it.
pub(super) struct Reactor {
    service: Rc<Service>,
    protocol: http1::Builder,
    watch: Watch,
    counters: Arc<ReactorCounters>,
}

impl Reactor {
    pub(super) fn service(&self) -> &Rc<Service> {
        &self.service
    }

    pub(super) fn protocol(&self) -> &http1::Builder {
        &self.protocol
    }

    pub(super) fn watch(&self) -> &Watch {
        &self.watch
    }

    pub(super) fn counters(&self) -> &Arc<ReactorCounters> {
        &self.counters
    }
}

/// Starts a reactor on a thread of its own, to be handed its connections.
pub(super) fn start(setup: Setup, draining: Draining) -> io::Result<Handle> {
    let (queue, connections) = mpsc::unbounded_channel();
    let counters = Arc::clone(&setup.counters);
    spawn(setup, || Ok(Source::Acceptor(connections)), draining)?;
    Ok(Handle {
        queue,
        load: Load::default(),
        counters,
    })
}

/// Starts a reactor on a thread of its own that accepts for itself.
pub(super) fn start_own(setup: Setup, own: Own, draining: Draining) -> io::Result<()> {
    spawn(setup, || own.register().map(Source::Own), draining)
}

/// Returns once the reactor runs, with the `source` that was made on its runtime.
fn spawn(
    setup: Setup,
    source: impl FnOnce() -> io::Result<Source> + Send + 'static,
    draining: Draining,
) -> io::Result<()> {
    let (started, outcome) = std::sync::mpsc::sync_channel(1);
    std::thread::Builder::new()
        .name(setup.name.clone())
        .spawn(move || {
            if let Some(cpu) = setup.cpu {
                pin_to(cpu);
            }
            stream::set_up();
            let mut builder = Builder::new_current_thread();
            let runtime = builder
                .enable_io()
                .enable_time()
                .build_local(LocalOptions::default());
            let begun = runtime.and_then(|runtime| {
                let source = runtime.block_on(async { source() })?;
                Ok((runtime, source))
            });
            match begun {
                Ok((runtime, source)) => {
                    let _ = started.send(Ok(()));
                    runtime.block_on(run(setup, source, draining));
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

async fn run(setup: Setup, source: Source, mut draining: Draining) {
    let index = setup.index;
    let reactor = Rc::new(Reactor {
        service: Rc::new(setup.service),
        protocol: connection::protocol(),
        watch: Watch::new(setup.limits),
        counters: setup.counters,
    });
    let watching = Rc::clone(&reactor);
    tokio::task::spawn_local(async move { watching.watch.keep().await });
    tokio::task::spawn_local(lag::measure(Arc::clone(&reactor.counters)));
    match source {
        Source::Acceptor(connections) => receive(connections, &reactor).await,
        Source::Own(own) => own::accept(own, &reactor, &mut draining).await,
    }
    // Each connection is polled once before it hears of the drain: what had arrived is still answered.
    tokio::task::yield_now().await;
    if let Some(notice) = setup.notice {
        reactor.watch.announce_end();
        tokio::select! {
            () = reactor.watch.emptied() => {}
            () = tokio::time::sleep(notice) => {}
            () = draining.abandoned() => {}
        }
    }
    reactor.watch.drain();
    tokio::select! {
        () = reactor.watch.emptied() => {}
        () = draining.abandoned() => {
            let connections = reactor.watch.len();
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
async fn receive(mut connections: mpsc::UnboundedReceiver<Accepted>, reactor: &Rc<Reactor>) {
    let mut row = Row::default();
    while let Some(Accepted { socket, peer, slot }) = connections.recv().await {
        serve(socket, peer, slot, reactor);
        row.one_more().await;
    }
}

/// New connections one after the other, each of which may be given its first answer.
#[derive(Default)]
pub(super) struct Row(usize);

impl Row {
    /// Lets the others have their turn when there have been many.
    pub(super) async fn one_more(&mut self) {
        self.0 += 1;
        if self.0.is_multiple_of(ROW) {
            tokio::task::yield_now().await;
        }
    }
}

/// Serves an accepted socket, which gets a task of its own unless it is done with at once: short connections most often
/// are, and to make a task costs more than to answer. `slot` is its share of the connections that may be open.
pub(super) fn serve<S: 'static>(
    socket: std::net::TcpStream,
    peer: SocketAddr,
    slot: S,
    reactor: &Rc<Reactor>,
) {
    let socket = Socket::new(socket);
    begin(converse(socket, peer, slot, Rc::clone(reactor)));
}

fn begin(conversation: impl Future<Output = ()> + 'static) {
    let mut conversation = Box::pin(conversation);
    // Nobody is to be woken: in a task, it is looked at once more.
    let mut cx = Context::from_waker(Waker::noop());
    let begun = catch_unwind(AssertUnwindSafe(|| conversation.as_mut().poll(&mut cx)));
    if let Ok(Poll::Pending) = begun {
        drop(tokio::task::spawn_local(conversation));
    }
}

async fn converse<S>(socket: Socket, peer: SocketAddr, slot: S, reactor: Rc<Reactor>) {
    let _finished = Finished(&reactor.counters);
    connection::serve(socket, peer, &reactor).await;
    drop(slot);
}

/// Counts a connection that has ended, also by a panic.
struct Finished<'a>(&'a ReactorCounters);

impl Drop for Finished<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.panics.add(1);
        }
        self.0.finished.add(1);
    }
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
                begin(async move {
                    let _finished = Finished(&counters);
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
