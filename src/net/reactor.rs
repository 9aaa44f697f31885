//! A reactor, as its connections see it: what they share on its thread.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use hyper::server::conn::http1;

use super::connections::Connections;
use super::timeouts::Limits;
use crate::http::Service;
use crate::metrics::ReactorCounters;

/// So many connections of a reactor keep hyper and its buffers, of 16 KiB each, between requests; others give them back at
/// once.
const MOST_WARM: usize = 256;

/// What moves long bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// The connection itself, which takes the socket from hyper for that.
    On,
    /// hyper, in frames.
    Off,
}

/// See the module.
pub(super) struct Reactor {
    service: Rc<Service>,
    protocol: http1::Builder,
    connections: Connections,
    takeover: Takeover,
    /// Connections that have hyper at the moment.
    warm: Cell<usize>,
    counters: Arc<ReactorCounters>,
}

impl Reactor {
    pub(super) fn new(
        service: Service,
        protocol: http1::Builder,
        limits: Limits,
        takeover: Takeover,
        counters: Arc<ReactorCounters>,
    ) -> Self {
        Self {
            service: Rc::new(service),
            protocol,
            connections: Connections::new(limits),
            takeover,
            warm: Cell::new(0),
            counters,
        }
    }

    pub(super) fn service(&self) -> &Rc<Service> {
        &self.service
    }

    pub(super) fn protocol(&self) -> &http1::Builder {
        &self.protocol
    }

    pub(super) fn takeover(&self) -> Takeover {
        self.takeover
    }

    /// Counts a connection that has hyper, as long as the guard lives.
    pub(super) fn warm(&self) -> Warm<'_> {
        self.warm.set(self.warm.get() + 1);
        Warm(&self.warm)
    }

    pub(super) fn connections(&self) -> &Connections {
        &self.connections
    }

    pub(super) fn counters(&self) -> &Arc<ReactorCounters> {
        &self.counters
    }
}

/// A connection that has hyper.
pub(super) struct Warm<'a>(&'a Cell<usize>);

impl Warm<'_> {
    /// Whether it may keep hyper between requests.
    pub(super) fn may_stay(&self) -> bool {
        self.0.get() <= MOST_WARM
    }
}

impl Drop for Warm<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
