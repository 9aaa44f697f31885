//! The acceptor: a thread that accepts for several reactors.

use std::io;
use std::sync::Arc;

use super::accept_loop::AcceptLoop;
use super::balance::{Target, Targets};
use super::connection_limit::ConnectionLimit;
use super::listener::Listener;
use super::runtime_thread;
use crate::drain::Draining;

/// How much less than a reactor the acceptor asks of a processor that they share: enough for the scheduler to let a
/// reactor finish its turn before clients that come meanwhile are accepted, all at once. It costs two switches for each
/// connection otherwise.
const NICENESS: i32 = 5;

/// Starts accepting for `targets`, until `draining` asks for the end; their handles are dropped then.
pub(super) fn start<T: Target + Send + 'static>(
    listener: Listener,
    limit: Arc<ConnectionLimit>,
    targets: Targets<T>,
    mut draining: Draining,
) -> io::Result<()> {
    let set_up = move || {
        // Failing costs switches, no connection.
        let _ = rustix::process::nice(NICENESS);
        listener.register()
    };
    runtime_thread::start("acceptor".to_owned(), set_up, async move |listener| {
        let accepting = AcceptLoop::new(listener, limit, targets);
        accepting.run(&mut draining).await;
    })
}
