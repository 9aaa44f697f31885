//! Requests to the store: connections, endpoints, signatures, bodies, and how often each is tried. It knows no value.

pub mod answer;
pub mod call;
pub mod client;
pub mod connector;
pub mod credentials;
pub mod endpoints;
pub mod escape;
pub mod feed;
pub mod framing;
pub mod head;
pub mod lending;
pub mod secrets;
pub mod send_body;
pub mod sign;
pub mod tries;
