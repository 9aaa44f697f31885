//! The metrics of the store: what waits to be published, the cache, the pools of threads, listings, publishing.

use std::fmt::Result;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;

use crate::http::admin::metric_writer::MetricWriter;
use crate::store::Store;

#[derive(Debug)]
pub(super) struct StoreMetrics(pub(super) Arc<Store>);

impl Collector for StoreMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result {
        let mut to = MetricWriter(encoder);
        self.encode_memory(&mut to)?;
        self.encode_pools(&mut to)?;
        self.encode_listings(&mut to)?;
        self.encode_publishing(&mut to)
    }
}

impl StoreMetrics {
    fn encode_memory(&self, to: &mut MetricWriter<'_>) -> Result {
        to.gauge(
            "data_server_staged",
            Some(&Unit::Bytes),
            "Bytes of uploads, received or announced, and not published yet; without --max-staged, of those above 64 KiB.",
            self.0.staged().bytes,
        )?;
        to.gauge(
            "data_server_cache",
            Some(&Unit::Bytes),
            "Memory that cached values take.",
            self.0.cached_bytes(),
        )?;
        to.gauge(
            "data_server_watch_subscribers",
            None,
            "Clients that watch for changes.",
            self.0.changes().subscribers(),
        )
    }

    fn encode_pools(&self, to: &mut MetricWriter<'_>) -> Result {
        for (name, pool) in [
            ("disk", self.0.disk()),
            ("listing", self.0.listing()),
            ("compute", self.0.compute()),
        ] {
            let queue = format!("data_server_{name}_queue_length");
            let help = format!("Jobs that wait for one of the {name} threads.");
            to.gauge(&queue, None, &help, pool.jobs().waiting())?;
            let busy = format!("data_server_{name}_threads_busy");
            let help = format!("Those of the {name} threads that have a job.");
            to.gauge(&busy, None, &help, pool.jobs().busy())?;
        }
        Ok(())
    }

    fn encode_listings(&self, to: &mut MetricWriter<'_>) -> Result {
        let listings = &self.0.counters().listings;
        to.counter(
            "data_server_listing_walks",
            "Walks of the directory that were begun for listings.",
            listings.walks.get(),
        )?;
        to.gauge(
            "data_server_listing_index_keys",
            None,
            "Keys in the index of the directory.",
            listings.index_keys(),
        )?;
        to.gauge(
            "data_server_listing_index",
            Some(&Unit::Bytes),
            "Memory that the index of the directory takes.",
            listings.index_bytes(),
        )
    }

    fn encode_publishing(&self, to: &mut MetricWriter<'_>) -> Result {
        let counters = self.0.counters();
        to.histogram(
            "data_server_publish_batch_size",
            None,
            "Changes that the publisher made together.",
            &counters.batches,
        )?;
        counters.with_syncs(|syncs| {
            to.histogram(
                "data_server_sync_duration",
                Some(&Unit::Seconds),
                "Syncs of values and of names, under --durability disk.",
                syncs,
            )
        })
    }
}
