//! The metrics of the reactors: connections, requests, and how reads met the cache.
//!
//! What shows how load is spread has a label for the reactor. The rest is a sum over all.

use std::fmt::Result;
use std::sync::Arc;

use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::http::admin::metric_writer::MetricWriter;
use crate::metrics::{Direction, Handshake, Method, ReactorCounters, STATUSES, TimeLimit};

#[derive(Debug)]
pub struct ReactorMetrics(pub Vec<Arc<ReactorCounters>>);

impl ReactorMetrics {
    pub fn encode(&self, to: &mut MetricWriter<'_>) -> Result {
        self.encode_connections(to)?;
        self.encode_requests(to)?;
        self.encode_latencies(to)?;
        self.encode_values(to)
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

    /// A combination that has not happened is left out, so that many reactors stay readable.
    fn outcomes(&self) -> Vec<([(&str, String); 3], u64)> {
        let mut outcomes = Vec::new();
        for (index, reactor) in self.0.iter().enumerate() {
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
            self.0.iter().map(|reactor| &reactor.latency.request),
        )?;
        to.histograms(
            "data_server_time_to_first_byte",
            "From the head of a request to the first byte of its answer given to the socket.",
            self.0.iter().map(|reactor| &reactor.latency.first_byte),
        )?;
        to.histograms(
            "data_server_event_loop_lag",
            "How much later than due a timer of the reactor ran.",
            self.0.iter().map(|reactor| &reactor.latency.event_loop),
        )
    }

    fn encode_values(&self, to: &mut MetricWriter<'_>) -> Result {
        // Ends first: an upload that ends between the two readings then counts once more, not once less.
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
        self.0.iter().map(|reactor| count(reactor)).sum()
    }

    /// The `count` of each reactor.
    fn each(
        &self,
        count: impl Fn(&ReactorCounters) -> u64,
    ) -> impl Iterator<Item = ([(&str, String); 1], u64)> {
        let reactors = self.0.iter().enumerate();
        reactors.map(move |(index, reactor)| ([("reactor", index.to_string())], count(reactor)))
    }

    /// The `count` of each reactor for each of `all`, whose name is the value of `label`.
    fn each_of<'l, T: Copy, const N: usize>(
        &self,
        label: &'l str,
        all: [(T, &'l str); N],
        count: impl Fn(&ReactorCounters, T) -> u64,
    ) -> impl Iterator<Item = ([(&'l str, String); 2], u64)> {
        let reactors = self.0.iter().enumerate();
        reactors.flat_map(move |(index, reactor)| {
            all.map(|(one, name)| {
                let labels = [("reactor", index.to_string()), (label, name.to_owned())];
                (labels, count(reactor, one))
            })
        })
    }
}
