//! Watching: changes told to subscribers as they are acknowledged, by Server-Sent Events or over a WebSocket.

pub mod events;
pub mod feed;
pub mod request;
pub mod subscribe;
pub mod websocket;

pub use feed::Subscribers;
pub use websocket::Session;

/// Subscriptions for unit tests of what is done with them.
#[cfg(test)]
mod testing {
    use crate::access::Access;
    use crate::http::exchange::ConnectionState;
    use crate::http::watch::feed::{Permission, Subscribers, Subscription};
    use crate::store::{Durability, JournalOptions, Options, StagingBounds, Store};
    use std::rc::Rc;
    use std::sync::Arc;
    use tokio::runtime::{Builder, LocalOptions};

    /// To the changes of a store in which nothing happens, with the rules of `access`.
    pub fn subscribers(access: Option<Arc<Access>>) -> Rc<Subscribers> {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            cache: 0,
            cached_files: 0,
            listing_index: 0,
            compute_threads: 1,
            cpus: None,
            durability: Durability::Os,
            journal: JournalOptions::default(),
            staging: StagingBounds::default(),
            min_free: 0,
            upload_expiry: std::time::Duration::ZERO,
            is_text: |_, _| false,
        };
        let store = Store::open(dir.path(), &options).unwrap();
        Rc::new(Subscribers::new(
            Arc::clone(store.changes().unwrap()),
            access,
        ))
    }

    /// Runs `test` on a reactor, in a time that only timers move on.
    pub fn on_reactor<T>(test: impl Future<Output = T>) -> T {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true);
        let runtime = runtime.build_local(LocalOptions::default()).unwrap();
        runtime.block_on(test)
    }

    /// Runs `test` with a subscription to a store in which nothing happens.
    pub fn subscribed(test: impl AsyncFnOnce(Subscription, Rc<ConnectionState>)) {
        let subscribers = subscribers(None);
        let connection = Rc::new(ConnectionState::new(Arc::default()));
        on_reactor(async {
            let everything = Permission::new(None, None);
            let subscription =
                Subscription::new(&subscribers, &connection, "".into(), None, everything);
            test(subscription, connection).await;
        });
    }
}
