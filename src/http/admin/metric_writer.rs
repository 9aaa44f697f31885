//! Writes metrics, one after the other: the library's encoder in fewer words.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::metrics::Histogram;

/// Writes metrics one after the other.
pub(super) struct Scribe<'a>(pub(super) DescriptorEncoder<'a>);

pub(super) type Told = Result<(), fmt::Error>;

impl Scribe<'_> {
    pub(super) fn begin(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        kind: MetricType,
        tell: impl FnOnce(&mut MetricEncoder<'_>) -> Told,
    ) -> Told {
        tell(&mut self.0.encode_descriptor(name, help, unit, kind)?)
    }

    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) -> Told {
        self.begin(name, None, help, MetricType::Counter, |m| count(m, value))
    }

    pub(super) fn gauge(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        value: u64,
    ) -> Told {
        self.begin(name, unit, help, MetricType::Gauge, |m| {
            m.encode_gauge(&value)
        })
    }

    pub(super) fn histogram(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        of: &Histogram,
    ) -> Told {
        self.begin(name, unit, help, MetricType::Histogram, |m| spread(m, of))
    }
}

pub(super) fn count(metric: &mut MetricEncoder<'_>, value: u64) -> Told {
    metric.encode_counter::<[(&str, &str); 0], u64, u64>(&value, None)
}

pub(super) fn spread(metric: &mut MetricEncoder<'_>, histogram: &Histogram) -> Told {
    let (buckets, sum) = histogram.read();
    let count = buckets.iter().map(|(_, count)| count).sum();
    metric.encode_histogram::<[(&str, &str); 0]>(sum, count, &buckets, None)
}
