//! The states of Terraform and `OpenTofu`: LOCK and UNLOCK of a state, and its update by the client that locked it, as
//! their backend `http` asks for them. Their JSON tells them from requests of `WebDAV`, and from a plain PUT.
//!
//! The lock of the state `KEY` is the value `KEY.lock`, which is what its client says of itself: it lasts as a value
//! does, is listed, and goes by a DELETE too. Promises that one of several clients gets it, as it is only created; that
//! only the lock that was compared is removed; and that no update is published whose ID is not that of the lock once
//! the update has arrived. A PUT without an ID is a PUT, and does not ask for the lock.

use async_trait::async_trait;
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::CONTENT_TYPE;
use serde_json::Value;

use crate::access::Right;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::changes::{Delete, delete};
use crate::http::head::client::Door;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::PRECONDITION;
use crate::http::refusal::kind::Kind;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::{JSON, Outcome, empty};
use crate::http::values::put::{PutRequest, put_of, receive_part};
use crate::http::values::representation::stored;
use crate::http::verb::{Parsed, Verb, parsed};
use crate::store::{
    Digests, Directory, Error, Key, Preconditions, Published, Purpose, Tags, Validators,
};

/// The end of the key of a lock.
const END: &str = ".lock";

/// The longest lock, in bytes.
const MOST: usize = 16 << 10;

const LOCKED: &Kind = &Kind::new(StatusCode::LOCKED, "state-locked");
const BAD_LOCK: Refusal = Refusal::new(
    &Kind::new(StatusCode::BAD_REQUEST, "bad-state-lock"),
    "the lock of a state is a JSON object with an ID; an update has one ID, and no trailers",
);
const NOT_LOCKED: Refusal = Refusal::new(
    &Kind::new(StatusCode::CONFLICT, "state-not-locked"),
    "the state is not locked: its lock was removed, and another may have changed the state since",
);
const NO_LOCKS: Error = Error::NotSupported {
    name: "no-state-locks",
    what: "states have no locks over an S3 store: use the backend s3 with use_lockfile",
};

/// What a request asks of a state, and the key of the lock.
struct StateRequest {
    lock: Key<'static>,
    work: Work,
}

enum Work {
    /// Store the body as the lock.
    Lock(Box<PutRequest>),
    /// Remove the lock with the ID in the body; any, where the body is empty, as that of `force-unlock` is.
    Unlock,
    /// Store the body as the state, for the holder of the lock with this ID.
    Update(Box<PutRequest>, String),
}

/// A request for a state.
pub fn state(asked: &RequestHead<'_>) -> Parsed {
    let (head, config) = (asked.head, asked.config);
    let (method, id) = (head.method.as_str(), asked.query.get("ID"));
    let media_type = head.headers.get(CONTENT_TYPE);
    let is_json = media_type.is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(JSON.as_bytes()));
    let is_own = match method {
        "LOCK" | "UNLOCK" => true,
        "POST" | "PUT" => id.is_some(),
        _ => false,
    };
    if !is_own || !is_json || config.compat || config.discard || asked.client.door != Door::Plain {
        return Ok(None);
    }
    if asked.query.all("ID").count() > 1 {
        return Err(BAD_LOCK);
    }
    let key = asked.changed_key()?;
    config.may_change()?;
    asked.refuses_if()?;
    let lock = Key::new(format!("{}{END}", key.as_str()))?;
    let work = match (method, id) {
        ("LOCK", _) => {
            let mut put = Box::new(PutRequest::of(lock.clone(), config)?);
            put.preconditions = Some(Preconditions::NEW);
            put.media_type = Some(JSON.into());
            put.expect(Digests::of(&head.headers)?)?;
            Work::Lock(put)
        }
        (_, Some(id)) if method != "UNLOCK" => Work::Update(put_of(asked, true)?, id.to_owned()),
        _ => Work::Unlock,
    };
    parsed(StateRequest { lock, work })
}

#[async_trait(?Send)]
impl Verb for StateRequest {
    /// The answer may have the lock.
    fn needs(&self) -> Vec<Need<'_>> {
        let of_lock = |right| Need::all(right, self.lock.as_str());
        let reads = of_lock(Right::Read);
        match &self.work {
            Work::Lock(_) => vec![reads, of_lock(Right::Create)],
            Work::Unlock => vec![reads, of_lock(Right::Delete)],
            Work::Update(put, _) => [reads].into_iter().chain(put.needs()).collect(),
        }
    }

    async fn perform(
        self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        let directory = request.service.store.directory().ok_or(NO_LOCKS)?;
        let Self { lock, work } = *self;
        match work {
            Work::Lock(put) => {
                let mut text = Some(Bytes::from(body.whole(MOST).await?));
                id_of(text.as_deref().unwrap_or_default()).ok_or(BAD_LOCK)?;
                match store(request, put, async || Ok(text.take())).await {
                    Err(why) if why.kind == PRECONDITION.kind => {
                        return Err(held(directory, &lock).await?.refusal());
                    }
                    published => published?,
                };
            }
            Work::Unlock => {
                let (text, held) = (body.whole(MOST).await?, held(directory, &lock).await?);
                if !text.is_empty() && held.id != Some(id_of(&text).ok_or(BAD_LOCK)?) {
                    return Err(held.refusal());
                }
                let (key, preconditions) = (lock, Some(held.version));
                delete(request, Delete { key, preconditions }).await?;
            }
            Work::Update(put, id) => {
                let is_holder = async || match held(directory, &lock).await? {
                    held if held.id.as_ref() == Some(&id) => Ok(()),
                    held => Err(held.refusal()),
                };
                is_holder().await?;
                let has_date = put.has_date();
                let data = async || match body.next().await? {
                    None if body.trailers.is_some() => Err(BAD_LOCK),
                    None => is_holder().await.map(|()| None),
                    data => Ok(data),
                };
                return Ok(stored(store(request, put, data).await?, has_date));
            }
        }
        Ok(empty(StatusCode::OK).into())
    }
}

/// Stores what `data` gives.
async fn store(
    request: &RequestContext,
    put: Box<PutRequest>,
    data: impl AsyncFnMut() -> Result<Option<Bytes>, Refusal>,
) -> Result<Published, Refusal> {
    let key = put.key.clone();
    let publishing = receive_part(request, *put, data).await?;
    let published = publishing.ok_or(NO_LOCKS)?.await?;
    request.changed(&key);
    Ok(published)
}

/// The lock of a state. Any other value in its place locks the state, too, but has no ID.
struct Held {
    id: Option<String>,
    text: Bytes,
    version: Preconditions,
}

impl Held {
    /// The refusal of another client, which has the lock as it was stored.
    fn refusal(self) -> Refusal {
        let mut why = LOCKED.because("another client has locked the state");
        why.more().json = self.id.map(|_| self.text);
        why
    }
}

async fn held(directory: &Directory, lock: &Key<'_>) -> Result<Held, Refusal> {
    let found = directory.get(lock, Purpose::Scan).await?;
    let found = found.ok_or(NOT_LOCKED)?;
    let mut text = Bytes::new();
    if found.meta.len <= MOST as u64 {
        text = found.whole().await?;
    }
    let etag = Validators::from(found.meta).etag;
    Ok(Held {
        id: id_of(&text),
        text,
        version: Preconditions {
            matching: Tags::of(&[etag.as_bytes()]),
            none_matching: None,
            ..Preconditions::NEW
        },
    })
}

/// The ID of the lock that is this JSON.
fn id_of(text: &[u8]) -> Option<String> {
    let lock: Value = serde_json::from_slice(text).ok()?;
    lock.get("ID")?.as_str().map(str::to_owned)
}
