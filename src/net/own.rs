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

/// Accepts until `draining` asks for the end; who was connected before is still served.
pub(super) async fn accept(own: Own, reactor: &Rc<Reactor>, draining: &mut Draining) {
    let listener = match register(own.listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "a reactor cannot listen");
            return;
        }
    };
    tokio::select! {
        () = accept_for_ever(&listener, &own.slots, &own.peers, reactor) => {}
        () = draining.asked() => {}
    }
    while !own.outlives
        && let Ok(slot) = Arc::clone(&own.slots).try_acquire_owned()
    {
        let Attempt::Connection(socket, peer) = attempt(listener.get_ref()) else {
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

#[expect(
    deprecated,
    reason = "what replaces it is unsafe, for types that lie about their descriptor; a TcpListener does not"
)]
fn register(listener: TcpListener) -> io::Result<AsyncFd<TcpListener>> {
    AsyncFd::with_interest(listener, Interest::READABLE)
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
