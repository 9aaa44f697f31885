//! Values: what GET, HEAD, PUT, DELETE, MOVE and COPY ask of one, and what is answered.

pub mod conditional;
pub mod content_names;
pub mod digest_fields;
pub mod get;
pub mod moves;
pub mod other_store;
pub mod put;
pub mod representation;
pub mod siblings;
pub mod symlinks;
