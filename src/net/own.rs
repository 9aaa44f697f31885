//! `reuse-port`: a reactor accepts for itself, from a listener of its own that the kernel shares connections out to.
//!
//! The kernel spreads connections by a hash of their addresses, not evenly: this is for comparison, and for loads of many
//! short connections. The rules of accepting are the acceptor's.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::backoff::{Backoff, is_peers_fault};
use super::reactor::{Reactor, serve};
use crate::drain::Draining;

/// A reactor's own listener, and the connections that all reactors together may have open.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) listener: std::net::TcpListener,
    pub(super) slots: Arc<Semaphore>,
}

/// Accepts until `draining` asks for the end.
pub(super) async fn accept(own: Own, reactor: &Rc<Reactor>, draining: &mut Draining) {
    let listener = match TcpListener::from_std(own.listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "a reactor cannot listen");
            return;
        }
    };
    let mut backoff = Backoff::default();
    loop {
        // The semaphore is never closed.
        let Ok(slot) = Arc::clone(&own.slots).acquire_owned().await else {
            return;
        };
        tokio::select! {
            biased;
            accepted = listener.accept() => match accepted {
                Ok((socket, peer)) => {
                    backoff.recover();
                    hand_over(socket, peer, slot, reactor);
                }
                Err(error) => rest_after(&error, &mut backoff).await,
            },
            () = draining.asked() => return,
        }
    }
}

fn hand_over(
    socket: TcpStream,
    peer: SocketAddr,
    slot: tokio::sync::OwnedSemaphorePermit,
    reactor: &Rc<Reactor>,
) {
    tokio::task::spawn_local(serve(socket, peer, slot, Rc::clone(reactor)));
}

async fn rest_after(error: &io::Error, backoff: &mut Backoff) {
    let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
    if !is_peers_fault(errno) {
        tokio::time::sleep(backoff.failed(errno)).await;
    }
}
