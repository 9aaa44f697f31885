//! Values as objects: how each is read, written, removed and listed.

pub mod delete;
pub mod digesting;
pub mod get;
pub mod list;
pub mod multipart;
pub mod nonce;
pub mod publish;
pub mod put;
pub mod remote_body;
pub mod sending;
pub mod spool;
pub mod upload;
