//! The context of a connection, which every owner of its socket works with: the loop of the connection, hyper, and the takeover.

use std::rc::Rc;
use std::sync::Arc;

use super::connections::Commands;
use super::reactor::Reactor;
use super::socket::Socket;
use super::socket_writer::SocketWriter;
use super::timeouts::Command;
use crate::http::{Client, ConnectionState, Handover, Phase};

/// The context of one connection.
pub(super) struct ConnectionContext<'a> {
    pub(super) client: Client,
    pub(super) reactor: &'a Rc<Reactor>,
    pub(super) state: Rc<ConnectionState>,
    pub(super) socket: Rc<Socket>,
    pub(super) writer: Rc<SocketWriter>,
    pub(super) commands: Commands<'a>,
    /// The work that a request leaves for the connection.
    pub(super) handover: Rc<Handover>,
}

impl<'a> ConnectionContext<'a> {
    /// Of a new connection of `reactor`.
    pub(super) fn new(socket: Socket, client: Client, reactor: &'a Rc<Reactor>) -> Self {
        let state = Rc::new(ConnectionState::new(Arc::clone(reactor.counters())));
        let socket = Rc::new(socket);
        Self {
            client,
            reactor,
            writer: Rc::new(SocketWriter::new(&socket, &state)),
            socket,
            commands: reactor.connections().add(&state),
            handover: Rc::default(),
            state,
        }
    }

    /// Begins a turn, and does what `command` means in every state; false when the connection is to be cut.
    pub(super) fn apply_command(&self, command: Option<Command>) -> bool {
        self.state.begin_turn();
        match command {
            Some(Command::Nudge) => self.socket.raw().nudge(),
            // A subscriber asks no more.
            Some(Command::Last) if self.state.phase() == Phase::Watching => self.state.drain(),
            Some(Command::Last) => self.state.close_after_response(),
            Some(Command::Finish) => self.state.drain(),
            Some(Command::Abandon) => return false,
            Some(Command::TooSlow(limit)) => {
                self.reactor.exceeds(limit, self.client);
                return self.state.give_up_body();
            }
            Some(Command::LateHead | Command::Rest) | None => {}
        }
        true
    }
}
