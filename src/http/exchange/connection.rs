//! A connection, as its requests, its protocol and the time limits share it: how it is to end, and what its client has
//! proved.
//!
//! What is asked of it are levels, which only grow. Reading a level leaves it in place: each of its readers looks at it
//! whenever it has its turn.

use std::cell::Cell;
use std::sync::Arc;

use crate::http::auth::credentials::AuthCache;
use crate::metrics::ReactorCounters;

/// How far a connection was asked to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ends {
    /// It stays open.
    #[default]
    Open,
    /// Its next response is the last, and says so. A response without an end ends.
    Last,
    /// It ends with the request under way, or at once where there is none.
    Finish,
    /// It is cut.
    Abandon,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    /// The counters of its reactor.
    pub counters: Arc<ReactorCounters>,
    /// What its client has proved, for all its streams.
    pub proven: AuthCache,
    /// Requests that have arrived so far, on all its streams.
    pub requests: Cell<u64>,
    ends: Cell<Ends>,
    /// The head that follows this number of requests is late.
    late_after: Cell<u64>,
    /// After this number of requests nothing has happened for a while.
    quiet_after: Cell<u64>,
}

impl Connection {
    /// A new connection, whose requests are counted in `counters`.
    pub fn new(counters: Arc<ReactorCounters>) -> Self {
        Self {
            counters,
            proven: AuthCache::default(),
            requests: Cell::new(0),
            ends: Cell::default(),
            late_after: Cell::new(u64::MAX),
            quiet_after: Cell::new(u64::MAX),
        }
    }

    /// How far it was asked to end.
    pub fn ends(&self) -> Ends {
        self.ends.get()
    }

    /// Asks it to end, if it was not asked to end as soon; true where it was not.
    pub fn end(&self, ends: Ends) -> bool {
        ends > self.ends.replace(self.ends.get().max(ends))
    }

    /// True where the head that is received took too long.
    pub fn is_late(&self) -> bool {
        self.late_after.get() == self.requests.get()
    }

    /// The head that is received has taken too long.
    pub fn expire_head(&self) -> bool {
        self.late_after.replace(self.requests.get()) != self.requests.get()
    }

    /// True where it should keep no buffers: it has been idle since its last request for a while.
    pub fn is_quiet(&self) -> bool {
        self.quiet_after.get() == self.requests.get()
    }

    /// It has been idle for a while.
    pub fn rest(&self) -> bool {
        self.quiet_after.replace(self.requests.get()) != self.requests.get()
    }
}
