//! The two text formats of Prometheus, 0.0.4 and `OpenMetrics` 1.0, of metrics.
//!
//! The name of a metric says its kind and its unit: `_total` ends a counter, `_seconds` and `_bytes` are the units.
//! `OpenMetrics` declares a counter without `_total`, and has units and an end mark. Nothing is escaped: clients choose
//! no text in here.

use std::fmt::{Display, Write as _};

use hyper::header::HeaderMap;

use crate::http::head::accept::prefers_open_metrics;
use crate::metrics::{Counter, Histogram, SharedCounter};

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsFormat {
    Prometheus,
    OpenMetrics,
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

    pub fn media_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The text of metrics.
#[derive(Debug)]
pub struct Exposition {
    format: MetricsFormat,
    text: String,
}

impl Exposition {
    pub fn new(format: MetricsFormat) -> Self {
        let text = String::new();
        Self { format, text }
    }

    /// Adds a metric, given by its name in the format 0.0.4 and its help. A metric without samples is left out.
    pub fn metric(&mut self, name_and_help: &'static str) -> Samples<'_> {
        let (name, help) = name_and_help.split_once(' ').unwrap_or_default();
        Samples {
            to: self,
            name,
            help,
            is_declared: false,
        }
    }

    pub fn finish(mut self) -> String {
        if self.format == MetricsFormat::OpenMetrics {
            self.text += "# EOF\n";
        }
        self.text
    }
}

/// The samples of one metric.
#[derive(Debug)]
pub struct Samples<'a> {
    to: &'a mut Exposition,
    name: &'static str,
    help: &'static str,
    is_declared: bool,
}

impl Samples<'_> {
    /// Adds the metric's only sample, if there is a value.
    pub fn number(&mut self, value: impl Into<Option<u64>>) {
        if let Some(value) = value.into() {
            self.labelled(&[], value);
        }
    }

    pub fn labelled(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let is_counter = self.name.ends_with("_total");
        self.declare(if is_counter { "counter" } else { "gauge" });
        self.sample("", labels, value);
    }

    /// Adds a sample for each reactor.
    pub fn each(&mut self, values: impl Iterator<Item = u64>) {
        for (reactor, value) in values.enumerate() {
            self.labelled(&[("reactor", &reactor.to_string())], value);
        }
    }

    /// Adds a sample for each of `counters`, which have `names` as values of `label`.
    pub fn named<const N: usize>(
        &mut self,
        label: &str,
        names: [&str; N],
        counters: &[SharedCounter; N],
    ) {
        for (name, counter) in names.iter().zip(counters) {
            self.labelled(&[(label, name)], counter.get());
        }
    }

    /// Adds a sample for each of the `counters` of each reactor, which have `names` as values of `label`.
    pub fn each_of<'c, const N: usize>(
        &mut self,
        label: &str,
        names: [&str; N],
        counters: impl Iterator<Item = &'c [Counter; N]>,
    ) {
        for (reactor, counters) in counters.enumerate() {
            for (name, counter) in names.iter().zip(counters) {
                let labels = [("reactor", &*reactor.to_string()), (label, name)];
                self.labelled(&labels, counter.get());
            }
        }
    }

    /// Adds a histogram for each reactor.
    pub fn histograms<'h, const SCALE: usize>(
        &mut self,
        histograms: impl Iterator<Item = &'h Histogram<SCALE>>,
    ) {
        for (reactor, histogram) in histograms.enumerate() {
            self.histogram(&[("reactor", &reactor.to_string())], histogram);
        }
    }

    pub fn histogram<const SCALE: usize>(
        &mut self,
        label: &[(&str, &str)],
        histogram: &Histogram<SCALE>,
    ) {
        self.declare("histogram");
        let (buckets, sum) = histogram.read();
        let count: u64 = buckets.iter().map(|(_, count)| count).sum();
        self.sample("_sum", label, float(sum));
        self.sample("_count", label, count);
        let mut below = 0;
        for (bound, count) in buckets {
            below += count;
            let bound = float(bound);
            let labels = [&[("le", bound.as_str())], label].concat();
            self.sample("_bucket", &labels, below);
        }
    }

    /// Begins the metric, once.
    fn declare(&mut self, kind: &str) {
        if std::mem::replace(&mut self.is_declared, true) {
            return;
        }
        let (mut name, help) = (self.name, self.help);
        let is_open = self.to.format == MetricsFormat::OpenMetrics;
        if is_open {
            name = name.strip_suffix("_total").unwrap_or(name);
        }
        let text = &mut self.to.text;
        // Writing to memory does not fail.
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        let unit = name.rsplit('_').next().unwrap_or_default();
        if is_open && ["seconds", "bytes"].contains(&unit) {
            let _ = writeln!(text, "# UNIT {name} {unit}");
        }
    }

    fn sample(&mut self, ending: &str, labels: &[(&str, &str)], value: impl Display) {
        let text = &mut self.to.text;
        let _ = write!(text, "{}{ending}", self.name);
        for (at, (label, value)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            let _ = write!(text, "{before}{label}=\"{value}\"");
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(text, "{end} {value}");
    }
}

/// `value` with a point, as both formats have numbers that are not counts.
pub fn float(value: f64) -> String {
    let text = value.to_string();
    match text.as_str() {
        "inf" => "+Inf".to_owned(),
        _ if text.contains('.') => text,
        _ => text + ".0",
    }
}
