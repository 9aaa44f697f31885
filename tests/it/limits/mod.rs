//! Limits: of time, size, memory and connections, and what one client takes from another.

mod compute_isolation;
mod fairness;
mod load;
mod memory;
mod quotas;
mod resource_limits;
mod timeouts;
