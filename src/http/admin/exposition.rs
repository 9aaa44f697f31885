//! All metrics of the server, summed when a scrape asks, from counters that each thread keeps for itself.
//!
//! The metrics of the process, of the reactors and of authentication are here; those of the store are in `metrics`. Metrics that
//! show how load is spread have a label for the reactor, all others are sums. No label has a value or a name that a client can
//! choose.

use std::fmt::Result;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::access::Access;
use crate::http::admin::health::LastAnswer;
use crate::http::admin::metrics::{MetricWriter, encode_store};
use crate::metrics::{
    AccessCounters, AuthResult, CERTIFICATE_END, Direction, Handshake, LAST_RELOAD_FAILED,
    LOG_LINES_LOST, Method, Process, ReactorCounters, STATUSES, TimeLimit,
};
use crate::store::Store;

/// The registry of all metrics. To be made once, when the process starts.
pub fn registry(
    reactors: Vec<Arc<ReactorCounters>>,
    store: Arc<Store>,
    access: Option<Arc<Access>>,
    answer: Arc<LastAnswer>,
) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Sources {
        started: Process::started(),
        answer,
        reactors,
        store,
        access,
    }));
    registry
}

/// The sources of the metrics.
#[derive(Debug)]
struct Sources {
    started: f64,
    answer: Arc<LastAnswer>,
    reactors: Vec<Arc<ReactorCounters>>,
    store: Arc<Store>,
    access: Option<Arc<Access>>,
}

impl Collector for Sources {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result {
        let to = &mut MetricWriter(encoder);
        self.encode_process(to)?;
        self.encode_connections(to)?;
        self.encode_requests(to)?;
        self.encode_latencies(to)?;
        self.encode_values(to)?;
        encode_store(to, &self.store)?;
        let access = self.access.as_ref();
        access.map_or(Ok(()), |access| encode_access(to, access.counters()))
    }
}

impl Sources {
    /// The metrics of the process; its resources have the names that Prometheus gives them everywhere.
    fn encode_process(&self, to: &mut MetricWriter<'_>) -> Result {
        let now = Process::read();
        let (name, help) = ("data_server_build_info", "The version that runs; always 1.");
        to.metric(name, None, help, MetricType::Gauge, |metric| {
            let version = [("version", env!("CARGO_PKG_VERSION"))];
            metric.encode_family(&version)?.encode_gauge(&1_u64)
        })?;
        to.counter(
            "data_server_log_lines_lost",
            "Lines of the log that were lost: their reader stalled, or writing them failed.",
            LOG_LINES_LOST.get(),
        )?;
        to.gauge(
            "data_server_config_last_reload_successful",
            None,
            "0 where the last reload failed and what was there before still counts, else 1.",
            u64::from(!LAST_RELOAD_FAILED.load(Ordering::Relaxed)),
        )?;
        to.gauge(
            "data_server_ready",
            None,
            "1 where /-/ready answers 200, else 0.",
            u64::from(self.answer.is_ready()),
        )?;
        if let Some(free) = self.answer.free() {
            to.gauge(
                "data_server_free",
                Some(&Unit::Bytes),
                "What the file system of the values has free.",
                free,
            )?;
        }
        let end = CERTIFICATE_END.load(Ordering::Relaxed);
        if end > 0 {
            to.gauge(
                "data_server_tls_certificate_end_timestamp",
                Some(&Unit::Seconds),
                "When the first of the server's certificates ends, since 1970.",
                end,
            )?;
        }
        to.gauge(
            "process_resident_memory",
            Some(&Unit::Bytes),
            "Resident memory.",
            now.resident,
        )?;
        to.gauge(
            "process_open_fds",
            None,
            "Open file descriptors.",
            now.descriptors,
        )?;
        let seconds = Some(&Unit::Seconds);
        let help = "Processor time of all threads, user and system.";
        to.metric(
            "process_cpu",
            seconds,
            help,
            MetricType::Counter,
            |metric| metric.encode_counter::<[(&str, &str); 0], f64, u64>(&now.cpu, None),
        )?;
        let (name, help) = (
            "process_start_time",
            "When the process was started, since 1970.",
        );
        to.metric(name, seconds, help, MetricType::Gauge, |metric| {
            metric.encode_gauge(&self.started)
        })
    }

    fn encode_connections(&self, to: &mut MetricWriter<'_>) -> Result {
        to.counters(
            "data_server_connections_accepted",
            None,
            "Connections handed to a reactor.",
            self.each(|reactor| reactor.accepting.accepted.get()),
        )?;
        to.metric(
            "data_server_connections_active",
            None,
            "Connections that a reactor has.",
            MetricType::Gauge,
            |metric| {
                let mut active = self.each(ReactorCounters::active);
                active.try_for_each(|(labels, active)| {
                    metric.encode_family(&labels)?.encode_gauge(&active)
                })
            },
        )?;
        to.counters(
            "data_server_connections_finished",
            None,
            "Connections that have ended.",
            self.each(|reactor| reactor.finished.get()),
        )?;
        to.counter(
            "data_server_accept_errors",
            "Attempts to accept a connection that failed.",
            self.sum(|reactor| reactor.accepting.errors.get()),
        )?;
        to.counter(
            "data_server_connections_refused",
            "Connections closed at once, for --max-connections-per-ip.",
            self.sum(|reactor| reactor.accepting.refused.get()),
        )?;
        to.counter(
            "data_server_proxy_headers_refused",
            "Connections closed because they began with no valid header of the PROXY protocol.",
            self.sum(|reactor| reactor.bad_proxy_headers.get()),
        )?;
        to.counters(
            "data_server_tls_handshakes",
            None,
            "Handshakes of TLS, by how they ended.",
            self.each_of("result", Handshake::ALL, ReactorCounters::handshakes),
        )?;
        to.counters(
            "data_server_time_limits",
            None,
            "Clients that were over a time limit, by the option that sets it.",
            self.each_of("limit", TimeLimit::ALL, ReactorCounters::exceeded),
        )?;
        to.counter(
            "data_server_panics",
            "Panics that were caught.",
            self.sum(|reactor| reactor.panics.get()),
        )
    }

    fn encode_requests(&self, to: &mut MetricWriter<'_>) -> Result {
        to.counters(
            "data_server_requests",
            None,
            "Requests whose answer has ended; of status none where there was no answer.",
            self.outcomes(),
        )?;
        to.counters(
            "data_server_takeovers",
            None,
            "Long bodies that the connection moved itself, past hyper.",
            self.each_of("direction", Direction::ALL, ReactorCounters::takeovers),
        )?;
        let bytes = Some(&Unit::Bytes);
        to.counters(
            "data_server_received",
            bytes,
            "Bytes received.",
            self.each(|reactor| reactor.bytes.received.get()),
        )?;
        to.counters(
            "data_server_sent",
            bytes,
            "Bytes sent.",
            self.each(|reactor| reactor.bytes.sent.get()),
        )
    }

    /// The requests of each reactor, method and class of status. Combinations that have not happened are left out, so that the
    /// metrics of many reactors stay readable.
    fn outcomes(&self) -> Vec<([(&str, String); 3], u64)> {
        let mut outcomes = Vec::new();
        for (index, reactor) in self.reactors.iter().enumerate() {
            for (method, name) in Method::ALL {
                for (class, status) in STATUSES.into_iter().enumerate() {
                    let requests = reactor.requests(method, class);
                    let is_usual = name == "GET" && status == "2xx";
                    if requests > 0 || is_usual {
                        let reactor = ("reactor", index.to_string());
                        let labels = [reactor, ("method", name.into()), ("status", status.into())];
                        outcomes.push((labels, requests));
                    }
                }
            }
        }
        outcomes
    }

    fn encode_latencies(&self, to: &mut MetricWriter<'_>) -> Result {
        to.histograms(
            "data_server_request_duration",
            "From the head of a request to the last byte of its answer given to the socket.",
            self.reactors.iter().map(|reactor| &reactor.latency.request),
        )?;
        to.histograms(
            "data_server_time_to_first_byte",
            "From the head of a request to the first byte of its answer given to the socket.",
            self.reactors
                .iter()
                .map(|reactor| &reactor.latency.first_byte),
        )?;
        to.histograms(
            "data_server_event_loop_lag",
            "How much later than due a timer of the reactor ran.",
            self.reactors
                .iter()
                .map(|reactor| &reactor.latency.event_loop),
        )
    }

    fn encode_values(&self, to: &mut MetricWriter<'_>) -> Result {
        // Ends are read first: an upload that ends between the two readings counts once more, not once less.
        let finished = self.sum(|reactor| reactor.uploads.finished.get());
        let started = self.sum(|reactor| reactor.uploads.started.get());
        to.gauge(
            "data_server_uploads_in_flight",
            None,
            "Values being received.",
            started.saturating_sub(finished),
        )?;
        to.counter(
            "data_server_cache_hits",
            "Reads answered from the cache.",
            self.sum(|reactor| reactor.cache.hits.get()),
        )?;
        to.counter(
            "data_server_cache_misses",
            "Reads that the cache could not answer.",
            self.sum(|reactor| reactor.cache.misses.get()),
        )
    }

    fn sum(&self, count: impl Fn(&ReactorCounters) -> u64) -> u64 {
        self.reactors.iter().map(|reactor| count(reactor)).sum()
    }

    /// The `count` of each reactor.
    fn each(
        &self,
        count: impl Fn(&ReactorCounters) -> u64,
    ) -> impl Iterator<Item = ([(&str, String); 1], u64)> {
        let reactors = self.reactors.iter().enumerate();
        reactors.map(move |(index, reactor)| ([("reactor", index.to_string())], count(reactor)))
    }

    /// The `count` of each reactor for each of `all`, whose name is the value of `label`.
    fn each_of<'l, T: Copy, const N: usize>(
        &self,
        label: &'l str,
        all: [(T, &'l str); N],
        count: impl Fn(&ReactorCounters, T) -> u64,
    ) -> impl Iterator<Item = ([(&'l str, String); 2], u64)> {
        let reactors = self.reactors.iter().enumerate();
        reactors.flat_map(move |(index, reactor)| {
            all.map(|(one, name)| {
                let labels = [("reactor", index.to_string()), (label, name.to_owned())];
                (labels, count(reactor, one))
            })
        })
    }
}

/// The metrics of authentication: results, the time of checks of passwords, and reloads of the rules.
fn encode_access(to: &mut MetricWriter<'_>, counters: &AccessCounters) -> Result {
    to.counters(
        "data_server_auth",
        None,
        "Claims of who asks, once for each connection that makes the same, and refusals, by how they ended.",
        AuthResult::ALL.map(|(result, name)| ([("result", name)], counters.results(result))),
    )?;
    to.counter(
        "data_server_auth_cache_hits",
        "Passwords that were not checked again, for they were right a short while ago.",
        counters.remembered.get(),
    )?;
    to.histogram(
        "data_server_password_checks",
        Some(&Unit::Seconds),
        "Time that checking a password took.",
        &counters.checks.lock(),
    )?;
    let [ok, failed] = &counters.reloads;
    to.counters(
        "data_server_access_reloads",
        None,
        "Readings of the file of --access after the start.",
        [("ok", ok), ("failed", failed)].map(|(result, count)| ([("result", result)], count.get())),
    )
}
