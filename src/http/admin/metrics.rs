//! All metrics of the server: their names, their help, and how their samples are read from the counters that each thread keeps.
//!
//! Metrics that show how load is spread have a label for the reactor, all others are sums, made when a scrape asks. No label has a
//! value or a name that a client can choose. A directory has uploads, the cache, listings, publishing and the journal. An S3 store has
//! the requests to it by their status, its connections, and the writes whose response was lost.

use std::sync::atomic::Ordering::Relaxed;

use crate::http::admin::exposition::{Exposition, Metric, Samples, float};
use crate::http::admin::{Admin, MetricsFormat};
use crate::metrics::{
    AccessCounters, AuthResult, CERTIFICATE_END, Counter, Direction, Handshake, LAST_RELOAD_FAILED,
    LOG_LINES_LOST, Method, ReactorCounters, S3Counters, STATUSES, SharedCounter, StoreOperation,
    TimeLimit, cpu_seconds, open_descriptors, resident_bytes,
};
use crate::s3::S3;
use crate::store::{Directory, Store};

/// All metrics of the server, as text.
pub fn all(server: &Admin, format: MetricsFormat) -> String {
    let mut exposition = Exposition::new(format);
    exposition.add(SERVER, server);
    exposition.add(STORE, &*server.store);
    match &*server.store {
        Store::Directory(directory) => exposition.add(DIRECTORY, &**directory),
        Store::S3(s3) => exposition.add(S3_STORE, &**s3),
    }
    if let Some(access) = &server.access {
        exposition.add(ACCESS, access.counters());
    }
    exposition.finish()
}

const SERVER: &[Metric<Admin>] = &[
    (
        "data_server_build_info",
        "The version that runs; always 1.",
        |_, to| to.labelled(&[("version", env!("CARGO_PKG_VERSION"))], 1),
    ),
    (
        "data_server_log_lines_lost_total",
        "Lines of the log that were lost: their reader stalled, or writing them failed.",
        |_, to| to.number(LOG_LINES_LOST.get()),
    ),
    (
        "data_server_config_last_reload_successful",
        "0 if the last reload failed, so that the files read before still count, else 1.",
        |_, to| to.number(u64::from(!LAST_RELOAD_FAILED.load(Relaxed))),
    ),
    (
        "data_server_ready",
        "1 if /-/ready answers 200, else 0.",
        |server, to| to.number(u64::from(server.was_ready.load(Relaxed))),
    ),
    (
        "data_server_free_bytes",
        "Free space of the values' file system.",
        |server, to| to.number(server.probe.free()),
    ),
    (
        "data_server_tls_certificate_end_timestamp_seconds",
        "When the first of the server's certificates ends, since 1970.",
        |_, to| to.number(Some(CERTIFICATE_END.load(Relaxed)).filter(|&end| end > 0)),
    ),
    (
        "process_resident_memory_bytes",
        "Resident memory.",
        |_, to| to.number(resident_bytes()),
    ),
    ("process_open_fds", "Open file descriptors.", |_, to| {
        to.number(open_descriptors());
    }),
    (
        "process_cpu_seconds_total",
        "Processor time of all threads, user and system.",
        |_, to| to.labelled(&[], float(cpu_seconds())),
    ),
    (
        "process_start_time_seconds",
        "When the process was started, since 1970.",
        |server, to| to.labelled(&[], float(server.started)),
    ),
    (
        "data_server_connections_accepted_total",
        "Connections handed to a reactor.",
        |server, to| to.each(server.each(|reactor| reactor.accepting.accepted.get())),
    ),
    (
        "data_server_connections_active",
        "Open connections.",
        |server, to| to.each(server.each(ReactorCounters::active)),
    ),
    (
        "data_server_connections_finished_total",
        "Connections that have ended.",
        |server, to| to.each(server.each(|reactor| reactor.finished.get())),
    ),
    (
        "data_server_accept_errors_total",
        "Attempts to accept a connection that failed.",
        |server, to| to.number(server.sum(|reactor| reactor.accepting.errors.get())),
    ),
    (
        "data_server_connections_refused_total",
        "Connections closed at once, for --max-connections-per-ip.",
        |server, to| to.number(server.sum(|reactor| reactor.accepting.refused.get())),
    ),
    (
        "data_server_proxy_headers_refused_total",
        "Connections closed because they began with no valid header of the PROXY protocol.",
        |server, to| to.number(server.sum(|reactor| reactor.bad_proxy_headers.get())),
    ),
    (
        "data_server_tls_handshakes_total",
        "TLS handshakes, by result.",
        |server, to| server.each_of("result", Handshake::NAMES, |r| &r.handshakes, to),
    ),
    (
        "data_server_time_limits_total",
        "Clients that exceeded a time limit, by the option that sets the limit.",
        |server, to| server.each_of("limit", TimeLimit::NAMES, |r| &r.time_limits, to),
    ),
    (
        "data_server_panics_total",
        "Panics that were caught.",
        |server, to| to.number(server.sum(|reactor| reactor.panics.get())),
    ),
    (
        "data_server_requests_total",
        "Requests whose response has ended; status none: the client left before a response.",
        requests,
    ),
    (
        "data_server_takeovers_total",
        "Long bodies moved by splice or sendfile, without hyper.",
        |server, to| server.each_of("direction", Direction::NAMES, |r| &r.takeovers, to),
    ),
    (
        "data_server_received_bytes_total",
        "Bytes received.",
        |server, to| to.each(server.each(|reactor| reactor.received_bytes.get())),
    ),
    (
        "data_server_sent_bytes_total",
        "Bytes sent.",
        |server, to| to.each(server.each(|reactor| reactor.sent_bytes.get())),
    ),
    (
        "data_server_request_duration_seconds",
        "Time from the request head to the last byte of the response given to the socket.",
        |server, to| to.histograms(server.reactors.iter().map(|r| &r.latency.request)),
    ),
    (
        "data_server_time_to_first_byte_seconds",
        "Time from the request head to the first byte of the response given to the socket.",
        |server, to| to.histograms(server.reactors.iter().map(|r| &r.latency.first_byte)),
    ),
    (
        "data_server_event_loop_lag_seconds",
        "How much later than due a timer of the reactor ran.",
        |server, to| to.histograms(server.reactors.iter().map(|r| &r.latency.event_loop)),
    ),
    (
        "data_server_uploads_in_flight",
        "Values being received.",
        |server, to| {
            // Ends are read first: an upload that ends between the two readings counts once more, not once less.
            let finished = server.sum(|reactor| reactor.uploads_finished.get());
            let started = server.sum(|reactor| reactor.uploads_started.get());
            to.number(started.saturating_sub(finished));
        },
    ),
    (
        "data_server_cache_hits_total",
        "Reads answered from the cache.",
        |server, to| to.number(server.sum(|reactor| reactor.cache_hits.get())),
    ),
    (
        "data_server_cache_misses_total",
        "Reads that the cache could not answer.",
        |server, to| to.number(server.sum(|reactor| reactor.cache_misses.get())),
    ),
];

impl Admin {
    /// The `count` of each reactor.
    fn each<'a>(
        &'a self,
        count: impl Fn(&ReactorCounters) -> u64 + 'a,
    ) -> impl Iterator<Item = u64> + 'a {
        self.reactors.iter().map(move |reactor| count(reactor))
    }

    fn sum(&self, count: impl Fn(&ReactorCounters) -> u64) -> u64 {
        self.each(count).sum()
    }

    /// Adds the `counters` of each reactor, each of which has one of `names` as the value of `label`.
    fn each_of<const N: usize>(
        &self,
        label: &str,
        names: [&str; N],
        counters: fn(&ReactorCounters) -> &[Counter; N],
        to: &mut Samples<'_>,
    ) {
        for (index, reactor) in self.reactors.iter().enumerate() {
            for (name, counter) in names.iter().zip(counters(reactor)) {
                let labels = [("reactor", &*index.to_string()), (label, name)];
                to.labelled(&labels, counter.get());
            }
        }
    }
}

/// The requests of each reactor, method and class of status. Combinations that have not happened are left out, so that the
/// metrics of many reactors stay readable.
fn requests(server: &Admin, to: &mut Samples<'_>) {
    for (index, reactor) in server.reactors.iter().enumerate() {
        for (method, counters) in Method::NAMES.into_iter().zip(&reactor.requests) {
            for (status, counter) in STATUSES.into_iter().zip(counters) {
                let reactor = &*index.to_string();
                let labels = [("reactor", reactor), ("method", method), ("status", status)];
                if counter.get() > 0 || (method, status) == ("GET", "2xx") {
                    to.labelled(&labels, counter.get());
                }
            }
        }
    }
}

const STORE: &[Metric<Store>] = &[
    (
        "data_server_staged_bytes",
        "Bytes of uploads, received or announced by a request under way, and not published yet; without --max-staged, of those above 64 KiB.",
        |store, to| to.number(store.staged().bytes),
    ),
    (
        "data_server_disk_queue_length",
        "Jobs that wait for a disk thread.",
        |store, to| to.number(store.disk().jobs().waiting()),
    ),
    (
        "data_server_disk_threads_busy",
        "Disk threads that have a job.",
        |store, to| to.number(store.disk().jobs().busy()),
    ),
    (
        "data_server_compute_queue_length",
        "Jobs that wait for a compute thread.",
        |store, to| to.number(store.compute().jobs().waiting()),
    ),
    (
        "data_server_compute_threads_busy",
        "Compute threads that have a job.",
        |store, to| to.number(store.compute().jobs().busy()),
    ),
];

const DIRECTORY: &[Metric<Directory>] = &[
    (
        "data_server_listing_queue_length",
        "Jobs that wait for a listing thread.",
        |directory, to| to.number(directory.listing().jobs().waiting()),
    ),
    (
        "data_server_listing_threads_busy",
        "Listing threads that have a job.",
        |directory, to| to.number(directory.listing().jobs().busy()),
    ),
    (
        "data_server_uploads_unfinished",
        "Resumable uploads that have not been published, cancelled or expired.",
        |directory, to| to.number(directory.unfinished_uploads() as u64),
    ),
    (
        "data_server_uploads_expired_total",
        "Resumable uploads that expired unfinished.",
        |directory, to| to.number(directory.counters.uploads_expired.get()),
    ),
    (
        "data_server_uploads_refused_for_space",
        "1 while uploads are refused because no more than --min-free is free, else 0.",
        |directory, to| to.number(u64::from(directory.is_short_of_space())),
    ),
    (
        "data_server_cache_bytes",
        "Used part of --cache; where descriptors bound the cache, each value counts its share of them.",
        |directory, to| to.number(directory.cache.bytes()),
    ),
    (
        "data_server_cache_values",
        "Cached values; each keeps a descriptor open.",
        |directory, to| to.number(directory.cache.values()),
    ),
    (
        "data_server_watch_subscribers",
        "Clients that watch for changes.",
        |directory, to| to.number(directory.changes.subscribers()),
    ),
    (
        "data_server_listing_walks_total",
        "Walks of the directory that were begun for listings.",
        |directory, to| to.number(directory.counters.listings.walks.get()),
    ),
    (
        "data_server_listing_index_keys",
        "Keys in the index of the directory.",
        |directory, to| to.number(directory.counters.listings.index_keys.load(Relaxed)),
    ),
    (
        "data_server_listing_index_bytes",
        "Memory of the index of the directory.",
        |directory, to| to.number(directory.counters.listings.index_bytes.load(Relaxed)),
    ),
    (
        "data_server_publish_batch_size",
        "Changes that the publisher made together.",
        |directory, to| to.histogram(&directory.counters.batches),
    ),
    (
        "data_server_sync_duration_seconds",
        "Syncs of values, of names and of the journal, under --durability disk.",
        |directory, to| to.histogram(&directory.counters.syncs.lock()),
    ),
    (
        "data_server_journal_appended_bytes_total",
        "Bytes appended to the journal.",
        |directory, to| to.number(directory.counters.journal.appended.get()),
    ),
    (
        "data_server_journal_unsettled_bytes",
        "Bytes that a replay would read: changes in the journal that no checkpoint covers.",
        |directory, to| to.number(directory.counters.journal.unsettled()),
    ),
    (
        "data_server_journal_replayed_records_total",
        "Records replayed at startup.",
        |directory, to| to.number(directory.counters.journal.replayed.get()),
    ),
    (
        "data_server_journal_failures_total",
        "Writes and syncs of the journal that failed.",
        |directory, to| to.number(directory.counters.journal.failures.get()),
    ),
    (
        "data_server_journal_checkpoint_duration_seconds",
        "Checkpoints of the journal.",
        |directory, to| to.histogram(&directory.counters.journal.checkpoints.lock()),
    ),
    (
        "data_server_journal_wait_duration_seconds",
        "How long all writers waited for a free segment of the journal, each time a segment was full.",
        |directory, to| to.histogram(&directory.counters.journal.waits.lock()),
    ),
];

const S3_STORE: &[Metric<S3>] = &[
    (
        "data_server_store_requests_total",
        "Requests to the store that have ended; status none: there was no response.",
        store_requests,
    ),
    (
        "data_server_store_time_to_head_seconds",
        "Time from a request to the store to the head of its response.",
        |s3, to| to.histograms(s3.counters().map(|counters| &counters.time_to_head)),
    ),
    (
        "data_server_store_retries_total",
        "Requests to the store that were sent again.",
        |s3, to| to.number(sum(s3, |counters| &counters.retries)),
    ),
    (
        "data_server_store_unknown_total",
        "Writes and removals whose outcome was not known when they ended.",
        |s3, to| to.number(sum(s3, |counters| &counters.unknown)),
    ),
    (
        "data_server_store_resolved_total",
        "Writes and removals of unknown outcome that turned out to have been made.",
        |s3, to| to.number(sum(s3, |counters| &counters.resolved)),
    ),
    (
        "data_server_store_requests_active",
        "Requests to the store that are under way; each has a connection.",
        |s3, to| to.number(s3.requests_under_way() as u64),
    ),
    (
        "data_server_store_connections_open",
        "Connections to the store that are open.",
        |s3, to| to.number(s3.connections().open as u64),
    ),
    (
        "data_server_store_connections_idle",
        "Connections to the store that wait for a request.",
        |s3, to| to.number(s3.connections().idle as u64),
    ),
];

/// The requests to the store by operation and class of status. Combinations that have not happened are left out.
fn store_requests(s3: &S3, to: &mut Samples<'_>) {
    for (operation, name) in StoreOperation::NAMES.into_iter().enumerate() {
        for (class, status) in STATUSES.into_iter().enumerate() {
            let requests = sum(s3, |counters| &counters.requests[operation][class]);
            if requests > 0 {
                to.labelled(&[("operation", name), ("status", status)], requests);
            }
        }
    }
}

fn sum(s3: &S3, counter: impl Fn(&S3Counters) -> &Counter) -> u64 {
    s3.counters().map(|counters| counter(counters).get()).sum()
}

const ACCESS: &[Metric<AccessCounters>] = &[
    (
        "data_server_auth_total",
        "Authentications (repeats on a connection count once) and refusals, by result.",
        |access, to| each_of(AuthResult::NAMES, &access.results, to),
    ),
    (
        "data_server_auth_cache_hits_total",
        "Passwords accepted without a check, as they were right a short while ago.",
        |access, to| to.number(access.remembered.get()),
    ),
    (
        "data_server_password_checks_seconds",
        "Time that checking a password took.",
        |access, to| to.histogram(&access.checks.lock()),
    ),
    (
        "data_server_access_reloads_total",
        "Rereads of the access file, by result.",
        |access, to| each_of(["ok", "failed"], &access.reloads, to),
    ),
];

/// Adds `counters`, each with one of `names` as its result.
fn each_of<const N: usize>(names: [&str; N], counters: &[SharedCounter; N], to: &mut Samples<'_>) {
    for (name, counter) in names.iter().zip(counters) {
        to.labelled(&[("result", name)], counter.get());
    }
}
