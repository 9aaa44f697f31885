//! The metrics of the reactors: connections, requests, and how reads met the cache.
//!
//! What shows how load is spread has a label for the reactor. The rest is a sum over all.

use std::fmt::Result;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::http::admin::metric_writer::{MetricWriter, encode_counter, encode_histogram};
use crate::metrics::{
    Direction, Handshake, Histogram, Method, ReactorCounters, STATUSES, TimeLimit,
};

#[derive(Debug)]
pub struct ReactorMetrics(pub Vec<Arc<ReactorCounters>>);

impl Collector for ReactorMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result {
        let mut to = MetricWriter(encoder);
        self.encode_connections(&mut to)?;
        self.encode_requests(&mut to)?;
        self.encode_latencies(&mut to)?;
        self.encode_values(&mut to)
    }
}

impl ReactorMetrics {
    fn encode_connections(&self, to: &mut MetricWriter<'_>) -> Result {
        self.counters(
            to,
            ("data_server_connections_accepted", None),
            "Connections handed to a reactor.",
            |reactor| reactor.accepting.accepted.get(),
        )?;
        self.each(
            to,
            ("data_server_connections_active", None),
            "Connections that a reactor has.",
            MetricType::Gauge,
            |metric, reactor| metric.encode_gauge(&reactor.active()),
        )?;
        self.counters(
            to,
            ("data_server_connections_finished", None),
            "Connections that have ended.",
            |reactor| reactor.finished.get(),
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
        to.metric(
            "data_server_tls_handshakes",
            None,
            "Handshakes of TLS, by how they ended.",
            MetricType::Counter,
            |metric| {
                self.encode_each(metric, "result", Handshake::ALL, |reactor, handshake| {
                    reactor.handshakes(handshake)
                })
            },
        )?;
        to.metric(
            "data_server_time_limits",
            None,
            "Clients that were over a time limit, by the option that sets it.",
            MetricType::Counter,
            |metric| {
                self.encode_each(metric, "limit", TimeLimit::ALL, |reactor, limit| {
                    reactor.exceeded(limit)
                })
            },
        )?;
        to.counter(
            "data_server_panics",
            "Panics that were caught.",
            self.sum(|reactor| reactor.panics.get()),
        )
    }

    fn encode_requests(&self, to: &mut MetricWriter<'_>) -> Result {
        to.metric(
            "data_server_requests",
            None,
            "Requests whose answer has ended; of status none where there was no answer.",
            MetricType::Counter,
            |metric| self.encode_outcomes(metric),
        )?;
        to.metric(
            "data_server_takeovers",
            None,
            "Long bodies that the connection moved itself, past hyper.",
            MetricType::Counter,
            |metric| {
                self.encode_each(metric, "direction", Direction::ALL, |reactor, direction| {
                    reactor.takeovers(direction)
                })
            },
        )?;
        let bytes = Some(&Unit::Bytes);
        self.counters(
            to,
            ("data_server_received", bytes),
            "Bytes received.",
            |reactor| reactor.bytes.received.get(),
        )?;
        self.counters(to, ("data_server_sent", bytes), "Bytes sent.", |reactor| {
            reactor.bytes.sent.get()
        })
    }

    /// A combination that has not happened is left out, so that many reactors stay readable.
    fn encode_outcomes(&self, metric: &mut MetricEncoder<'_>) -> Result {
        for (index, reactor) in self.0.iter().enumerate() {
            let index = index.to_string();
            for (method, name) in Method::ALL {
                for (class, status) in STATUSES.iter().enumerate() {
                    let requests = reactor.requests(method, class);
                    let is_usual = name == "GET" && *status == "2xx";
                    if requests > 0 || is_usual {
                        let labels = [("reactor", &*index), ("method", name), ("status", status)];
                        encode_counter(&mut metric.encode_family(&labels)?, requests)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// A count for each of `all`, whose name is the value of `label`.
    fn encode_each<T: Copy, const N: usize>(
        &self,
        metric: &mut MetricEncoder<'_>,
        label: &str,
        all: [(T, &str); N],
        count: impl Fn(&ReactorCounters, T) -> u64,
    ) -> Result {
        for (index, reactor) in self.0.iter().enumerate() {
            let index = index.to_string();
            for (one, name) in all {
                let labels = [("reactor", &*index), (label, name)];
                encode_counter(&mut metric.encode_family(&labels)?, count(reactor, one))?;
            }
        }
        Ok(())
    }

    fn encode_latencies(&self, to: &mut MetricWriter<'_>) -> Result {
        self.histograms(
            to,
            "data_server_request_duration",
            "From the head of a request to the last byte of its answer given to the socket.",
            |reactor| &reactor.latency.request,
        )?;
        self.histograms(
            to,
            "data_server_time_to_first_byte",
            "From the head of a request to the first byte of its answer given to the socket.",
            |reactor| &reactor.latency.first_byte,
        )?;
        self.histograms(
            to,
            "data_server_event_loop_lag",
            "How much later than due a timer of the reactor ran.",
            |reactor| &reactor.latency.event_loop,
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

    /// A metric of each reactor.
    fn each(
        &self,
        to: &mut MetricWriter<'_>,
        (name, unit): (&str, Option<&Unit>),
        help: &str,
        kind: MetricType,
        encode: impl Fn(&mut MetricEncoder<'_>, &ReactorCounters) -> Result,
    ) -> Result {
        to.metric(name, unit, help, kind, |metric| {
            for (index, reactor) in self.0.iter().enumerate() {
                let labels = [("reactor", index.to_string())];
                encode(&mut metric.encode_family(&labels)?, reactor)?;
            }
            Ok(())
        })
    }

    fn counters(
        &self,
        to: &mut MetricWriter<'_>,
        name: (&str, Option<&Unit>),
        help: &str,
        count: impl Fn(&ReactorCounters) -> u64,
    ) -> Result {
        self.each(to, name, help, MetricType::Counter, |metric, reactor| {
            encode_counter(metric, count(reactor))
        })
    }

    /// Durations, in seconds.
    fn histograms(
        &self,
        to: &mut MetricWriter<'_>,
        name: &str,
        help: &str,
        histogram: impl Fn(&ReactorCounters) -> &Histogram,
    ) -> Result {
        let name = (name, Some(&Unit::Seconds));
        self.each(to, name, help, MetricType::Histogram, |metric, reactor| {
            encode_histogram(metric, histogram(reactor))
        })
    }
}
