//! Values as objects: the [`Gateway`] of a reactor reads, writes, removes and lists them.
//!
//! A value is read and listed as the store has it at that moment: nothing is cached. A condition is decided by the
//! store, and is refused where the store was not seen to keep it.

pub mod conditional;
pub mod copy;
pub mod get;
pub mod list;
pub mod multipart;
pub mod put;
pub mod upload;
pub mod value;

use std::sync::Arc;

use hyper::Method;
use hyper::header::{ETAG, IF_MATCH};

use super::contract::S3Context;
use super::transport::S3Client;
use super::transport::answer::{RequestError, StoreResponse, doubted, says_undone, text};
use super::transport::call::Call;
use crate::value::{Error, Key};

/// The way of one reactor to the store.
#[derive(Clone, Debug)]
pub struct Gateway {
    pub(super) shared: Arc<S3Context>,
    pub(super) client: Arc<S3Client>,
}

impl Gateway {
    /// Removes the value of `key`, of the version with the entity tag `only` where one is given; false when there was
    /// none.
    pub async fn delete(&self, key: &Key<'_>, only: Option<&str>) -> Result<bool, Error> {
        if only.is_some() {
            self.shared.promises.for_delete()?;
        }
        let client = &self.client;
        let look = Call::object(Method::HEAD, &client.place, key)?;
        // A caller with a version has asked for it before.
        if only.is_none() && client.read(&look).await?.is_none() {
            return Ok(false);
        }
        let mut call = Call::named(Method::DELETE, look.object.clone());
        if let Some(etag) = only {
            call = call.with(IF_MATCH, etag)?;
        }
        let mut tries = client.tries();
        let asked = tries.change(async |tries| client.ask(&call, tries.until).await);
        let error = match asked.await {
            Ok(_) => return Ok(true),
            Err(RequestError::Refused(refusal))
                if refusal.is_missing() && (only.is_none() || !tries.may_be_made) =>
            {
                return Ok(tries.may_be_made);
            }
            Err(failure) => failure.outcome(),
        };
        if !tries.may_be_made {
            return Err(error);
        }
        let is_same = |found: &StoreResponse| {
            only.is_none_or(|etag| text(&found.headers, &ETAG) == Some(etag))
        };
        match client.look(&look, tries.until).await {
            Ok(None) if only.is_none() => Ok(true),
            Ok(Some(found)) if says_undone(&error) && is_same(&found) => Err(error),
            _ => {
                client.counters.unknown.add(1);
                Err(doubted(error))
            }
        }
    }
}
