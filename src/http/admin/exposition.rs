//! All metrics of the server, as a scrape gets them, in the two text formats of Prometheus; and those of the process and of who
//! asks.
//!
//! Sums are made when a scrape asks, from counters that each thread keeps for itself. No label has a value that a client
//! can choose, and none is a name of one. The library writes `OpenMetrics` 1.0. The older format (0.0.4) is made from it: there a
//! counter is declared under the name that it is told with, and there are neither units nor an end mark.

use std::fmt::{Result, Write as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyper::header::HeaderMap;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::access::Access;
use crate::http::admin::health::LastAnswer;
use crate::http::admin::metric_writer::MetricWriter;
use crate::http::admin::reactor_metrics::ReactorMetrics;
use crate::http::admin::store_metrics;
use crate::http::head::accept::prefers_open_metrics;
use crate::metrics::{
    AccessCounters, AuthResult, CERTIFICATE_END, LAST_RELOAD_FAILED, LOG_LINES_LOST,
    ReactorCounters, process,
};
use crate::store::Store;

/// All metrics.
#[derive(Debug)]
pub struct Exposition(Registry);

/// Where the metrics come from.
#[derive(Debug)]
struct Sources {
    started: f64,
    answer: Arc<LastAnswer>,
    reactors: ReactorMetrics,
    store: Arc<Store>,
    access: Option<Arc<Access>>,
}

impl Collector for Sources {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result {
        let to = &mut MetricWriter(encoder);
        encode_process(to, self.started, &self.answer)?;
        self.reactors.encode(to)?;
        store_metrics::encode(to, &self.store)?;
        let access = self.access.as_ref();
        access.map_or(Ok(()), |access| encode_access(to, access.counters()))
    }
}

impl Exposition {
    /// To be made once, when the process starts.
    pub fn new(
        reactors: Vec<Arc<ReactorCounters>>,
        store: Arc<Store>,
        access: Option<Arc<Access>>,
        answer: Arc<LastAnswer>,
    ) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Sources {
            started: process::started(),
            answer,
            reactors: ReactorMetrics(reactors),
            store,
            access,
        }));
        Self(registry)
    }

    /// The text of them all in this `format`.
    pub fn render(&self, format: MetricsFormat) -> String {
        let mut open = String::new();
        // Writing to memory does not fail.
        let _ = text::encode(&mut open, &self.0);
        match format {
            MetricsFormat::Prometheus => prometheus(&open),
            MetricsFormat::OpenMetrics => open,
        }
    }
}

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsFormat {
    Prometheus,
    OpenMetrics,
}

impl MetricsFormat {
    /// The one that Accept prefers; the older one where it does not name the newer.
    pub fn preferred(headers: &HeaderMap) -> Self {
        if prefers_open_metrics(headers) {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    pub fn media_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// `open`, a text in `OpenMetrics`, as Prometheus text.
fn prometheus(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    let mut help = "";
    for line in open.lines() {
        // HELP comes before TYPE, which says how the name ends.
        if line.starts_with("# HELP ") {
            help = line;
        } else if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, kind) = declared.split_once(' ').unwrap_or((declared, ""));
            let ending = if kind == "counter" { "_total" } else { "" };
            let said = help.strip_prefix("# HELP ").unwrap_or_default();
            let said = said.strip_prefix(name).unwrap_or_default();
            let _ = writeln!(text, "# HELP {name}{ending}{said}");
            let _ = writeln!(text, "# TYPE {name}{ending} {kind}");
        } else if !line.starts_with("# ") {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// The metrics of the process: what runs, and under the names that Prometheus has for it everywhere, what it uses.
fn encode_process(to: &mut MetricWriter<'_>, started: f64, answer: &LastAnswer) -> Result {
    let now = process::read();
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
        u64::from(answer.is_ready()),
    )?;
    if let Some(free) = answer.free() {
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
        metric.encode_gauge(&started)
    })
}

/// How claims of who asks ended, and what checking passwords took.
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
    counters.with_checks(|checks| {
        to.histogram(
            "data_server_password_checks",
            Some(&Unit::Seconds),
            "Time that checking a password took.",
            checks,
        )
    })?;
    let [ok, failed] = &counters.reloads;
    to.counters(
        "data_server_access_reloads",
        None,
        "Readings of the file of --access after the start.",
        [("ok", ok), ("failed", failed)].map(|(result, count)| ([("result", result)], count.get())),
    )
}

#[cfg(test)]
mod tests {
    use crate::http::admin::exposition::*;

    #[test]
    fn prometheus_text_declares_counters_as_they_are_told() {
        let open = "# HELP a_bytes What a does.\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\na_bytes_total 1\n\
            # HELP b B.\n# TYPE b gauge\nb{x=\"# y\"} 2\n# EOF\n";
        assert_eq!(
            prometheus(open),
            "# HELP a_bytes_total What a does.\n# TYPE a_bytes_total counter\na_bytes_total 1\n\
                # HELP b B.\n# TYPE b gauge\nb{x=\"# y\"} 2\n"
        );
    }
}
