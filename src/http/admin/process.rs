//! What is told of the process, under the names that Prometheus has for it everywhere.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::http::admin::metric_writer::{Scribe, Told};
use crate::metrics::process;

/// The process.
#[derive(Debug)]
pub(super) struct Process {
    started: f64,
}

impl Process {
    /// To be made once, when the process starts.
    pub(super) fn new() -> Self {
        Self {
            started: process::started(),
        }
    }
}

impl Collector for Process {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Told {
        let now = process::read();
        let mut to = Scribe(encoder);
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
        to.begin("process_cpu", seconds, help, MetricType::Counter, |m| {
            m.encode_counter::<[(&str, &str); 0], f64, u64>(&now.cpu, None)
        })?;
        let help = "When the process was started, since 1970.";
        to.begin(
            "process_start_time",
            seconds,
            help,
            MetricType::Gauge,
            |m| m.encode_gauge(&self.started),
        )
    }
}
