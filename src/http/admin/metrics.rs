//! The writer of metrics, the library's encoder in fewer words; and the metrics of the store.
//!
//! A directory has uploads, the cache, the pools of threads, listings, publishing and the journal. An S3 store has the requests to it by
//! their status, its connections, and the writes whose response was lost.

use std::fmt::Result;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::metrics::{Histogram, S3Counters, STATUSES, StoreCounters, StoreOperation};
use crate::s3::S3;
use crate::store::{BlockingPool, Directory, Store};

/// Writes metrics one after the other.
pub struct MetricWriter<'a>(pub DescriptorEncoder<'a>);

impl MetricWriter<'_> {
    pub fn metric(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        kind: MetricType,
        encode: impl FnOnce(&mut MetricEncoder<'_>) -> Result,
    ) -> Result {
        encode(&mut self.0.encode_descriptor(name, help, unit, kind)?)
    }

    pub fn counter(&mut self, name: &str, help: &str, value: u64) -> Result {
        self.metric(name, None, help, MetricType::Counter, |metric| {
            encode_counter(metric, value)
        })
    }

    /// A counter for each set of labels.
    pub fn counters<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> Result {
        self.metric(name, unit, help, MetricType::Counter, |metric| {
            let mut values = values.into_iter();
            values.try_for_each(|(labels, value)| {
                encode_counter(&mut metric.encode_family(&labels)?, value)
            })
        })
    }

    pub fn gauge(&mut self, name: &str, unit: Option<&Unit>, help: &str, value: u64) -> Result {
        self.metric(name, unit, help, MetricType::Gauge, |metric| {
            metric.encode_gauge(&value)
        })
    }

    pub fn histogram(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        histogram: &Histogram,
    ) -> Result {
        self.metric(name, unit, help, MetricType::Histogram, |metric| {
            encode_histogram(metric, histogram)
        })
    }

    /// A histogram of durations, in seconds, for each reactor.
    pub fn histograms<'a>(
        &mut self,
        name: &str,
        help: &str,
        histograms: impl Iterator<Item = &'a Histogram>,
    ) -> Result {
        let unit = Some(&Unit::Seconds);
        self.metric(name, unit, help, MetricType::Histogram, |metric| {
            let mut histograms = histograms.enumerate();
            histograms.try_for_each(|(index, histogram)| {
                let labels = [("reactor", index.to_string())];
                encode_histogram(&mut metric.encode_family(&labels)?, histogram)
            })
        })
    }
}

fn encode_counter(metric: &mut MetricEncoder<'_>, value: u64) -> Result {
    metric.encode_counter::<[(&str, &str); 0], u64, u64>(&value, None)
}

fn encode_histogram(metric: &mut MetricEncoder<'_>, histogram: &Histogram) -> Result {
    let (buckets, sum) = histogram.read();
    let count = buckets.iter().map(|(_, count)| count).sum();
    metric.encode_histogram::<[(&str, &str); 0]>(sum, count, &buckets, None)
}

/// Writes the metrics of `store`.
pub fn encode_store(to: &mut MetricWriter<'_>, store: &Store) -> Result {
    to.gauge(
        "data_server_staged",
        Some(&Unit::Bytes),
        "Bytes of uploads, received or announced by a request under way, and not published yet; without --max-staged, of those above 64 KiB.",
        store.staged().bytes,
    )?;
    encode_pool(to, "disk", store.disk())?;
    encode_pool(to, "compute", store.compute())?;
    match store {
        Store::Directory(directory) => {
            encode_pool(to, "listing", directory.listing())?;
            encode_uploads(to, directory)?;
            encode_memory(to, directory)?;
            encode_listings(to, directory.counters())?;
            encode_publishing(to, directory.counters())?;
            encode_journal(to, directory.counters())
        }
        Store::S3(s3) => encode_s3(to, s3),
    }
}

fn encode_uploads(to: &mut MetricWriter<'_>, directory: &Directory) -> Result {
    to.gauge(
        "data_server_uploads_unfinished",
        None,
        "Resumable uploads that have not been published, cancelled or expired.",
        directory.unfinished_uploads() as u64,
    )?;
    to.counter(
        "data_server_uploads_expired",
        "Resumable uploads that expired unfinished.",
        directory.counters().uploads_expired.get(),
    )?;
    to.gauge(
        "data_server_uploads_refused_for_space",
        None,
        "1 while uploads are refused because no more than --min-free is free, else 0.",
        u64::from(directory.is_short_of_space()),
    )
}

fn encode_memory(to: &mut MetricWriter<'_>, directory: &Directory) -> Result {
    to.gauge(
        "data_server_cache",
        Some(&Unit::Bytes),
        "Part of --cache that is taken; where descriptors bound it, a value takes its share of them.",
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
    to.histogram(
        "data_server_sync_duration",
        Some(&Unit::Seconds),
        "Syncs of values, of names and of the journal, under --durability disk.",
        &counters.syncs.lock(),
    )
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
    to.histogram(
        "data_server_journal_checkpoint_duration",
        Some(&Unit::Seconds),
        "Checkpoints of the journal.",
        &journal.checkpoints.lock(),
    )?;
    to.histogram(
        "data_server_journal_wait_duration",
        Some(&Unit::Seconds),
        "How long all writers waited for a free segment of the journal, each time that one was full.",
        &journal.waits.lock(),
    )
}

fn encode_s3(to: &mut MetricWriter<'_>, s3: &S3) -> Result {
    to.counters(
        "data_server_store_requests",
        None,
        "Requests to the store that have ended; of status none where there was no answer.",
        s3_requests(s3),
    )?;
    to.histograms(
        "data_server_store_time_to_head",
        "From a request to the store to the head of its answer.",
        s3.counters().map(|counters| &counters.time_to_head),
    )?;
    to.counter(
        "data_server_store_retries",
        "Requests to the store that were sent again.",
        sum(s3, |counters| counters.retries.get()),
    )?;
    to.counter(
        "data_server_store_unknown",
        "Writes and removals whose outcome was not known when they ended.",
        sum(s3, |counters| counters.unknown.get()),
    )?;
    to.counter(
        "data_server_store_resolved",
        "Those of them that turned out to have been made.",
        sum(s3, |counters| counters.resolved.get()),
    )?;
    to.gauge(
        "data_server_store_requests_active",
        None,
        "Requests to the store that are under way; each has a connection.",
        s3.requests_under_way() as u64,
    )?;
    let connections = s3.connections();
    to.gauge(
        "data_server_store_connections_open",
        None,
        "Connections to the store that are open.",
        connections.open as u64,
    )?;
    to.gauge(
        "data_server_store_connections_idle",
        None,
        "Those of them that wait for a request.",
        connections.idle as u64,
    )
}

/// The requests to the store by operation and class of status. Combinations that have not happened are left out.
fn s3_requests(s3: &S3) -> impl Iterator<Item = ([(&'static str, &'static str); 2], u64)> {
    StoreOperation::ALL
        .into_iter()
        .flat_map(move |(operation, name)| {
            STATUSES
                .into_iter()
                .enumerate()
                .filter_map(move |(class, status)| {
                    let requests = sum(s3, |counters| counters.requests(operation, class));
                    let labels = [("operation", name), ("status", status)];
                    (requests > 0).then_some((labels, requests))
                })
        })
}

fn sum(s3: &S3, count: impl Fn(&S3Counters) -> u64) -> u64 {
    s3.counters().map(count).sum()
}
