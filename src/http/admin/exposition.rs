//! All metrics of the server, as a scrape gets them.
//!
//! Sums are made when a scrape asks, from counters that each thread keeps for itself. No label has a value that a client
//! can choose.

use std::sync::Arc;

use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use crate::access::Access;
use crate::http::admin::access_metrics::AccessMetrics;
use crate::http::admin::health::LastAnswer;
use crate::http::admin::process_metrics::ProcessMetrics;
use crate::http::admin::reactor_metrics::ReactorMetrics;
use crate::http::admin::store_metrics::StoreMetrics;
use crate::metrics::ReactorCounters;
use crate::store::Store;

/// All metrics.
#[derive(Debug)]
pub struct Exposition(Registry);

impl Exposition {
    pub fn new(
        reactors: Vec<Arc<ReactorCounters>>,
        store: Arc<Store>,
        access: Option<Arc<Access>>,
        answer: Arc<LastAnswer>,
    ) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessMetrics::new(answer)));
        registry.register_collector(Box::new(ReactorMetrics(reactors)));
        registry.register_collector(Box::new(StoreMetrics(store)));
        if let Some(access) = access {
            registry.register_collector(Box::new(AccessMetrics(access)));
        }
        Self(registry)
    }

    /// As `OpenMetrics` text.
    pub fn render(&self) -> String {
        let mut open = String::new();
        // Writing to memory does not fail.
        let _ = text::encode(&mut open, &self.0);
        open
    }
}
