//! Options of how long clients may take.

use std::time::Duration;

use bytesize::ByteSize;
use clap::Args;

use super::size::size;
use crate::net::Limits;

#[derive(Args, Clone, Debug)]
pub(super) struct Timeouts {
    /// Time for the head of a request to arrive; 0s is for ever
    #[arg(
        long,
        value_name = "DURATION",
        env = "DATA_SERVER_HEADER_TIMEOUT",
        default_value = "10s"
    )]
    header_timeout: humantime::Duration,

    /// Time a connection may stay open between requests; 0s is for ever
    #[arg(
        long,
        value_name = "DURATION",
        env = "DATA_SERVER_IDLE_TIMEOUT",
        default_value = "75s"
    )]
    idle_timeout: humantime::Duration,

    /// Time that a client may pause in a body; 0s is for ever
    #[arg(
        long,
        value_name = "DURATION",
        env = "DATA_SERVER_BODY_TIMEOUT",
        default_value = "60s"
    )]
    body_timeout: humantime::Duration,

    /// Bytes a second that a client must send or take of a body, averaged over 10 s without pauses; 0 is any
    #[arg(
        long,
        value_name = "SIZE",
        env = "DATA_SERVER_MIN_RATE",
        value_parser = size,
        default_value = "1KiB"
    )]
    min_rate: ByteSize,

    /// Time for requests in flight to finish after SIGTERM, SIGINT or SIGQUIT
    #[arg(
        long,
        value_name = "DURATION",
        env = "DATA_SERVER_GRACE_PERIOD",
        default_value = "30s"
    )]
    grace_period: humantime::Duration,
}

impl Timeouts {
    pub(super) fn grace_period(&self) -> Duration {
        *self.grace_period
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            header_timeout: *self.header_timeout,
            idle_timeout: *self.idle_timeout,
            body_timeout: *self.body_timeout,
            min_rate: self.min_rate.as_u64(),
        }
    }
}
