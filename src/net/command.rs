//! Commands: what a reactor asks of one of its connections.
//!
//! A connection has room for one command. A later one replaces it, unless it matters less: then the connection is woken
//! and finds the earlier one. Everything stays on one thread.

use std::cell::{Cell, RefCell};
use std::task::{Context, Waker};

use crate::metrics::TimeLimit;

/// A command to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Finish the request under way, then close.
    Finish,
    /// Close after the next answer, and say so in it.
    Last,
    /// Try to send.
    Nudge,
    /// Nothing has happened for a while: keep no buffers.
    Rest,
    /// Close: the head of a request did not arrive in time.
    LateHead,
    /// Cut: a response is made for a client that has closed its side, and may have gone.
    Abandon,
    /// Stop waiting: the peer is over this limit with a body.
    TooSlow(TimeLimit),
}

impl Command {
    /// Whether it changes nothing of what becomes of the connection.
    fn is_light(self) -> bool {
        matches!(self, Self::Nudge | Self::Rest)
    }
}

/// Where a command waits for its connection.
#[derive(Debug, Default)]
pub(super) struct CommandSlot {
    command: Cell<Option<Command>>,
    waker: RefCell<Option<Waker>>,
}

impl CommandSlot {
    /// Leaves `command` here, and wakes the connection.
    pub(super) fn send(&self, command: Command) {
        if !command.is_light() || self.command.get().is_none() {
            self.command.set(Some(command));
        }
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// The command that waits, which goes on waiting.
    pub(super) fn peek(&self) -> Option<Command> {
        self.command.get()
    }

    /// Takes the command that waits; has `cx` woken for the next one.
    pub(super) fn take(&self, cx: &Context<'_>) -> Option<Command> {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        self.command.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    const WEIGHTY: [Command; 5] = [
        Command::Finish,
        Command::Last,
        Command::LateHead,
        Command::Abandon,
        Command::TooSlow(TimeLimit::Rate),
    ];

    #[test]
    fn a_nudge_does_not_replace_a_command_that_was_not_taken_yet() {
        for command in WEIGHTY {
            let slot = CommandSlot::default();
            slot.send(command);
            slot.send(Command::Nudge);
            assert_eq!(slot.command.take(), Some(command));
            // Once that is taken, a nudge has room.
            slot.send(Command::Nudge);
            assert_eq!(slot.command.take(), Some(Command::Nudge));
        }
    }

    #[test]
    fn any_command_takes_the_place_of_a_nudge_and_a_later_one_that_of_an_earlier() {
        for command in WEIGHTY {
            let slot = CommandSlot::default();
            slot.send(Command::Nudge);
            slot.send(command);
            assert_eq!(slot.command.get(), Some(command));
            slot.send(Command::Finish);
            assert_eq!(slot.command.get(), Some(Command::Finish));
        }
    }

    #[test]
    fn a_connection_is_woken_for_every_command_also_for_a_nudge_that_replaces_none() {
        let woken = Arc::new(Woken::default());
        let slot = CommandSlot::default();
        *slot.waker.borrow_mut() = Some(Arc::clone(&woken).into());
        for (sent, command) in (1..).zip([Command::Finish, Command::Nudge, Command::Nudge]) {
            slot.send(command);
            assert_eq!(woken.0.load(Ordering::Relaxed), sent);
        }
    }
}
