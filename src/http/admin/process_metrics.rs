//! The metrics of the process: what runs, and under the names that Prometheus has for it everywhere, what it uses.

use std::fmt::Result;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::http::admin::health::LastAnswer;
use crate::http::admin::metric_writer::MetricWriter;
use crate::metrics::{CERTIFICATE_END, LAST_RELOAD_FAILED, LOG_LINES_LOST, process};

#[derive(Debug)]
pub struct ProcessMetrics {
    started: f64,
    answer: Arc<LastAnswer>,
}

impl ProcessMetrics {
    /// To be made once, when the process starts.
    pub fn new(answer: Arc<LastAnswer>) -> Self {
        Self {
            started: process::started(),
            answer,
        }
    }
}

impl Collector for ProcessMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result {
        let now = process::read();
        let mut to = MetricWriter(encoder);
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
}
