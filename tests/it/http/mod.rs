//! The protocol: statuses, fields and framing, and that no setting changes them.

mod contract;
mod dispatch;
mod flags;
mod folders;
mod framing;
mod html_listing;
mod keys;
mod listing;
mod page;
mod pipelining;
mod preconditions;
mod protocol;
mod rfc_compliance;
mod takeover;
