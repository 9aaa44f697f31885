//! What is told of the server to a scrape: every metric, with its name, its help and its unit.
//!
//! Sums are made here, when they are asked for, from counters that each thread keeps for itself. No label has a value that
//! a client can choose.

use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::http::admin::metric_writer::{Scribe, Told, count, spread};
use crate::http::admin::process::Process;
use crate::metrics::{Direction, Histogram, LOG_LINES_LOST, Method, ReactorCounters, STATUSES};
use crate::store::Store;

/// All metrics.
#[derive(Debug)]
pub(super) struct Exposition(Registry);

impl Exposition {
    pub(super) fn new(reactors: Vec<Arc<ReactorCounters>>, store: Arc<Store>) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Process::new()));
        registry.register_collector(Box::new(Server { reactors, store }));
        Self(registry)
    }

    /// As `OpenMetrics` text.
    pub(super) fn render(&self) -> String {
        let mut open = String::new();
        // Writing to memory does not fail.
        let _ = text::encode(&mut open, &self.0);
        open
    }
}

#[derive(Debug)]
struct Server {
    reactors: Vec<Arc<ReactorCounters>>,
    store: Arc<Store>,
}

impl Collector for Server {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Told {
        let mut to = Scribe(encoder);
        let help = "The version that runs; always 1.";
        to.begin(
            "data_server_build_info",
            None,
            help,
            MetricType::Gauge,
            |m| {
                m.encode_family(&[("version", env!("CARGO_PKG_VERSION"))])?
                    .encode_gauge(&1_u64)
            },
        )?;
        to.counter(
            "data_server_log_lines_lost",
            "Lines of the log that were lost: their reader stalled, or writing them failed.",
            LOG_LINES_LOST.get(),
        )?;
        self.tell_connections(&mut to)?;
        self.tell_requests(&mut to)?;
        self.tell_uploads(&mut to)?;
        self.tell_store(&mut to)
    }
}

impl Server {
    fn tell_connections(&self, to: &mut Scribe<'_>) -> Told {
        self.counts(
            to,
            ("data_server_connections_accepted", None),
            "Connections handed to a reactor.",
            |r| r.accepting.accepted.get(),
        )?;
        self.each(
            to,
            ("data_server_connections_active", None),
            "Connections that a reactor has.",
            MetricType::Gauge,
            |m, r| m.encode_gauge(&r.active()),
        )?;
        self.counts(
            to,
            ("data_server_connections_finished", None),
            "Connections that have ended.",
            |r| r.finished.get(),
        )?;
        to.counter(
            "data_server_accept_errors",
            "Attempts to accept a connection that failed.",
            self.sum(|r| r.accepting.errors.get()),
        )?;
        to.counter(
            "data_server_connections_refused",
            "Connections closed at once, for --max-connections-per-ip.",
            self.sum(|r| r.accepting.refused.get()),
        )?;
        to.counter(
            "data_server_panics",
            "Panics that were caught.",
            self.sum(|r| r.panics.get()),
        )
    }

    fn tell_requests(&self, to: &mut Scribe<'_>) -> Told {
        let help = "Requests whose answer has ended; of status none where there was no answer.";
        to.begin(
            "data_server_requests",
            None,
            help,
            MetricType::Counter,
            |m| self.tell_outcomes(m),
        )?;
        to.begin(
            "data_server_takeovers",
            None,
            "Long bodies for which the connection took its socket over from hyper.",
            MetricType::Counter,
            |m| self.tell_takeovers(m),
        )?;
        let bytes = Some(&Unit::Bytes);
        self.counts(
            to,
            ("data_server_received", bytes),
            "Bytes received.",
            |r| r.received.get(),
        )?;
        self.counts(to, ("data_server_sent", bytes), "Bytes sent.", |r| {
            r.sent.get()
        })?;
        let seconds = Some(&Unit::Seconds);
        self.spreads(
            to,
            ("data_server_request_duration", seconds),
            "From the head of a request to the last byte of its answer given to the socket.",
            |r| &r.duration,
        )?;
        self.spreads(
            to,
            ("data_server_time_to_first_byte", seconds),
            "From the head of a request to the first byte of its answer given to the socket.",
            |r| &r.first_byte,
        )?;
        self.spreads(
            to,
            ("data_server_event_loop_lag", seconds),
            "How much later than due a timer of the reactor ran.",
            |r| &r.event_loop_lag,
        )
    }

    /// A combination that has not happened is left out, so that many reactors stay readable.
    fn tell_outcomes(&self, metric: &mut MetricEncoder<'_>) -> Told {
        for (index, reactor) in self.reactors.iter().enumerate() {
            let index = index.to_string();
            for (method, name) in Method::ALL {
                for (class, status) in STATUSES.iter().enumerate() {
                    let requests = reactor.requests(method, class);
                    let is_usual = name == "GET" && *status == "2xx";
                    if requests > 0 || is_usual {
                        let labels = [("reactor", &*index), ("method", name), ("status", status)];
                        count(&mut metric.encode_family(&labels)?, requests)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn tell_takeovers(&self, metric: &mut MetricEncoder<'_>) -> Told {
        for (index, reactor) in self.reactors.iter().enumerate() {
            let index = index.to_string();
            for (direction, name) in Direction::ALL {
                let labels = [("reactor", &*index), ("direction", name)];
                count(
                    &mut metric.encode_family(&labels)?,
                    reactor.takeovers(direction),
                )?;
            }
        }
        Ok(())
    }

    fn tell_uploads(&self, to: &mut Scribe<'_>) -> Told {
        // Ends first: an upload that ends between the two readings then counts once more, not once less.
        let ended = self.sum(|r| r.uploads_ended.get());
        to.gauge(
            "data_server_uploads_in_flight",
            None,
            "Values being received.",
            self.sum(|r| r.uploads.get()).saturating_sub(ended),
        )?;
        to.gauge(
            "data_server_staged",
            Some(&Unit::Bytes),
            "Bytes of uploads, received or announced, and not published yet; without --max-staged, of those above 64 KiB.",
            self.store.staged().bytes,
        )?;
        to.gauge(
            "data_server_watch_subscribers",
            None,
            "Clients that watch for changes.",
            self.store.changes().subscribers(),
        )
    }

    fn tell_store(&self, to: &mut Scribe<'_>) -> Told {
        to.counter(
            "data_server_cache_hits",
            "Reads answered from the cache.",
            self.sum(|r| r.hits.get()),
        )?;
        to.counter(
            "data_server_cache_misses",
            "Reads that the cache could not answer.",
            self.sum(|r| r.misses.get()),
        )?;
        to.gauge(
            "data_server_cache",
            Some(&Unit::Bytes),
            "Memory that cached values take.",
            self.store.cached_bytes(),
        )?;
        for (name, threads) in [
            ("disk", self.store.disk()),
            ("listing", self.store.listing()),
            ("compute", self.store.compute()),
        ] {
            let help = format!("Jobs that wait for one of the {name} threads.");
            let queue = format!("data_server_{name}_queue_length");
            to.gauge(&queue, None, &help, threads.jobs().waiting())?;
            let help = format!("BlockingPool of the {name} threads with a job.");
            let busy = format!("data_server_{name}_threads_busy");
            to.gauge(&busy, None, &help, threads.jobs().busy())?;
        }
        let counters = self.store.counters();
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
        )?;
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

    fn sum(&self, of: impl Fn(&ReactorCounters) -> u64) -> u64 {
        self.reactors.iter().map(|reactor| of(reactor)).sum()
    }

    /// A metric of each reactor.
    fn each(
        &self,
        to: &mut Scribe<'_>,
        (name, unit): (&str, Option<&Unit>),
        help: &str,
        kind: MetricType,
        tell: impl Fn(&mut MetricEncoder<'_>, &ReactorCounters) -> Told,
    ) -> Told {
        to.begin(name, unit, help, kind, |metric| {
            for (index, reactor) in self.reactors.iter().enumerate() {
                let labels = [("reactor", index.to_string())];
                tell(&mut metric.encode_family(&labels)?, reactor)?;
            }
            Ok(())
        })
    }

    fn counts(
        &self,
        to: &mut Scribe<'_>,
        name: (&str, Option<&Unit>),
        help: &str,
        of: impl Fn(&ReactorCounters) -> u64,
    ) -> Told {
        self.each(to, name, help, MetricType::Counter, |m, r| count(m, of(r)))
    }

    fn spreads(
        &self,
        to: &mut Scribe<'_>,
        name: (&str, Option<&Unit>),
        help: &str,
        of: impl Fn(&ReactorCounters) -> &Histogram,
    ) -> Told {
        self.each(to, name, help, MetricType::Histogram, |m, r| {
            spread(m, of(r))
        })
    }
}
