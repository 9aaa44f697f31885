//! Values as objects: how each is read, written, removed and listed, through the [`Gateway`] of a reactor.

pub mod get;
pub mod list;
pub mod multipart;
pub mod put;
pub mod upload;

use std::sync::Arc;

use super::contract::S3Context;
use super::transport::client::Client;
use crate::value::Error;

/// The way of one reactor to the store. Each file of this folder has the requests that it is about.
#[derive(Clone, Copy, Debug)]
pub struct Gateway<'a> {
    pub(super) shared: &'a Arc<S3Context>,
    pub(super) client: &'a Arc<Client>,
}

impl Gateway<'_> {
    /// Whether writes may have conditions: one that the store does not keep is refused, even where it is seen not to hold.
    pub fn takes_conditional_writes(&self) -> Result<(), Error> {
        self.shared.promises.for_put()
    }

    /// Whether removals may have conditions.
    pub fn takes_conditional_removals(&self) -> Result<(), Error> {
        self.shared.promises.for_delete()
    }
}
