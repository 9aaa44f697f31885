//! One connection, from the first byte to an orderly close: a loop with one owner of the socket at a time.
//!
//! It rests, with no buffers, until a request begins. hyper then reads requests and answers them. A long body takes the
//! socket over: hyper is dropped, the connection moves the body itself, and a new hyper goes on behind it. Promises that the
//! connection ends within its limits whatever the peer does, that a request which arrived whole is performed although its
//! client closes or resets the connection, and that a request being answered when the server drains is answered.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, Version};
use hyper_util::rt::TokioIo;
use rustix::io::ioctl_fionread;
use rustix::net::{Shutdown, shutdown};

use super::command::Command;
use super::connections::Commands;
use super::hyper_io::HyperIo;
use super::reactor::{Reactor, Takeover};
use super::resting;
use super::socket::Socket;
use super::socket_reader::SocketReader;
use super::socket_writer::SocketWriter;
use super::takeover::{self, Taken};
use crate::http::{
    Answer, Body, ConnectionState, FramingError, MAX_HEAD, Phase, Session, Upgraded, Work,
};

/// What hyper may hold of a request that is being received, in bytes.
const RECEIVE_BUFFER: usize = 256 << 10;

/// How long a client that is still sending has to read a response that came early.
const LINGER: Duration = Duration::from_secs(2);

/// How much of what such a client sends is read and dropped, in bytes.
const MOST_DROPPED: usize = 1 << 20;

/// The protocol's settings, the same for all connections.
pub(super) fn protocol() -> http1::Builder {
    let mut protocol = http1::Builder::new();
    // The sweep keeps all time limits, this one among them: hyper would need a timer for each request.
    protocol
        .header_read_timeout(None)
        .half_close(true)
        .max_header_size(MAX_HEAD)
        .max_buf_size(RECEIVE_BUFFER);
    protocol
}

/// Serves `socket` until it is closed.
pub(super) async fn serve(socket: Socket, peer: SocketAddr, reactor: &Reactor) {
    let state = Rc::new(ConnectionState::new(Arc::clone(reactor.counters())));
    let socket = Rc::new(socket);
    let connection = Connection {
        peer,
        reactor,
        writer: Rc::new(SocketWriter::new(&socket, &state)),
        socket,
        commands: reactor.connections().add(&state),
        state,
    };
    if let Err(error) = connection.run().await {
        if error.is_parse() {
            connection.state.refused_head();
        }
        tracing::debug!(%peer, %error, "connection broken");
    }
}

/// What broke a connection.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("{0}")]
    Socket(#[from] io::Error),
    #[error("{0}")]
    Protocol(#[from] hyper::Error),
}

impl Broken {
    fn is_parse(&self) -> bool {
        matches!(self, Self::Protocol(error) if error.is_parse())
    }
}

/// What comes after hyper.
enum Next {
    /// Requests go on.
    Rest,
    /// The connection closes in order.
    Close,
    /// The connection closes at once: nothing more is sent or read.
    Cut,
    /// A request is rejected, and the connection closes.
    Reject(FramingError),
    /// A long body is moved.
    TakeOver(Taken),
    /// The protocol is another from now on.
    Upgrade(Box<Session>),
}

struct Connection<'a> {
    peer: SocketAddr,
    reactor: &'a Reactor,
    state: Rc<ConnectionState>,
    socket: Rc<Socket>,
    writer: Rc<SocketWriter>,
    commands: Commands<'a>,
}

impl Connection<'_> {
    async fn run(&self) -> Result<(), Broken> {
        let mut received = BytesMut::new();
        loop {
            if received.is_empty() && !self.rest(&mut received).await? {
                return self.close(&received).await;
            }
            // Boxed, so that a connection at rest has no room set aside for it.
            let (next, behind) = Box::pin(self.speak(received)).await?;
            received = behind;
            match next {
                Next::Rest => {}
                Next::Close => return self.close(&received).await,
                Next::Cut => return Ok(()),
                Next::Reject(error) => {
                    let service = self.reactor.service();
                    let response = service.reject(&self.state, self.peer, error, &received);
                    self.take_over(Taken::Response(response), &mut received)
                        .await?;
                    return self.close(&received).await;
                }
                Next::TakeOver(taken) => {
                    self.reactor.counters().takes_over(taken.direction());
                    if self.take_over(taken, &mut received).await? {
                        return self.close(&received).await;
                    }
                }
                Next::Upgrade(session) => {
                    if self.run_session(session, &received).await {
                        return self.close(&[]).await;
                    }
                    return Ok(());
                }
            }
        }
    }

    /// Waits for the first bytes of a request; false when none come.
    async fn rest(&self, received: &mut BytesMut) -> io::Result<bool> {
        poll_fn(|cx| {
            let command = self.commands.next(cx);
            if !self.follow(command) {
                return Poll::Ready(Ok(false));
            }
            match resting::poll_receive(&self.socket, &self.state, cx, received) {
                // Polled before, so that a request which had arrived is still read.
                Poll::Pending if self.state.is_draining() => Poll::Ready(Ok(false)),
                Poll::Pending if command == Some(Command::LateHead) => Poll::Ready(Ok(false)),
                polled => polled,
            }
        })
        .await
    }

    /// Has hyper serve requests, those in `received` first, until something else is to be done: what, and what was received
    /// and not used.
    async fn speak(&self, received: BytesMut) -> Result<(Next, BytesMut), hyper::Error> {
        let reader = SocketReader::new(&self.socket, &self.state, received);
        let input = Rc::clone(reader.state());
        let io = HyperIo::new(reader, &self.writer, &self.state);
        let unflushed = Rc::clone(io.unflushed());
        let (taken, upgraded) = (RefCell::default(), Upgraded::default());
        let service = service_fn(|request| self.call(request, &taken, &upgraded));
        let mut hyper = self.reactor.protocol().serve_connection(io, service);
        let before = self.state.requests();
        let warm = self.reactor.warm();
        let mut is_late = false;
        let next = poll_fn(|cx| {
            let command = self.commands.next(cx);
            if !self.follow(command) {
                return Poll::Ready(hyper::Result::Ok(Next::Cut));
            }
            is_late |= command == Some(Command::LateHead);
            let rests = command == Some(Command::Rest) || !warm.may_stay();
            let was_watching = self.state.phase() == Phase::Watching;
            input.is_starved.set(false);
            let polled = hyper.poll_without_shutdown(cx)?;
            let has_more = input.requests.get() > self.state.requests() - before;
            if polled.is_pending() && self.is_deserted(was_watching, has_more, cx) {
                return Poll::Ready(Ok(Next::Cut));
            }
            // hyper calls a connection done whose last response it holds, and goes on with it if it is asked to.
            if unflushed.get() {
                return Poll::Pending;
            }
            if polled.is_ready() {
                return Poll::Ready(Ok(Next::Close));
            }
            if let Some(taken) = taken.take() {
                return Poll::Ready(Ok(Next::TakeOver(taken)));
            }
            if self.state.is_serving() || !input.is_starved.get() {
                return Poll::Pending;
            }
            let holds_part = input.holds_part.get();
            let next = match input.error.get() {
                Some(error) => Next::Reject(error),
                None if is_late && holds_part => Next::Reject(FramingError::Late),
                None if is_late => Next::Close,
                None if self.state.is_draining() && !holds_part => Next::Close,
                None if rests && self.state.phase() == Phase::Idle => Next::Rest,
                None => return Poll::Pending,
            };
            Poll::Ready(Ok(next))
        })
        .await;
        let parts = hyper.into_parts();
        // hyper would leave a connection as it is that asked for any upgrade, also one that was answered as if it had not.
        let next = match (next?, upgraded.take()) {
            (Next::Close, Some(session)) => Next::Upgrade(session),
            (next, _) => next,
        };
        let mut received = BytesMut::from(parts.read_buf);
        received.unsplit(parts.io.into_reader().into_held());
        Ok((next, received))
    }

    /// Whether the connection is not worth keeping: its client is gone, and nothing is done that changes anything; or it is a
    /// subscriber that does not read while the server drains. `has_more` when other requests have arrived.
    fn is_deserted(&self, was_watching: bool, has_more: bool, cx: &mut Context<'_>) -> bool {
        let is_watching = self.state.phase() == Phase::Watching;
        if was_watching && self.state.is_draining() {
            // A subscriber that comes back can go on where it was.
            return is_watching || self.state.progress().is_writing();
        }
        if has_more || !self.state.is_for_client_alone() {
            return false;
        }
        match resting::poll_end(&self.socket, cx) {
            Poll::Pending => false,
            // A client that closes its side may still read what it asked for (RFC 9112, section 9.6), but for a response
            // without end.
            Poll::Ready(Ok(())) => {
                self.state.half_close();
                is_watching
            }
            Poll::Ready(Err(_)) => true,
        }
    }

    /// The answer to `request`, or, where the connection moves its body itself, what is to be done, left in `taken`.
    fn call<'c>(
        &'c self,
        request: Request<Incoming>,
        taken: &'c RefCell<Option<Taken>>,
        upgraded: &Upgraded,
    ) -> Pending<'c> {
        let can_take = self.reactor.takeover() == Takeover::On
            && request.version() == Version::HTTP_11
            && request.method() != Method::HEAD;
        let service = self.reactor.service();
        let progress = match service.call(&self.state, self.peer, request, upgraded) {
            Answer::Ready(response) => Stage::Ready(Some(response)),
            Answer::Working(work) => Stage::Working(work),
            Answer::Upload(task) if can_take && takeover::is_worth(&task) => {
                *taken.borrow_mut() = Some(Taken::Upload(task));
                Stage::Ready(None)
            }
            Answer::Upload(task) => Stage::Working(task.with_frames()),
        };
        Pending {
            stage: progress,
            taken: can_take.then_some(taken),
        }
    }

    /// Moves a long body, which `received` may begin with; true when the connection ends with it.
    async fn take_over(&self, taken: Taken, received: &mut BytesMut) -> io::Result<bool> {
        let service = self.reactor.service();
        let mut moving = Box::pin(takeover::run(
            taken,
            received,
            service,
            &self.socket,
            &self.writer,
            &self.state,
        ));
        poll_fn(|cx| {
            if self.follow(self.commands.next(cx)) {
                moving.as_mut().poll(cx)
            } else {
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        })
        .await
    }

    /// Runs the session that the connection was upgraded to; false when it was cut.
    async fn run_session(&self, session: Box<Session>, received: &[u8]) -> bool {
        let is_early = !received.is_empty();
        let reader = SocketReader::raw(&self.socket, &self.state, BytesMut::new());
        let io = TokioIo::new(HyperIo::new(reader, &self.writer, &self.state));
        let mut running = Box::pin(session.run(io, is_early));
        poll_fn(|cx| {
            if self.follow(self.commands.next(cx)) {
                running.as_mut().poll(cx).map(|()| true)
            } else {
                Poll::Ready(false)
            }
        })
        .await
    }

    /// Does what `command` means in every state; false when the connection is to be cut.
    fn follow(&self, command: Option<Command>) -> bool {
        match command {
            Some(Command::Nudge) => self.socket.nudge(),
            // A subscriber asks no more.
            Some(Command::Last) if self.state.phase() == Phase::Watching => self.state.drain(),
            Some(Command::Last) => self.state.close_after_response(),
            Some(Command::Finish) => self.state.drain(),
            Some(Command::TooSlow) => return false,
            Some(Command::LateHead | Command::Rest) | None => {}
        }
        true
    }

    /// Shuts the connection down in order. A client that has sent more than was read, `received` among it, or is still
    /// sending, is read for a while: closing with bytes unread would reset the connection, and the client might never see
    /// its response.
    async fn close(&self, received: &[u8]) -> Result<(), Broken> {
        let is_read = || self.socket.with(|socket| Ok(ioctl_fionread(socket)? == 0));
        if !self.state.left_unread() && received.is_empty() && is_read()? {
            // To close is to shut down in order here: the socket has no other owner.
            return Ok(());
        }
        self.socket
            .with(|socket| Ok(shutdown(socket, Shutdown::Write)?))?;
        let mut dropped = 0;
        let lingering = poll_fn(|cx| {
            while dropped < MOST_DROPPED {
                match ready!(resting::poll_drop(&self.socket, &self.state, cx))? {
                    0 => return Poll::Ready(io::Result::Ok(())),
                    read => dropped += read,
                }
            }
            // A client that goes on and on has the rest of the time to see its response.
            Poll::Pending
        });
        if let Ok(lingered) = tokio::time::timeout(LINGER, lingering).await {
            lingered?;
        }
        Ok(())
    }
}

/// The answer to a request, for hyper. Stays pending when the connection takes it over.
struct Pending<'a> {
    stage: Stage,
    /// Where a response is left that the connection sends itself, if it may.
    taken: Option<&'a RefCell<Option<Taken>>>,
}

enum Stage {
    /// Known already; empty once it has been given.
    Ready(Option<Response<Body>>),
    Working(Work),
}

impl Future for Pending<'_> {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let response = match &mut self.stage {
            Stage::Ready(response) => match response.take() {
                Some(response) => response,
                None => return Poll::Pending,
            },
            Stage::Working(work) => ready!(work.as_mut().poll(cx)),
        };
        match self.taken {
            Some(taken) if response.body().is_long() => {
                *taken.borrow_mut() = Some(Taken::Response(response));
                self.stage = Stage::Ready(None);
                Poll::Pending
            }
            _ => Poll::Ready(Ok(response)),
        }
    }
}
