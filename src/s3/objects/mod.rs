//! Values as objects: how each is read, written, removed and listed.

pub mod body;
pub mod get;
pub mod head;
pub mod list;
pub mod multipart;
pub mod put;
pub mod spool;
pub mod upload;
