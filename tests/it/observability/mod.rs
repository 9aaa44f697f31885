//! What operators see: logs, metrics, health.

mod access_log;
mod admin;
mod health;
mod logs;
mod metrics;
mod unwritable_logs;
