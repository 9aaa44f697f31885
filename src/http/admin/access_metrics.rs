//! The metrics of who asks: how claims ended, what checking passwords took. No label is a name.

use std::fmt::Result;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::access::Access;
use crate::http::admin::metric_writer::{MetricWriter, encode_counter};
use crate::metrics::AuthResult;

/// The metrics of who asks.
#[derive(Debug)]
pub struct AccessMetrics(pub Arc<Access>);

impl Collector for AccessMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result {
        let to = &mut MetricWriter(encoder);
        let counters = self.0.counters();
        to.metric(
            "data_server_auth",
            None,
            "Claims of who asks, once for each connection that makes the same, and refusals, by how they ended.",
            MetricType::Counter,
            |metric| {
                for result in AuthResult::ALL {
                    let labels = [("result", result.name())];
                    let count = counters.results(result);
                    encode_counter(&mut metric.encode_family(&labels)?, count)?;
                }
                Ok(())
            },
        )?;
        to.counter(
            "data_server_auth_cache_hits",
            "Passwords that were not checked again, for they were right a short while ago.",
            counters.remembered.get(),
        )?;
        counters.with_checks(|checks| {
            let help = "Time that checking a password took.";
            to.histogram(
                "data_server_password_checks",
                Some(&Unit::Seconds),
                help,
                checks,
            )
        })?;
        to.metric(
            "data_server_access_reloads",
            None,
            "Readings of the file of --access after the start.",
            MetricType::Counter,
            |metric| {
                for (result, count) in ["ok", "failed"].iter().zip(&counters.reloads) {
                    let labels = [("result", *result)];
                    encode_counter(&mut metric.encode_family(&labels)?, count.get())?;
                }
                Ok(())
            },
        )
    }
}
