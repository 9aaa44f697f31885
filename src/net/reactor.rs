//! A reactor: one thread, one current-thread runtime, and the connections that were handed to it.
//!
//! Everything of a connection happens here, on this thread; nothing of it is shared with another. A task that panics
//! takes its connection with it and nothing else.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::Arc;

use hyper::server::conn::http1;
use rustix::thread::CpuSet;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc;

use super::acceptor::Slot;
use super::connection;
use super::watch::{Limits, Watch};
use crate::drain::Draining;
use crate::http::Service;
use crate::metrics::ReactorCounters;

/// A connection on its way from the acceptor to a reactor.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) socket: TcpStream,
    pub(super) peer: SocketAddr,
    /// Its share of the connections that may be open.
    pub(super) slot: Slot,
}

/// Where the acceptor hands a reactor its connections; dropping it asks the reactor to drain.
///
/// The channel has no bound of its own, so that handing over never waits: every connection in it holds a slot.
pub(super) type Handle = mpsc::UnboundedSender<Accepted>;

/// What a reactor is made of.
#[derive(Debug)]
pub struct Setup {
    /// Its number, from 0.
    pub index: usize,
    /// What answers requests.
    pub service: Service,
    /// How long peers may take.
    pub limits: Limits,
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
}

/// Starts a reactor on a thread of its own; returns once it runs.
pub(super) fn start(setup: Setup, draining: Draining) -> io::Result<Handle> {
    let (handle, connections) = mpsc::unbounded_channel();
    let (started, outcome) = std::sync::mpsc::sync_channel(1);
    std::thread::Builder::new()
        .name(format!("reactor-{}", setup.index))
        .spawn(move || {
            if let Some(cpu) = setup.cpu {
                pin_to(cpu);
            }
            match Builder::new_current_thread()
                .enable_io()
                .enable_time()
                .build_local(LocalOptions::default())
            {
                Ok(runtime) => {
                    let _ = started.send(Ok(()));
                    runtime.block_on(run(setup, connections, draining));
                }
                Err(error) => drop(started.send(Err(error))),
            }
        })?;
    outcome.recv().map_err(io::Error::other)??;
    Ok(handle)
}

fn pin_to(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        tracing::warn!(cpu, %error, "cannot pin a reactor to its CPU");
    }
}

async fn run(
    setup: Setup,
    mut connections: mpsc::UnboundedReceiver<Accepted>,
    mut draining: Draining,
) {
    let Setup {
        index,
        service,
        limits,
        counters,
        cpu: _,
    } = setup;
    let reactor = Rc::new(Reactor {
        service: Rc::new(service),
        protocol: connection::protocol(),
        watch: Watch::new(limits),
        counters,
    });
    let watching = Rc::clone(&reactor);
    tokio::task::spawn_local(async move { watching.watch.keep().await });

    while let Some(accepted) = connections.recv().await {
        reactor.counters.connections.add(1);
        tokio::task::spawn_local(serve(accepted, Rc::clone(&reactor)));
    }
    // Each connection is polled once before it hears of the drain: what had arrived is still answered.
    tokio::task::yield_now().await;
    reactor.watch.drain();
    tokio::select! {
        () = reactor.watch.emptied() => {}
        () = draining.abandoned() => {
            tracing::warn!(reactor = index, connections = reactor.watch.len(), "connections abandoned: the grace period is over");
        }
    }
    let (connections, requests) = (
        reactor.counters.connections.get(),
        reactor.counters.requests.get(),
    );
    tracing::info!(reactor = index, connections, requests, "reactor drained");
}

async fn serve(accepted: Accepted, reactor: Rc<Reactor>) {
    let Accepted { socket, peer, slot } = accepted;
    match tokio::net::TcpStream::from_std(socket) {
        Ok(socket) => reactor
            .counters
            .requests
            .add(connection::serve(socket, peer, &reactor).await),
        Err(error) => tracing::warn!(%peer, %error, "cannot register a connection"),
    }
    drop(slot);
}
