//! Limits: on time, size, memory and connections, and fairness between clients.

mod compute_isolation;
mod fairness;
mod memory;
mod one_client;
mod quotas;
mod resource_limits;
mod timeouts;
