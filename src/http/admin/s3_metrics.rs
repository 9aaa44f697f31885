//! The metrics of an S3 store: what the server asked of it, how it answered, and what became of lost answers.

use std::fmt::Result;

use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::http::admin::metric_writer::{MetricWriter, encode_counter, encode_histogram};
use crate::metrics::{S3Counters, STATUSES, StoreOperation};
use crate::s3::S3;

pub fn encode(to: &mut MetricWriter<'_>, s3: &S3) -> Result {
    encode_requests(to, s3)?;
    to.metric(
        "data_server_store_time_to_head",
        Some(&Unit::Seconds),
        "From a request to the store to the head of its answer.",
        MetricType::Histogram,
        |metric| {
            for (index, counters) in s3.counters().enumerate() {
                let labels = [("reactor", index.to_string())];
                encode_histogram(&mut metric.encode_family(&labels)?, &counters.time_to_head)?;
            }
            Ok(())
        },
    )?;
    to.counter(
        "data_server_store_retries",
        "Requests to the store that were sent again.",
        sum(s3, |counters| counters.retries.get()),
    )?;
    to.counter(
        "data_server_store_unknown",
        "Writes and removals whose outcome was not known when they ended.",
        sum(s3, |counters| counters.unknown.get()),
    )?;
    to.counter(
        "data_server_store_resolved",
        "Those of them that turned out to have been made.",
        sum(s3, |counters| counters.resolved.get()),
    )?;
    to.gauge(
        "data_server_store_requests_active",
        None,
        "Requests to the store that are under way; each has a connection.",
        s3.requests_under_way() as u64,
    )?;
    let connections = s3.connections();
    to.gauge(
        "data_server_store_connections_open",
        None,
        "Connections to the store that are open.",
        connections.open as u64,
    )?;
    to.gauge(
        "data_server_store_connections_idle",
        None,
        "Those of them that wait for a request.",
        connections.idle as u64,
    )
}

/// A combination that has not happened is left out.
fn encode_requests(to: &mut MetricWriter<'_>, s3: &S3) -> Result {
    to.metric(
        "data_server_store_requests",
        None,
        "Requests to the store that have ended; of status none where there was no answer.",
        MetricType::Counter,
        |metric| {
            for operation in StoreOperation::ALL {
                for (class, status) in STATUSES.iter().enumerate() {
                    let requests = sum(s3, |counters| counters.requests(operation, class));
                    if requests > 0 {
                        let labels = [("operation", operation.name()), ("status", *status)];
                        encode_counter(&mut metric.encode_family(&labels)?, requests)?;
                    }
                }
            }
            Ok(())
        },
    )
}

fn sum(s3: &S3, count: impl Fn(&S3Counters) -> u64) -> u64 {
    s3.counters().map(count).sum()
}
