//! A connection as the protocol sees it, and the record of the request under way on it.

pub(super) mod access_log;
pub(super) mod audit_log;
pub(super) mod connection_state;
pub(super) mod panics;
pub(super) mod progress;
pub(super) mod proven;
pub(super) mod record;
pub(super) mod request_metrics;
