//! A connection as the protocol sees it, and the record of the request under way on it.

pub mod access_log;
pub mod audit_log;
pub mod connection_state;
pub mod logged_fields;
pub mod panics;
pub mod progress;
pub mod record;
pub mod request_metrics;
