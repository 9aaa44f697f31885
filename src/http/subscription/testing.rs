//! A subscription for unit tests of what is done with one.

use super::{Rc, Service, Subscription};
use crate::http::{Admin, Hosts, Link, Rules, Scope};
use crate::store::{Directory, Durability, Options};
use std::sync::Arc;
use tokio::runtime::{Builder, LocalOptions};

/// Runs `test` with a subscription to a store in which nothing happens, in a time that only timers move on.
pub(super) fn subscribed(test: impl AsyncFnOnce(Subscription, Rc<Link>)) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        cache: 0,
        cached_files: 0,
        compute_threads: 1,
        cpus: None,
        durability: Durability::Os,
        max_staged: None,
    };
    let store = Arc::new(Directory::open(dir.path(), options).unwrap());
    let rules = Rules {
        scope: Scope::All,
        compat: false,
        discard: false,
        read_only: false,
        max_body: 0,
        compress: false,
        hosts: Hosts::default(),
        cors_origins: Vec::new(),
        access_log: None,
        server_timing: false,
    };
    let admin = Arc::new(Admin::new(Vec::new(), &store, 0));
    let service = Rc::new(Service::new(store, rules, 0, admin));
    let link = Rc::new(Link::new(Arc::default()));
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true);
    let runtime = runtime.build_local(LocalOptions::default()).unwrap();
    runtime.block_on(async {
        let subscription = Subscription::new(&service, &link, Box::default(), None);
        test(subscription, link).await;
    });
}
