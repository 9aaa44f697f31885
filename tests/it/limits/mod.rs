//! Limits: on time, size, memory and connections, and fairness between clients.

mod compute_isolation;
mod descriptors;
mod fairness;
mod memory;
mod one_client;
mod quotas;
mod resource_limits;
mod slow_clients;
mod timeouts;
