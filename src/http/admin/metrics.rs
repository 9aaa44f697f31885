//! All metrics of the server: their names, their help, and their values, from the counters that each thread keeps.
//!
//! Metrics that show how load is spread have a label for the reactor. All others are sums, made at each scrape. No
//! label has a value or a name that a client can choose. A directory has uploads, the cache, listings, publishing and
//! the journal. An S3 store has the requests to it by their status, its connections, and the writes whose response was
//! lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::http::admin::Admin;
use crate::http::admin::exposition::{Exposition, MetricsFormat, Samples, float};
use crate::metrics::{
    AccessCounters, AuthResult, CERTIFICATE_END, Counter, Direction, Handshake, LAST_RELOAD_FAILED,
    LOG_LINES_LOST, Method, ReactorCounters, S3Counters, STATUSES, StoreOperation, TimeLimit,
    cpu_seconds, open_descriptors, resident_bytes,
};
use crate::s3::S3;
use crate::store::bounds::Account;
use crate::store::{Directory, Removal, StagingQuota, Store};

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
            add_access(&access.passwords.counters, &mut to);
        }
        to.finish()
    }

    fn add_process(&self, is_ready: bool, to: &mut Exposition) {
        to.metric("data_server_build_info The version that runs; always 1.")
            .labelled(&[("version", env!("CARGO_PKG_VERSION"))], 1);
        to.metric("data_server_log_lines_lost_total Lines of the log that were lost: their reader stalled, or writing them failed.")
        .number(LOG_LINES_LOST.get());
        to.metric("data_server_config_last_reload_successful 0 if the last reload failed, so that the files read before still count, else 1.")
        .number(u64::from(!LAST_RELOAD_FAILED.load(Relaxed)));
        to.metric("data_server_ready 1 if /-/ready answers 200, else 0.")
            .number(u64::from(is_ready));
        to.metric("data_server_free_bytes Free space of the values' file system.")
            .number(*self.probe.free.lock());
        to.metric("data_server_tls_certificate_end_timestamp_seconds When the first of the server's certificates ends, since 1970.")
        .number(Some(CERTIFICATE_END.load(Relaxed)).filter(|&end| end > 0));
        to.metric("process_resident_memory_bytes Resident memory.")
            .number(resident_bytes());
        to.metric("process_open_fds Open file descriptors.")
            .number(open_descriptors());
        to.metric("process_cpu_seconds_total Processor time of all threads, user and system.")
            .labelled(&[], float(cpu_seconds()));
        to.metric("process_start_time_seconds When the process was started, since 1970.")
            .labelled(&[], float(self.started));
    }

    fn add_reactors(&self, to: &mut Exposition) {
        to.metric("data_server_connections_accepted_total Connections handed to a reactor.")
            .each(self.each(|reactor| reactor.accepting.accepted.get()));
        to.metric("data_server_connections_active Open connections.")
            .each(self.each(ReactorCounters::active));
        to.metric("data_server_connections_finished_total Connections that have ended.")
            .each(self.each(|reactor| reactor.finished.get()));
        to.metric("data_server_accept_errors_total Attempts to accept a connection that failed.")
            .number(self.sum(|reactor| &reactor.accepting.errors));
        to.metric("data_server_connections_refused_total Connections closed at once, for --max-connections-per-ip.")
        .number(self.each(|reactor| reactor.accepting.refused.get()).sum::<u64>());
        to.metric("data_server_proxy_headers_refused_total Connections closed because they began with no valid header of the PROXY protocol.")
        .number(self.sum(|reactor| &reactor.bad_proxy_headers));
        to.metric("data_server_tls_handshakes_total TLS handshakes, by result.")
            .each_of("result", Handshake::NAMES, self.each(|r| &r.handshakes));
        to.metric("data_server_time_limits_total Clients that exceeded a time limit, by the option that sets the limit.")
        .each_of("limit", TimeLimit::NAMES, self.each(|r| &r.time_limits));
        to.metric("data_server_panics_total Panics that were caught.")
            .number(self.sum(|reactor| &reactor.panics));
        let samples = to.metric("data_server_requests_total Requests whose response has ended; status none: the client left before a response.");
        requests(&self.reactors, samples);
        to.metric(
            "data_server_takeovers_total Long bodies moved by splice or sendfile, without hyper.",
        )
        .each_of("direction", Direction::NAMES, self.each(|r| &r.takeovers));
        to.metric("data_server_received_bytes_total Bytes received.")
            .each(self.each(|reactor| reactor.received_bytes.get()));
        to.metric("data_server_sent_bytes_total Bytes sent.")
            .each(self.each(|reactor| reactor.sent_bytes.get()));
        to.metric("data_server_request_duration_seconds Time from the request head to the last byte of the response given to the socket.")
        .histograms(self.each(|r| &r.duration));
        to.metric("data_server_time_to_first_byte_seconds Time from the request head to the first byte of the response given to the socket.")
        .histograms(self.each(|r| &r.first_byte));
        to.metric(
        "data_server_event_loop_lag_seconds How much later than due a timer of the reactor ran.",
    )
    .histograms(self.each(|r| &r.lag));
        // Ends are read first: an upload that ends between the two readings counts once more, not once less.
        let finished = self.sum(|reactor| &reactor.uploads_finished);
        let started = self.sum(|reactor| &reactor.uploads_started);
        to.metric("data_server_uploads_in_flight Values being received.")
            .number(started.saturating_sub(finished));
        to.metric("data_server_cache_hits_total Reads answered from the cache.")
            .number(self.sum(|reactor| &reactor.cache_hits));
        to.metric("data_server_cache_misses_total Reads that the cache could not answer.")
            .number(self.sum(|reactor| &reactor.cache_misses));
    }

    /// The result of `of` for each reactor.
    fn each<'a, T>(&'a self, of: impl Fn(&'a ReactorCounters) -> T) -> impl Iterator<Item = T> {
        self.reactors.iter().map(move |reactor| of(reactor))
    }

    fn sum(&self, counter: impl Fn(&ReactorCounters) -> &Counter) -> u64 {
        self.reactors
            .iter()
            .map(|reactor| counter(reactor).get())
            .sum()
    }
}

/// The requests of each reactor, method and class of status. Combinations that have not happened are left out, so that
/// the metrics of many reactors stay readable.
fn requests(reactors: &[Arc<ReactorCounters>], mut to: Samples<'_>) {
    for (index, reactor) in reactors.iter().enumerate() {
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

fn add_store(store: &Store, to: &mut Exposition) {
    to.metric("data_server_staged_bytes Bytes of uploads, received or announced by a request under way, and not published yet; without --max-staged, of those above 64 KiB.")
        .number(store.quota().map_or(0, StagingQuota::staged_bytes));
    to.metric("data_server_disk_queue_length Jobs that wait for a disk thread.")
        .number(store.disk().jobs().waiting());
    to.metric("data_server_disk_threads_busy Disk threads that have a job.")
        .number(store.disk().jobs().busy());
    to.metric("data_server_compute_queue_length Jobs that wait for a compute thread.")
        .number(store.compute().jobs().waiting());
    to.metric("data_server_compute_threads_busy Compute threads that have a job.")
        .number(store.compute().jobs().busy());
}

fn add_directory(directory: &Directory, to: &mut Exposition) {
    let counters = &directory.counters;
    to.metric("data_server_listing_queue_length Jobs that wait for a listing thread.")
        .number(directory.lister.threads.jobs().waiting());
    to.metric("data_server_listing_threads_busy Listing threads that have a job.")
        .number(directory.lister.threads.jobs().busy());
    to.metric("data_server_uploads_unfinished Resumable uploads that have not been published, cancelled or expired.")
        .number(directory.unfinished_uploads() as u64);
    to.metric("data_server_uploads_expired_total Resumable uploads that expired unfinished.")
        .number(counters.uploads_expired.get());
    to.metric("data_server_removed_total Values that the server itself removed, by reason.")
        .named("reason", Removal::NAMES, &counters.removed);
    if let Some(account) = directory.account() {
        add_bounds(account, to);
    }
    to.metric("data_server_uploads_refused_for_space 1 while uploads are refused because no more than --min-free is free, else 0.")
        .number(u64::from(directory.is_short_of_space()));
    to.metric("data_server_cache_bytes Used part of --cache; where descriptors bound the cache, each value counts its share of them.")
        .number(directory.cache.bytes());
    to.metric("data_server_cache_values Cached values; each keeps a descriptor open.")
        .number(directory.cache.values());
    to.metric("data_server_watch_subscribers Clients that watch for changes.")
        .number(directory.changes.subscribers.load(Relaxed));
    to.metric(
        "data_server_listing_walks_total Walks of the directory that were begun for listings.",
    )
    .number(counters.listings.walks.get());
    to.metric("data_server_listing_index_keys Keys in the index of the directory.")
        .number(counters.listings.index_keys.load(Relaxed));
    to.metric("data_server_listing_index_bytes Memory of the index of the directory.")
        .number(counters.listings.index_bytes.load(Relaxed));
    to.metric("data_server_unreadable Folders and values that listings and counts leave out, as they cannot be read; 1000 at most.")
        .number(directory.unreadable());
    to.metric("data_server_publish_batch_size Changes that the publisher made together.")
        .histogram(&[], &counters.batches);
    to.metric("data_server_sync_duration_seconds Syncs of values, of names and of the journal, under --durability disk.")
        .histogram(&[], &counters.syncs.lock());
    to.metric("data_server_journal_appended_bytes_total Bytes appended to the journal.")
        .number(counters.journal.appended.get());
    to.metric("data_server_journal_unsettled_bytes Bytes that a replay would read: changes in the journal that no checkpoint covers.")
        .number(counters.journal.unsettled());
    to.metric("data_server_journal_replayed_records_total Records replayed at startup.")
        .number(counters.journal.replayed.get());
    to.metric("data_server_journal_failures_total Writes and syncs of the journal that failed.")
        .number(counters.journal.failures.get());
    to.metric("data_server_journal_checkpoint_duration_seconds Checkpoints of the journal.")
        .histogram(&[], &counters.journal.checkpoints.lock());
    to.metric("data_server_journal_wait_duration_seconds How long all writers waited for a free segment of the journal, each time a segment was full.")
        .histogram(&[], &counters.journal.waits.lock());
}

/// What each bound holds; of one with `{name}`, the sums over all names.
fn add_bounds(account: &Account, to: &mut Exposition) {
    let bounds = &account.bounds;
    let mut add = |name_and_help, figure: &dyn Fn(usize) -> Option<u64>| {
        let mut samples = to.metric(name_and_help);
        for (at, bound) in bounds.iter().enumerate() {
            if let Some(figure) = figure(at) {
                samples.labelled(&[("prefix", &bound.prefix.to_string())], figure);
            }
        }
    };
    let seconds = |age: &AtomicU64| Some(age.load(Relaxed) / 1000);
    let figures = &account.figures;
    add(
        "data_server_bound_bytes Bytes of the disk that the values of a bound take.",
        &|at| Some(account.total(at).bytes),
    );
    add(
        "data_server_bound_max_bytes The most bytes that the values of a bound may take.",
        &|at| bounds[at].max_size,
    );
    add("data_server_bound_keys Values of a bound.", &|at| {
        Some(account.total(at).keys)
    });
    add(
        "data_server_bound_max_keys The most values of a bound.",
        &|at| bounds[at].max_keys,
    );
    add(
        "data_server_bound_refused_total Writes that a bound had no room for.",
        &|at| Some(figures[at].refused.load(Relaxed)),
    );
    add(
        "data_server_bound_last_evicted_idle_seconds How long the value that was evicted last had not been used.",
        &|at| seconds(&figures[at].last_evicted),
    );
    add(
        "data_server_bound_oldest_idle_seconds How long the value used longest ago has not been used, within a minute.",
        &|at| seconds(&figures[at].oldest),
    );
}

fn add_s3(s3: &S3, to: &mut Exposition) {
    let samples = to.metric("data_server_store_requests_total Requests to the store that have ended; status none: there was no response.");
    store_requests(s3, samples);
    to.metric("data_server_store_time_to_head_seconds Time from a request to the store to the head of its response.")
        .histograms(s3.counters().map(|counters| &counters.time_to_head));
    to.metric("data_server_store_retries_total Requests to the store that were sent again.")
        .number(sum(s3, |counters| &counters.retries));
    to.metric("data_server_store_unknown_total Writes and removals whose outcome was not known when they ended.")
        .number(sum(s3, |counters| &counters.unknown));
    to.metric("data_server_store_resolved_total Writes and removals of unknown outcome that turned out to have been made.")
        .number(sum(s3, |counters| &counters.resolved));
    let (open, active) = (s3.connections(), s3.requests_under_way());
    to.metric("data_server_store_requests_active Requests to the store that are under way; each has a connection.")
        .number(active as u64);
    to.metric("data_server_store_connections_open Connections to the store that are open.")
        .number(open as u64);
    to.metric(
        "data_server_store_connections_idle Connections to the store that wait for a request.",
    )
    .number(open.saturating_sub(active) as u64);
}

/// The requests to the store by operation and class of status. Combinations that have not happened are left out.
fn store_requests(s3: &S3, mut to: Samples<'_>) {
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

fn add_access(access: &AccessCounters, to: &mut Exposition) {
    to.metric("data_server_auth_total Authentications (repeats on a connection count once) and refusals, by result.")
        .named("result", AuthResult::NAMES, &access.results);
    to.metric("data_server_auth_cache_hits_total Passwords accepted without a check, as they were right a short while ago.")
        .number(access.remembered.get());
    to.metric("data_server_password_checks_seconds Time that checking a password took.")
        .histogram(&[], &access.checks.lock());
    to.metric("data_server_access_reloads_total Rereads of the access file, by result.")
        .named("result", ["ok", "failed"], &access.reloads);
}
