//! The rules of HTTP that are pure functions: what a request's fields mean, and what follows from them.

pub(super) mod accept;
pub(super) mod address;
pub(super) mod cache_control;
pub(super) mod coding;
pub mod conditional;
pub(super) mod digest_fields;
pub(super) mod entity_tags;
pub(super) mod form_data;
pub(super) mod listing;
pub(super) mod listing_text;
pub(super) mod media;
pub(super) mod multipart;
pub mod range;
pub(super) mod select;
pub(super) mod stored_fields;
pub(super) mod syntax;
pub(super) mod upload_fields;
