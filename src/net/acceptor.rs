//! The acceptor: a thread that accepts for several reactors.

use std::io;
use std::sync::Arc;

use super::accept_loop;
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
pub(super) fn start<T: Target + Clone + Send + 'static>(
    listeners: Vec<Listener>,
    limit: Arc<ConnectionLimit>,
    targets: Targets<T>,
    draining: Draining,
) -> io::Result<()> {
    let set_up = move || {
        // Failing costs switches, no connection.
        let _ = rustix::process::nice(NICENESS);
        listeners.into_iter().map(Listener::register).collect()
    };
    let held = draining.clone();
    let run = async move |listeners| accept_loop::run(listeners, &limit, targets, &draining).await;
    runtime_thread::start("acceptor".to_owned(), set_up, run, held)
}
