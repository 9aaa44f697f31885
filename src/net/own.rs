//! A reactor that accepts for itself: the only one there is, or, with `reuse-port`, one of several with a listener each.
//!
//! The rules of accepting are the acceptor's. Among several listeners the kernel spreads connections by a hash of their
//! addresses, not evenly: that is for comparison, and for loads of many short connections.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::accept::{Attempt, Backoff, LONGEST_PAUSE, attempt};
use super::peers::Peers;
use super::reactor::{Reactor, Row, serve};
use crate::drain::Draining;

/// A reactor's own listener, and the connections that all reactors together may have open.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) listener: TcpListener,
    /// It is there after this process: whoever still waits is left to the next.
    pub(super) outlives: bool,
    pub(super) slots: Arc<Semaphore>,
    pub(super) peers: Peers,
}

/// [`Own`], and the driver of the runtime knows its listener.
#[derive(Debug)]
pub(super) struct Listening {
    listener: AsyncFd<TcpListener>,
    outlives: bool,
    slots: Arc<Semaphore>,
    peers: Peers,
}

impl Own {
    /// To be called on the runtime, before it is said that the reactor runs: one that cannot listen does not.
    #[expect(
        deprecated,
        reason = "what replaces it is unsafe, for types that lie about their descriptor; a TcpListener does not"
    )]
    pub(super) fn register(self) -> io::Result<Listening> {
        Ok(Listening {
            listener: AsyncFd::with_interest(self.listener, Interest::READABLE)?,
            outlives: self.outlives,
            slots: self.slots,
            peers: self.peers,
        })
    }
}

/// Accepts until `draining` asks for the end; who was connected before is still served.
pub(super) async fn accept(own: Listening, reactor: &Rc<Reactor>, draining: &mut Draining) {
    tokio::select! {
        () = accept_for_ever(&own.listener, &own.slots, &own.peers, reactor) => {}
        () = draining.asked() => {}
    }
    while !own.outlives
        && let Ok(slot) = Arc::clone(&own.slots).try_acquire_owned()
    {
        let Attempt::Connection(socket, peer) = attempt(own.listener.get_ref()) else {
            break;
        };
        serve_guest(socket, peer, slot, &own.peers, reactor);
    }
}

/// Serves the connection, if its client may have one more.
fn serve_guest(
    socket: TcpStream,
    peer: SocketAddr,
    slot: OwnedSemaphorePermit,
    peers: &Peers,
    reactor: &Rc<Reactor>,
) {
    let accepting = &reactor.counters().accepting;
    let Some(guest) = peers.admit(peer.ip()) else {
        accepting.refused.add(1);
        return;
    };
    accepting.accepted.add(1);
    serve(socket, peer, (slot, guest), reactor);
}

async fn accept_for_ever(
    listener: &AsyncFd<TcpListener>,
    slots: &Arc<Semaphore>,
    peers: &Peers,
    reactor: &Rc<Reactor>,
) {
    let (mut backoff, mut row) = (Backoff::default(), Row::default());
    let accepting = &reactor.counters().accepting;
    loop {
        backoff.recover();
        let readable = if backoff.is_active() {
            // Looks again after a while: the end of an episode is told also when nobody comes.
            match timeout(LONGEST_PAUSE, listener.readable()).await {
                Ok(readable) => readable,
                Err(_) => continue,
            }
        } else {
            listener.readable().await
        };
        let Ok(mut ready) = readable else { return };
        // Taken only when a client waits: a reactor at rest leaves its share to the others. Never closed.
        let Ok(slot) = Arc::clone(slots).acquire_owned().await else {
            return;
        };
        match attempt(listener.get_ref()) {
            Attempt::Connection(socket, peer) => {
                serve_guest(socket, peer, slot, peers, reactor);
                row.one_more().await;
            }
            Attempt::PeerFailed => accepting.errors.add(1),
            Attempt::Nobody => ready.clear_ready(),
            Attempt::Exhausted(errno) => {
                accepting.errors.add(1);
                drop(slot);
                tokio::time::sleep(backoff.failed(errno)).await;
            }
        }
    }
}
