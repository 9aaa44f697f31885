//! Links: addresses that let their readers have a value from the store itself.
//!
//! The store is not asked for one. A link is for the value that the key has when it is used.

use std::time::{Duration, SystemTime};

use hyper::Method;

use super::super::super::error::Error;
use super::super::super::key::Key;
use super::super::call::object_name;
use super::super::sign::Link;
use super::Client;

/// For how long a link works: enough to begin, and a download that has begun goes on.
const VALID: Duration = Duration::from_secs(5 * 60);

impl Client {
    /// An address at which `method` reads the value of `key`, through the endpoint that is in turn.
    pub(in super::super) fn link(&self, method: &Method, key: &Key<'_>) -> Result<String, Error> {
        let endpoint = self.reach.endpoints.next();
        let path = endpoint.path(&object_name(&self.place, key)?);
        let link = Link {
            method: method.as_str(),
            host: &endpoint.authority,
            path: &path,
            valid: VALID,
        };
        let secrets = self.reach.credentials.current();
        let query = self.signer.presign(&link, &secrets, SystemTime::now())?;
        Ok(format!("{}{path}?{query}", endpoint.origin()))
    }
}
