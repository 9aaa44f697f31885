//! The open connections of one reactor, and the commands to them.
//!
//! A sweep once a tick looks at each [`ConnectionState`] and sends a command to those that are over a time limit; so a
//! request costs no timer and no clock reading, and a limit is kept to within a tick. A drain and a shortage of
//! connections send their commands here too. A stream of HTTP/2 whose request takes time stands here beside its connection:
//! a slow one ends alone.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Context;
use std::time::Duration;

use slab::Slab;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::timeouts::{Command, CommandSlot, Limits, Observed};
use crate::http::{ConnectionState, Phase};
use crate::metrics::TimeLimit;

/// The connections of one reactor.
#[derive(Debug)]
pub(super) struct Connections {
    limits: Limits,
    entries: RefCell<Slab<Entry>>,
    /// The command that every connection got, and that a new one gets.
    standing: Cell<Option<Command>>,
    /// A connection has ended.
    ended: Notify,
}

#[derive(Debug)]
struct Entry {
    slot: Rc<CommandSlot>,
    state: Rc<ConnectionState>,
    observed: Observed,
    is_stream: bool,
}

impl Entry {
    /// Whether it is between requests, and is not asked to finish already.
    fn is_idle(&self) -> bool {
        !self.is_stream
            && self.state.phase() == Phase::Idle
            && self.slot.peek() != Some(Command::Finish)
    }
}

/// The commands to one connection, which leaves its reactor's connections when this is dropped.
pub(super) struct Commands<'a> {
    connections: &'a Connections,
    index: usize,
    slot: Rc<CommandSlot>,
}

impl Connections {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            entries: RefCell::default(),
            standing: Cell::new(None),
            ended: Notify::new(),
        }
    }

    /// Adds a connection.
    pub(super) fn add(&self, state: &Rc<ConnectionState>) -> Commands<'_> {
        self.insert(state, false)
    }

    /// Adds a stream of a connection.
    pub(super) fn add_stream(&self, state: &Rc<ConnectionState>) -> Commands<'_> {
        self.insert(state, true)
    }

    fn insert(&self, state: &Rc<ConnectionState>, is_stream: bool) -> Commands<'_> {
        let slot = Rc::new(CommandSlot::default());
        if let Some(command) = self.standing.get() {
            slot.send(command);
        }
        let entry = Entry {
            slot: Rc::clone(&slot),
            state: Rc::clone(state),
            observed: Observed::new(state, Instant::now()),
            is_stream,
        };
        Commands {
            connections: self,
            index: self.entries.borrow_mut().insert(entry),
            slot,
        }
    }

    /// Sweeps once a tick, for ever.
    pub(super) async fn sweep(&self) {
        let tick = self.limits.tick();
        let mut ticks = interval(tick);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let now = ticks.tick().await;
            self.sweep_once(now, tick);
        }
    }

    fn sweep_once(&self, now: Instant, tick: Duration) {
        for (_, entry) in &mut *self.entries.borrow_mut() {
            let command = entry.observed.check(&entry.state, now, tick, &self.limits);
            if let Some(command) = command {
                entry.slot.send(command);
            }
        }
    }

    /// Asks every connection, now and from now on, to close after its next answer.
    pub(super) fn announce_end(&self) {
        self.send_all(Command::Last);
    }

    /// Asks every connection, now and from now on, to finish.
    pub(super) fn drain(&self) {
        self.send_all(Command::Finish);
    }

    fn send_all(&self, command: Command) {
        self.standing.set(Some(command));
        for (_, entry) in &*self.entries.borrow() {
            entry.slot.send(command);
        }
    }

    /// Asks the connection that has been idle longest to finish, or gives up the one that has paused longest in a body, if
    /// there is one and `confirm` agrees. How long is known to within a tick.
    pub(super) fn close_idlest(&self, confirm: impl FnOnce() -> bool) {
        let entries = self.entries.borrow();
        let idle = entries.iter().map(|(_, entry)| entry);
        let idle = idle.filter(|entry| entry.is_idle());
        let idlest = idle.min_by_key(|entry| entry.observed.idle_since(&entry.state));
        let paused = || {
            let entries = entries.iter().map(|(_, entry)| entry);
            entries.filter_map(|entry| Some((entry.observed.makes_room(&entry.state)?, entry)))
        };
        let chosen = match idlest {
            Some(entry) => Some((entry, Command::Finish)),
            None => paused()
                .max_by_key(|(paused, _)| *paused)
                .map(|(_, entry)| (entry, Command::TooSlow(TimeLimit::Body))),
        };
        if let Some((entry, command)) = chosen
            && confirm()
        {
            entry.slot.send(command);
        }
    }

    /// Waits until no connection is left.
    pub(super) async fn emptied(&self) {
        while self.len() > 0 {
            self.ended.notified().await;
        }
    }

    pub(super) fn len(&self) -> usize {
        let entries = self.entries.borrow();
        entries.iter().filter(|(_, entry)| !entry.is_stream).count()
    }
}

impl Commands<'_> {
    /// Leaves `command`, which was taken, to the next who asks.
    pub(super) fn repeat(&self, command: Command) {
        self.slot.send(command);
    }

    /// The next command, if there is one; else has `cx` woken when it comes.
    pub(super) fn next(&self, cx: &Context<'_>) -> Option<Command> {
        self.slot.take(cx)
    }
}

impl Drop for Commands<'_> {
    fn drop(&mut self) {
        self.connections.entries.borrow_mut().remove(self.index);
        self.connections.ended.notify_waiters();
    }
}
