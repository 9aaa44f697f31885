//! All metrics of the server: their names, their help, and their values, from the counters that each thread keeps.
//!
//! Metrics that show how load is spread have a label for the reactor. All others are sums, made at each scrape.
//! Clients choose no label and no value of one, but the names of bounds with `{name}`, of which a few are shown. A
//! directory has uploads, the cache, listings, publishing and the journal. An S3 store has the requests to it by their
//! status, its connections, and the writes whose response was lost.

use std::iter::once;
use std::sync::atomic::Ordering::Relaxed;

use hyper::header::HeaderMap;

use crate::http::admin::Admin;
use crate::http::head::accept::prefers_open_metrics;
use crate::metrics::{
    AcceptCounters, AccessCounters, CERTIFICATE_END, Counter, Exposition, Journal,
    LAST_RELOAD_FAILED, LOG_LINES_LOST, Listings, MetricsFormat, ReactorCounters, S3Counters,
    StoreCounters, cpu_seconds, float, open_descriptors, resident_bytes,
};
use crate::s3::S3;
use crate::store::bounds::{Account, Bound, Figures, Total};
use crate::store::{Directory, Removal, StagingQuota, Store};

/// Adds metrics that are one number, which no counter has.
macro_rules! numbers {
    ($to:ident: $($name:literal $help:literal = $value:expr;)+) => { $($to.metric($name, $help).number($value);)+ };
}

impl MetricsFormat {
    /// The format that Accept prefers; the older one where it does not name the newer.
    pub fn preferred(headers: &HeaderMap) -> Self {
        if prefers_open_metrics(headers) {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }
}

impl Admin {
    /// All metrics, with the results of the last probe.
    pub fn metrics(&self, format: MetricsFormat, is_ready: bool) -> String {
        let mut to = Exposition::new(format);
        self.add_process(is_ready, &mut to);
        self.add_reactors(&mut to);
        add_store(&self.store, &mut to);
        match &*self.store {
            Store::Directory(directory) => add_directory(directory, &mut to),
            Store::S3(s3) => add_s3(s3, &mut to),
        }
        if let Some(access) = &self.access {
            AccessCounters::show(once(&access.passwords.counters), &mut to);
        }
        to.finish()
    }

    fn add_process(&self, is_ready: bool, to: &mut Exposition) {
        to.metric("data_server_build_info", "The version that runs; always 1.")
            .labelled(&[("version", env!("CARGO_PKG_VERSION"))], 1);
        numbers! { to:
            "data_server_log_lines_lost_total" "Lines of the log that were lost: their reader stalled, or writing them failed." = LOG_LINES_LOST.get();
            "data_server_config_last_reload_successful" "0 if the last reload failed, so that the files read before still count, else 1." = u64::from(!LAST_RELOAD_FAILED.load(Relaxed));
            "data_server_ready" "1 if /-/ready answers 200, else 0." = u64::from(is_ready);
            "data_server_free_bytes" "Free space of the values' file system." = *self.probe.free.lock();
            "data_server_tls_certificate_end_timestamp_seconds" "When the first of the server's certificates ends, since 1970." = Some(CERTIFICATE_END.load(Relaxed)).filter(|&end| end > 0);
            "process_resident_memory_bytes" "Resident memory." = resident_bytes();
            "process_open_fds" "Open file descriptors." = open_descriptors();
        }
        to.metric(
            "process_cpu_seconds_total",
            "Processor time of all threads, user and system.",
        )
        .labelled(&[], float(cpu_seconds()));
        to.metric(
            "process_start_time_seconds",
            "When the process was started, since 1970.",
        )
        .labelled(&[], float(self.started));
    }

    fn add_reactors(&self, to: &mut Exposition) {
        let all = || self.reactors.iter().map(|reactor| &**reactor);
        AcceptCounters::show(all().map(|reactor| &reactor.accepting), to);
        to.metric("data_server_connections_active", "Open connections.")
            .numbers(all().map(ReactorCounters::active));
        // Ends are read first: an upload that ends between the two readings counts once more, not once less.
        let sum = |of: fn(&ReactorCounters) -> &Counter| all().map(|it| of(it).get()).sum::<u64>();
        let finished = sum(|reactor| &reactor.uploads_finished);
        let started = sum(|reactor| &reactor.uploads_started);
        numbers! { to: "data_server_uploads_in_flight" "Values being received." = started.saturating_sub(finished); }
        ReactorCounters::show(all(), to);
    }
}

fn add_store(store: &Store, to: &mut Exposition) {
    let (disk, compute) = (store.disk().jobs(), store.compute().jobs());
    numbers! { to:
        "data_server_staged_bytes" "Bytes of uploads, received or announced by a request under way, and not published yet; without --max-staged, of those above 64 KiB." = store.quota().map_or(0, StagingQuota::staged_bytes);
        "data_server_disk_queue_length" "Jobs that wait for a disk thread." = disk.waiting();
        "data_server_disk_threads_busy" "Disk threads that have a job." = disk.busy();
        "data_server_compute_queue_length" "Jobs that wait for a compute thread." = compute.waiting();
        "data_server_compute_threads_busy" "Compute threads that have a job." = compute.busy();
    }
}

fn add_directory(directory: &Directory, to: &mut Exposition) {
    let counters = &*directory.counters;
    let listing = directory.lister.threads.jobs();
    StoreCounters::show(once(counters), to);
    Listings::show(once(&*counters.listings), to);
    Journal::show(once(&counters.journal), to);
    to.metric(
        "data_server_removed_total",
        "Values that the server itself removed, by reason.",
    )
    .sum(once(&counters.removed), &[("reason", &Removal::NAMES)]);
    numbers! { to:
        "data_server_listing_queue_length" "Jobs that wait for a listing thread." = listing.waiting();
        "data_server_listing_threads_busy" "Listing threads that have a job." = listing.busy();
        "data_server_uploads_unfinished" "Resumable uploads that have not been published, cancelled or expired." = directory.unfinished_uploads() as u64;
        "data_server_uploads_refused_for_space" "1 while uploads are refused because no more than --min-free is free, else 0." = u64::from(directory.is_short_of_space());
        "data_server_cache_bytes" "Used part of --cache; where descriptors bound the cache, each value counts its share of them." = directory.cache.bytes();
        "data_server_cache_values" "Cached values; each keeps a descriptor open." = directory.cache.values();
        "data_server_watch_subscribers" "Clients that watch for changes." = directory.changes.subscribers.load(Relaxed);
        "data_server_unreadable" "Folders and values that listings and counts leave out, as they cannot be read; 1000 at most." = directory.unreadable();
        "data_server_journal_unsettled_bytes" "Bytes that a replay would read: changes in the journal that no checkpoint covers." = counters.journal.unsettled();
    }
    if let Some(account) = directory.account() {
        add_bounds(account, to);
    }
}

/// Names of a bound with `{name}` that have samples of their own.
const NAMES: usize = 10;

/// What each bound holds and does. One with `{name}` has no limit of its own: the fullest names have.
fn add_bounds(account: &Account, to: &mut Exposition) {
    macro_rules! of_each {
        ($all:ident: $($name:literal $help:literal = $of:expr;)+) => {$(
            let mut samples = to.metric($name, $help);
            for (prefix, it) in &$all {
                let figure: Option<u64> = $of(it).into();
                if let Some(figure) = figure {
                    samples.labelled(&[("prefix", prefix)], figure);
                }
            }
        )+};
    }
    let (is_counting, is_evicting) = (!account.is_whole(), !account.above().is_zero());
    let mut states = to.metric(
        "data_server_bounds_state",
        "1 for what is done before all bounds are kept, else 0.",
    );
    for (state, is_it) in [("counting", is_counting), ("evicting", is_evicting)] {
        states.labelled(&[("state", state)], u64::from(is_it));
    }
    let (mut held, mut done) = (Vec::new(), Vec::new());
    for (at, (rule, figures)) in account.bounds.iter().zip(&account.figures).enumerate() {
        let (prefix, is_of_names) = (rule.prefix.to_string(), rule.prefix.is_of_names());
        done.push((prefix.clone(), figures));
        held.push((
            prefix,
            (account.total(at), Some(rule).filter(|_| !is_of_names)),
        ));
        for (name, total) in account.fullest(at, if is_of_names { NAMES } else { 0 }) {
            held.push((name.into(), (total, Some(rule))));
        }
    }
    of_each! { held:
        "data_server_bound_bytes" "Bytes of the disk that the values of a bound take; of one with {name}, all together and the 10 fullest names." = |(total, _): &(Total, _)| total.bytes;
        "data_server_bound_max_bytes" "The most bytes that the values of a bound, or of one name of it, may take." = |(_, rule): &(_, Option<&Bound>)| rule.and_then(|rule| rule.max_size);
        "data_server_bound_keys" "Values of a bound; of one with {name}, all together and the 10 fullest names." = |(total, _): &(Total, _)| total.keys;
        "data_server_bound_max_keys" "The most values of a bound, or of one name of it." = |(_, rule): &(_, Option<&Bound>)| rule.and_then(|rule| rule.max_keys);
    }
    let requests = "data_server_bound_requests_total";
    let mut requests = to.metric(
        requests,
        "GETs and HEADs of the keys of a bound, by result: hit if there was a value, else miss.",
    );
    for (prefix, figures) in &done {
        for (result, count) in ["hit", "miss"].into_iter().zip(&figures.requests) {
            requests.labelled(
                &[("prefix", prefix), ("result", result)],
                count.load(Relaxed),
            );
        }
    }
    of_each! { done:
        "data_server_bound_refused_total" "Writes that a bound had no room for." = |of: &&Figures| of.refused.load(Relaxed);
        "data_server_bound_evicted_total" "Values that a bound evicted." = |of: &&Figures| of.evicted.load(Relaxed);
        "data_server_bound_evicted_bytes_total" "Bytes of the disk of the values that a bound evicted." = |of: &&Figures| of.evicted_bytes.load(Relaxed);
        "data_server_bound_last_evicted_idle_seconds" "How long the value that was evicted last had not been used." = |of: &&Figures| (of.evicted.load(Relaxed) > 0).then(|| of.last_evicted.load(Relaxed) / 1000);
        "data_server_bound_oldest_idle_seconds" "How long the value used longest ago has not been used, within a minute." = |of: &&Figures| of.oldest.load(Relaxed) / 1000;
    }
}

fn add_s3(s3: &S3, to: &mut Exposition) {
    S3Counters::show(s3.counters(), to);
    let (open, active) = (s3.connections() as u64, s3.requests_under_way() as u64);
    numbers! { to:
        "data_server_store_requests_active" "Requests to the store that are under way; each has a connection." = active;
        "data_server_store_connections_open" "Connections to the store that are open." = open;
        "data_server_store_connections_idle" "Connections to the store that wait for a request." = open.saturating_sub(active);
    }
}
