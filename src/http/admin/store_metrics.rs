//! The metrics of the store: what waits to be published, the cache, the pools of threads, listings, publishing.

use std::fmt::Result;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;

use crate::http::admin::metric_writer::MetricWriter;
use crate::http::admin::s3_metrics;
use crate::metrics::StoreCounters;
use crate::store::{BlockingPool, Directory, Store};

#[derive(Debug)]
pub struct StoreMetrics(pub Arc<Store>);

impl Collector for StoreMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result {
        let to = &mut MetricWriter(encoder);
        self.encode_staged(to)?;
        encode_pool(to, "disk", self.0.disk())?;
        encode_pool(to, "compute", self.0.compute())?;
        match &*self.0 {
            Store::Directory(directory) => {
                encode_pool(to, "listing", directory.listing())?;
                let expired = directory.counters().uploads_expired.get();
                encode_uploads(to, directory.unfinished_uploads(), expired)?;
                to.gauge(
                    "data_server_uploads_refused_for_space",
                    None,
                    "1 while uploads are refused because no more than --min-free is free, else 0.",
                    u64::from(directory.is_short_of_space()),
                )?;
                encode_memory(to, directory)?;
                encode_listings(to, directory.counters())?;
                encode_publishing(to, directory.counters())?;
                encode_journal(to, directory.counters())
            }
            Store::S3(s3) => s3_metrics::encode(to, s3),
        }
    }
}

impl StoreMetrics {
    fn encode_staged(&self, to: &mut MetricWriter<'_>) -> Result {
        to.gauge(
            "data_server_staged",
            Some(&Unit::Bytes),
            "Bytes of uploads, received or announced by a request under way, and not published yet; without --max-staged, of those above 64 KiB.",
            self.0.staged().bytes,
        )
    }
}

fn encode_uploads(to: &mut MetricWriter<'_>, unfinished: usize, expired: u64) -> Result {
    to.gauge(
        "data_server_uploads_unfinished",
        None,
        "Resumable uploads that have not been published, cancelled or expired.",
        unfinished as u64,
    )?;
    to.counter(
        "data_server_uploads_expired",
        "Resumable uploads that expired unfinished.",
        expired,
    )
}

fn encode_memory(to: &mut MetricWriter<'_>, directory: &Directory) -> Result {
    to.gauge(
        "data_server_cache",
        Some(&Unit::Bytes),
        "Memory that cached values take.",
        directory.cached_bytes(),
    )?;
    to.gauge(
        "data_server_cache_values",
        None,
        "Cached values; each keeps a descriptor open.",
        directory.cached_values(),
    )?;
    to.gauge(
        "data_server_watch_subscribers",
        None,
        "Clients that watch for changes.",
        directory.changes().subscribers(),
    )
}

fn encode_pool(to: &mut MetricWriter<'_>, name: &str, pool: &BlockingPool) -> Result {
    let queue = format!("data_server_{name}_queue_length");
    let help = format!("Jobs that wait for one of the {name} threads.");
    to.gauge(&queue, None, &help, pool.jobs().waiting())?;
    let busy = format!("data_server_{name}_threads_busy");
    let help = format!("Those of the {name} threads that have a job.");
    to.gauge(&busy, None, &help, pool.jobs().busy())
}

fn encode_listings(to: &mut MetricWriter<'_>, counters: &StoreCounters) -> Result {
    let listings = &counters.listings;
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

fn encode_publishing(to: &mut MetricWriter<'_>, counters: &StoreCounters) -> Result {
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
            "Syncs of values, of names and of the journal, under --durability disk.",
            syncs,
        )
    })
}

fn encode_journal(to: &mut MetricWriter<'_>, counters: &StoreCounters) -> Result {
    let journal = &counters.journal;
    to.counter(
        "data_server_journal_appended_bytes",
        "What was appended to the journal.",
        journal.appended.get(),
    )?;
    to.gauge(
        "data_server_journal_unsettled",
        Some(&Unit::Bytes),
        "What a replay would read: changes in the journal that no checkpoint has settled.",
        journal.unsettled(),
    )?;
    to.counter(
        "data_server_journal_replayed_records",
        "Records that the start has replayed.",
        journal.replayed.get(),
    )?;
    to.counter(
        "data_server_journal_failures",
        "Writes and syncs of the journal that failed.",
        journal.failures.get(),
    )?;
    journal.with_checkpoints(|checkpoints| {
        to.histogram(
            "data_server_journal_checkpoint_duration",
            Some(&Unit::Seconds),
            "Checkpoints of the journal.",
            checkpoints,
        )
    })?;
    journal.with_waits(|waits| {
        to.histogram(
            "data_server_journal_wait_duration",
            Some(&Unit::Seconds),
            "How long all writers waited for a free segment of the journal, each time that one was full.",
            waits,
        )
    })
}
