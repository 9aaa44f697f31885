//! How many connections are open, and whether more may be.
//!
//! The acceptor takes a [`Slot`] for each connection; the connection gives it back when it ends, on whatever thread, and
//! rings when the acceptor may be waiting for that.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::event::{EventfdFlags, eventfd};

use super::peers::Guest;

/// Connections open on one reactor.
pub(super) type Load = Arc<AtomicUsize>;

/// Accepting goes on as long as this lives.
#[derive(Debug)]
pub struct Accepting(pub(super) Arc<Gate>);

impl Drop for Accepting {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Release);
        self.0.ring();
    }
}

/// What decides whether the acceptor may go on, and the bell that has it look again.
#[derive(Debug)]
pub(super) struct Gate {
    /// Connections open now.
    open: AtomicUsize,
    max: usize,
    ended: AtomicBool,
    bell: OwnedFd,
}

impl Gate {
    pub(super) fn new(max: usize) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            open: AtomicUsize::new(0),
            max,
            ended: AtomicBool::new(false),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        }))
    }

    /// Readable when it has been rung.
    pub(super) fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    pub(super) fn is_full(&self) -> bool {
        self.open.load(Ordering::Acquire) >= self.max
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    fn ring(&self) {
        // Fails only when the bell has been rung 2^64 times unheard.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    pub(super) fn silence(&self) {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }
}

/// A connection's share of the connections that may be open; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    gate: Arc<Gate>,
    load: Load,
    _guest: Guest,
}

impl Slot {
    /// Takes a slot for a connection of `guest`'s on the reactor with this `load`.
    pub(super) fn take(gate: &Arc<Gate>, load: &Load, guest: Guest) -> Self {
        gate.open.fetch_add(1, Ordering::AcqRel);
        load.fetch_add(1, Ordering::Relaxed);
        Self {
            gate: Arc::clone(gate),
            load: Arc::clone(load),
            _guest: guest,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.load.fetch_sub(1, Ordering::Relaxed);
        if self.gate.open.fetch_sub(1, Ordering::AcqRel) >= self.gate.max {
            self.gate.ring();
        }
    }
}
