//! Writes metrics, one after the other: the library's encoder in fewer words.

use std::fmt::Result;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::metrics::Histogram;

/// Writes metrics one after the other.
pub struct MetricWriter<'a>(pub DescriptorEncoder<'a>);

impl MetricWriter<'_> {
    pub fn metric(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        kind: MetricType,
        encode: impl FnOnce(&mut MetricEncoder<'_>) -> Result,
    ) -> Result {
        encode(&mut self.0.encode_descriptor(name, help, unit, kind)?)
    }

    pub fn counter(&mut self, name: &str, help: &str, value: u64) -> Result {
        self.metric(name, None, help, MetricType::Counter, |metric| {
            encode_counter(metric, value)
        })
    }

    /// A counter for each set of labels.
    pub fn counters<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> Result {
        self.metric(name, unit, help, MetricType::Counter, |metric| {
            let mut values = values.into_iter();
            values.try_for_each(|(labels, value)| {
                encode_counter(&mut metric.encode_family(&labels)?, value)
            })
        })
    }

    pub fn gauge(&mut self, name: &str, unit: Option<&Unit>, help: &str, value: u64) -> Result {
        self.metric(name, unit, help, MetricType::Gauge, |metric| {
            metric.encode_gauge(&value)
        })
    }

    pub fn histogram(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        histogram: &Histogram,
    ) -> Result {
        self.metric(name, unit, help, MetricType::Histogram, |metric| {
            encode_histogram(metric, histogram)
        })
    }

    /// A histogram of durations, in seconds, for each reactor.
    pub fn histograms<'a>(
        &mut self,
        name: &str,
        help: &str,
        histograms: impl Iterator<Item = &'a Histogram>,
    ) -> Result {
        let unit = Some(&Unit::Seconds);
        self.metric(name, unit, help, MetricType::Histogram, |metric| {
            let mut histograms = histograms.enumerate();
            histograms.try_for_each(|(index, histogram)| {
                let labels = [("reactor", index.to_string())];
                encode_histogram(&mut metric.encode_family(&labels)?, histogram)
            })
        })
    }
}

fn encode_counter(metric: &mut MetricEncoder<'_>, value: u64) -> Result {
    metric.encode_counter::<[(&str, &str); 0], u64, u64>(&value, None)
}

fn encode_histogram(metric: &mut MetricEncoder<'_>, histogram: &Histogram) -> Result {
    let (buckets, sum) = histogram.read();
    let count = buckets.iter().map(|(_, count)| count).sum();
    metric.encode_histogram::<[(&str, &str); 0]>(sum, count, &buckets, None)
}
