//! GET: from a key to the answer with its value, or with what of it is wanted.

use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use super::digest_fields::Algorithm;
use super::encode::{Encoded, WORTH_IT};
use super::link::Link;
use super::operation::Wishes;
use super::outcome::Outcome;
use super::representation::representation;
use super::response::{Sending, value};
use super::select::{Selection, select};
use super::service::Service;
use crate::store::{Digest, Error, Key, Object};

impl Service {
    /// The value of `key`, if it is hot.
    pub(super) fn cached(&self, key: &Key<'_>, link: &Link) -> Option<Arc<Object>> {
        let found = self.store.get_cached(key);
        let counters = link.meter().counters();
        match found {
            Some(_) => counters.hits.add(1),
            None => counters.misses.add(1),
        }
        found
    }

    pub(super) async fn get(
        &self,
        key: &Key<'_>,
        wishes: Option<&Wishes>,
        link: &Rc<Link>,
    ) -> Result<Outcome, Outcome> {
        let Some(object) = self.store.get(key).await? else {
            return Ok(Outcome::NoValue);
        };
        let digest = match wishes.and_then(|wishes| wishes.digest) {
            Some(algorithm) => Some(self.digest(&object, algorithm).await?),
            None => None,
        };
        Ok(self.found(object, key, wishes, digest, link))
    }

    /// The digest of `object` as a field: kept with it, or computed where that keeps no reactor busy.
    async fn digest(&self, object: &Arc<Object>, algorithm: Algorithm) -> Result<String, Error> {
        let (sha512, keep) = (algorithm == Algorithm::Sha512, self.store.is_writable());
        let digest = object.digest(sha512, keep, self.store.compute());
        Ok(match digest.await? {
            Digest::Sha256(digest) => Algorithm::Sha256.field(&digest),
            Digest::Sha512(digest) => Algorithm::Sha512.field(&digest),
        })
    }

    /// The answer with `object`, the value of `key`.
    pub(super) fn found(
        &self,
        object: Arc<Object>,
        key: &Key<'_>,
        wishes: Option<&Wishes>,
        digest: Option<String>,
        link: &Rc<Link>,
    ) -> Outcome {
        let shared = Arc::clone(&object);
        let representation = representation(&shared, key, self.rules().compress);
        let selection = wishes.map_or(Ok(Selection::Whole), |wishes| {
            let (len, now) = (object.meta().len, SystemTime::now());
            representation.current(|current| select(wishes, current, len, now))
        });
        let selection = match selection {
            Ok(selection) => selection,
            Err(refusal) => return refusal.into(),
        };
        let coding = wishes
            .and_then(|wishes| wishes.coding)
            .filter(|_| representation.is_compressible && object.meta().len > WORTH_IT)
            // The digest would be that of the value as it is.
            .filter(|_| selection == Selection::Whole && digest.is_none());
        let encoded = coding.map(|coding| {
            let encoded = Encoded::new(Arc::clone(&object), coding, self.store.compute().clone());
            encoded.map(|encoded| (coding, encoded))
        });
        match encoded.transpose() {
            Ok(encoded) => Outcome::Value(value(
                Sending {
                    object,
                    representation,
                    selection,
                    digest,
                    encoded,
                },
                link,
            )),
            Err(error) => error.into(),
        }
    }
}
