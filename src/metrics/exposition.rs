//! How counters and their metrics are declared, and the two text formats of Prometheus, 0.0.4 and `OpenMetrics` 1.0.
//!
//! The name of a metric says its kind and its unit: `_total` ends a counter, `_seconds` and `_bytes` are the units.
//! `OpenMetrics` declares a counter without `_total`, and has units and an end mark. The values of labels are escaped:
//! clients choose the names of a bound with `{name}`.

use std::fmt::{Display, Write as _};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Counter, Histogram, SharedHistogram};

/// An enum whose variants have names, which are the values of a label.
macro_rules! named {
    ($(#[$of_enum:meta])* $enum:ident by $label:literal: $($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        $(#[$of_enum])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $enum { $($(#[$doc])* $variant,)+ }

        impl $enum {
            /// How many variants there are.
            pub const COUNT: usize = [$($name),+].len();
            /// The label, with the names of the variants in their order.
            pub const LABEL: Label = ($label, &[$($name),+]);
        }
    };
}

/// A set of counters. A field with a metric is given its name and help, and the labels of an array; `sum` shows the sum
/// of all sets, `each` what the set of each reactor has. A metric is added by a line here and by what counts it.
macro_rules! counters {
    ($(#[$of_struct:meta])* $set:ident {
        $($(#[$doc:meta])* $vis:vis $field:ident: $type:ty
            $(= $show:ident $metric:literal $help:literal $(by $($label:expr),+)?)?;)+
    }) => {
        $(#[$of_struct])*
        #[derive(Debug, Default)]
        pub struct $set { $($(#[doc = $help])? $(#[$doc])* $vis $field: $type,)+ }

        impl $set {
            /// Adds the metrics of `all` to `to`.
            pub fn show<'a>(
                all: impl Iterator<Item = &'a Self> + Clone,
                to: &mut Exposition,
            ) {
                $($(to.metric($metric, $help).$show(all.clone().map(|set| &set.$field), &[$($($label),+)?]);)?)+
            }
        }
    };
}

/// The name of a label, and its values in the order of the figures that they stand for.
pub type Label = (&'static str, &'static [&'static str]);

/// What a metric shows: a number or a histogram, or an array of figures by the values of a label.
pub trait Figure {
    /// Adds the samples of the sum of `all`, which have `labels`; an array takes the first label of `by`.
    fn show(all: &[&Self], by: &[Label], labels: &[(&str, &str)], to: &mut Samples<'_>);
}

impl Figure for AtomicU64 {
    fn show(all: &[&Self], _: &[Label], labels: &[(&str, &str)], to: &mut Samples<'_>) {
        let sum: u64 = all.iter().map(|it| it.load(Relaxed)).sum();
        // Combinations of a request and its status are many: those that have not happened are skipped, but for one.
        let is_of_status = labels.last().is_some_and(|(label, _)| *label == "status");
        if sum > 0 || !is_of_status || labels.ends_with(&[("method", "GET"), ("status", "2xx")]) {
            to.labelled(labels, sum);
        }
    }
}

impl<const SHARED: bool> Figure for Counter<SHARED> {
    fn show(all: &[&Self], by: &[Label], labels: &[(&str, &str)], to: &mut Samples<'_>) {
        let all: Vec<_> = all.iter().map(|it| &it.0).collect();
        Figure::show(&all, by, labels, to);
    }
}

impl<const SCALE: usize> Figure for Histogram<SCALE> {
    fn show(all: &[&Self], _: &[Label], labels: &[(&str, &str)], to: &mut Samples<'_>) {
        for it in all {
            to.histogram(labels, it);
        }
    }
}

impl Figure for SharedHistogram {
    fn show(all: &[&Self], _: &[Label], labels: &[(&str, &str)], to: &mut Samples<'_>) {
        for it in all {
            to.histogram(labels, &it.lock());
        }
    }
}

impl<F: Figure, const N: usize> Figure for [F; N] {
    fn show(all: &[&Self], by: &[Label], labels: &[(&str, &str)], to: &mut Samples<'_>) {
        let Some(((label, values), by)) = by.split_first() else {
            return;
        };
        for (at, value) in values.iter().enumerate() {
            let all: Vec<_> = all.iter().map(|figures| &figures[at]).collect();
            F::show(&all, by, &[labels, &[(label, value)]].concat(), to);
        }
    }
}

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsFormat {
    /// Version 0.0.4, which every scraper reads.
    Prometheus,
    /// `OpenMetrics` 1.0.
    OpenMetrics,
}

impl MetricsFormat {
    /// The `Content-Type` of the format.
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
    /// A text without metrics.
    pub fn new(format: MetricsFormat) -> Self {
        let text = String::new();
        Self { format, text }
    }

    /// Begins a metric, named as in the format 0.0.4. A metric without samples is skipped.
    pub fn metric(&mut self, name: &'static str, help: &'static str) -> Samples<'_> {
        Samples {
            to: self,
            name,
            help,
            is_declared: false,
        }
    }

    /// The whole text.
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

    /// Adds a sample with these labels.
    pub fn labelled(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let is_counter = self.name.ends_with("_total");
        self.declare(if is_counter { "counter" } else { "gauge" });
        self.sample("", labels, value);
    }

    /// Adds a sample for each reactor.
    pub fn numbers(&mut self, values: impl Iterator<Item = u64>) {
        for (reactor, value) in values.enumerate() {
            self.labelled(&[("reactor", &reactor.to_string())], value);
        }
    }

    /// Adds the sums of the figures of all, by the values of the labels.
    pub fn sum<'f, F: Figure + 'f>(&mut self, all: impl Iterator<Item = &'f F>, by: &[Label]) {
        F::show(&all.collect::<Vec<_>>(), by, &[], self);
    }

    /// Adds the figures of each reactor, by the values of the labels.
    pub fn each<'f, F: Figure + 'f>(&mut self, all: impl Iterator<Item = &'f F>, by: &[Label]) {
        for (reactor, figure) in all.enumerate() {
            F::show(&[figure], by, &[("reactor", &reactor.to_string())], self);
        }
    }

    fn histogram<const SCALE: usize>(
        &mut self,
        labels: &[(&str, &str)],
        histogram: &Histogram<SCALE>,
    ) {
        self.declare("histogram");
        let (buckets, sum) = histogram.read();
        let count: u64 = buckets.iter().map(|(_, count)| count).sum();
        self.sample("_sum", labels, float(sum));
        self.sample("_count", labels, count);
        let mut below = 0;
        for (bound, count) in buckets {
            below += count;
            let bound = float(bound);
            let labels = [&[("le", bound.as_str())], labels].concat();
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
            let value = value.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = write!(text, "{before}{label}=\"{}\"", value.replace('\n', "\\n"));
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
