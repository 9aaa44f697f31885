//! The doing of a MOVE or COPY, by the store, and the reply to it. Reads no field and no body.

use hyper::StatusCode;

use crate::http::refusal::Refusal;
use crate::http::refusal::common::{PRECONDITION, too_large};
use crate::http::request::{RequestContext, Service};
use crate::http::response::{Reply, empty};
use crate::http::values::moves::EXISTS;
use crate::http::values::moves::MoveRequest;
use crate::http::values::put::verify;
use crate::http::values::representation::describe_stored;
use crate::store::{
    CONTENDED, Digest, Digests, Key, Preconditions, Published, Purpose, Relocated, Relocation,
    TRIES, UploadHead, WriteCondition,
};

/// A value that was moved or copied.
#[derive(Debug)]
pub struct RelocatedValue {
    /// The key that has it now.
    pub key: Key<'static>,
    pub published: Published,
    /// The key had no value before, and the client may know that.
    is_new: bool,
}

impl From<RelocatedValue> for Reply {
    fn from(value: RelocatedValue) -> Self {
        let response = if value.is_new {
            empty(StatusCode::CREATED)
        } else {
            empty(StatusCode::NO_CONTENT)
        };
        Self::from(response).with(|headers| describe_stored(headers, value.published))
    }
}

/// Moves or copies a value, which is read for this `purpose`; `None` where the source has none. A source that is
/// replaced meanwhile is looked at anew.
pub async fn relocate(
    request: &RequestContext,
    mut asked: MoveRequest,
    purpose: Purpose,
) -> Result<Option<RelocatedValue>, Refusal> {
    let Service { store, reactor, .. } = &*request.service;
    let limit = request.service.config.limits.max_body;
    let replaces = asked.replaces.then(|| asked.to.attributes());
    for _ in 0..TRIES {
        let Some(found) = store.get(*reactor, &asked.from, false, purpose).await? else {
            return Ok(None);
        };
        if asked
            .preconditions
            .as_ref()
            .is_some_and(|it| !found.allows(it))
        {
            return Err(PRECONDITION);
        }
        if found.len() > limit {
            return Err(too_large(limit));
        }
        if asked.to.expected.sha256.is_some() {
            let Some(Digest::Sha256(sha256)) = store.digest(&found, false).await? else {
                continue;
            };
            let digests = Digests {
                sha256: Some(sha256),
                ..Digests::default()
            };
            verify(&asked.to.expected, &digests)?;
        }
        let how = Relocation {
            from: asked.from.clone(),
            to: asked.to.key.clone(),
            is_copy: asked.is_copy,
            preconditions: asked.to.preconditions.clone(),
            attributes: replaces.clone(),
        };
        let quota = store.quota().filter(|quota| quota.is_by_client());
        let head = UploadHead {
            uploader: quota.map(|_| request.uploader()),
            ..UploadHead::default()
        };
        let relocated = store.relocate(*reactor, found, how, head).await;
        let relocated = request.narrowed(asked.to.existing, relocated.map_err(Into::into));
        let of_destination = asked.to.preconditions.as_ref();
        let is_create =
            || of_destination.and_then(Preconditions::exact) == Some(WriteCondition::Create);
        let relocated = relocated.map_err(|why| match why {
            why if why.kind == PRECONDITION.kind && is_create() => {
                EXISTS.because("the destination has a value, which is not to be replaced")
            }
            why => why,
        })?;
        if let Some(Relocated { published, is_new }) = relocated {
            return Ok(Some(RelocatedValue {
                key: asked.to.key,
                published,
                is_new: is_new && (asked.may_tell || is_create()),
            }));
        }
    }
    Err(CONTENDED.into())
}
