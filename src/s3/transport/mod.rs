//! Requests to the store: connections, endpoints, signatures, bodies, and how often each is tried. It knows no value.

pub mod answer;
pub mod body;
pub mod call;
pub mod client;
pub mod connector;
pub mod credentials;
pub mod sign;
