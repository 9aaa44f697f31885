//! `PutObject`: the body is the value. A key that ends with `/` makes a folder that stays.

use async_trait::async_trait;
use hyper::StatusCode;
use hyper::header::{ETAG, HeaderValue};

use crate::access::Right;
use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::folders::change::{MakeFolder, make_folder};
use crate::http::head::syntax::put as put_field;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::{NO_SUCH_KEY, PRECONDITION, too_large};
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::{Outcome, empty, with};
use crate::http::s3_door::buckets::is_folder;
use crate::http::s3_door::errors::FOLDER_HAS_BODY;
use crate::http::s3_door::listing::FOLDER_TAG;
use crate::http::s3_door::payload::Payload;
use crate::http::s3_door::target::{Target, conditions, needs_bucket, own_fields, stored_fields};
use crate::http::values::put::{self, PutRequest};
use crate::http::verb::{Parsed, Verb, parsed};
use crate::store::{Key, Preconditions};

/// PUT of an object, or of a folder.
pub fn put(asked: &RequestHead<'_>, target: Target) -> Parsed {
    let payload = Payload::of(asked)?;
    match target {
        Target::Object(key) => parsed(Put {
            asked: put_of(asked, key, &payload)?,
            payload,
        }),
        Target::Folder(folder) => parsed(PutFolder {
            asked: MakeFolder::of(folder.clone(), asked.config)?,
            folder,
            payload,
        }),
        _ => Err(NO_SUCH_KEY),
    }
}

/// The object that a request with this head stores, with this payload.
pub fn put_of(
    asked: &RequestHead<'_>,
    key: Key<'static>,
    payload: &Payload,
) -> Result<Box<PutRequest>, Refusal> {
    asked.needs_length()?;
    let mut put = Box::new(PutRequest::of(key, asked.config)?);
    let limit = asked.config.limits.max_body;
    if payload.len.is_some_and(|len| len > limit) {
        return Err(too_large(limit));
    }
    described(&mut put, asked)?;
    payload.expect(&mut put)?;
    Ok(put)
}

/// Takes what the head says of an object.
pub fn described(put: &mut PutRequest, asked: &RequestHead<'_>) -> Result<(), Refusal> {
    let headers = &asked.head.headers;
    put.read(&stored_fields(headers), asked.config)?;
    put.keep(own_fields(headers))?;
    put.preconditions = conditions(headers, "").filter(Preconditions::are_of_writes);
    Ok(())
}

struct Put {
    asked: Box<PutRequest>,
    payload: Payload,
}

#[async_trait(?Send)]
impl Verb for Put {
    fn needs(&self) -> Vec<Need<'_>> {
        self.asked.needs().collect()
    }

    fn permit(&mut self, client: &Principal) -> Result<(), Refusal> {
        self.asked.permit(client)?;
        self.asked.limit(client)
    }

    async fn perform(
        self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        let Self { asked, payload } = *self;
        let key = asked.key.clone();
        needs_bucket(request, &key).await?;
        payload.open(request, body)?;
        let wants = asked
            .preconditions
            .as_ref()
            .is_some_and(|it| it.matching.is_some());
        let stored = put::put(request, asked, body).await;
        let stored = unless_gone(request, &key, wants, stored).await?;
        let response = with(empty(StatusCode::OK), |headers| {
            put_field(headers, ETAG, stored.etag);
        });
        Ok(response.into())
    }
}

/// As S3 has it: a version that is expected of an object that is not there is no such key.
pub async fn unless_gone<T>(
    request: &RequestContext,
    key: &Key<'_>,
    wants: bool,
    stored: Result<T, Refusal>,
) -> Result<T, Refusal> {
    match stored {
        Err(why) if wants && why.kind == PRECONDITION.kind => {
            let directory = request.service.store.directory();
            let is_there = match directory {
                Some(directory) => directory.meta(key).await?.is_some(),
                None => true,
            };
            Err(if is_there { why } else { NO_SUCH_KEY })
        }
        stored => stored,
    }
}

/// So much is read of a body that should be empty, to say that it is not.
const LONGEST_NOTHING: usize = 64 << 10;

struct PutFolder {
    folder: Key<'static>,
    asked: MakeFolder,
    payload: Payload,
}

#[async_trait(?Send)]
impl Verb for PutFolder {
    fn needs(&self) -> Vec<Need<'_>> {
        vec![Need::below(Right::Create, self.folder.as_str())]
    }

    async fn perform(
        self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        let Self {
            folder,
            asked,
            payload,
        } = *self;
        needs_bucket(request, &folder).await?;
        if !payload
            .read(request, body, LONGEST_NOTHING)
            .await?
            .is_empty()
        {
            return Err(FOLDER_HAS_BODY);
        }
        let made = make_folder(request, asked).await;
        made.or_else(|why| if is_folder(&why) { Ok(()) } else { Err(why) })?;
        let response = with(empty(StatusCode::OK), |headers| {
            headers.insert(ETAG, HeaderValue::from_static(FOLDER_TAG));
        });
        Ok(response.into())
    }
}
