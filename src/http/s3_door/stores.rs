//! `PutObject`: the body is the value. A key that ends with `/` makes a folder that stays.

use hyper::StatusCode;
use hyper::header::{ETAG, HeaderValue};

use crate::access::Right;
use crate::http::auth::need::Need;
use crate::http::folders::change::{MakeFolder, make_folder};
use crate::http::head::syntax::put as put_field;
use crate::http::refusal::common::PRECONDITION;
use crate::http::request::head::RequestHead;
use crate::http::response::{empty, with};
use crate::http::s3_door::buckets::is_folder;
use crate::http::s3_door::copy::{copied_to, copy, source};
use crate::http::s3_door::errors::{BAD_ARGUMENT, FOLDER_HAS_BODY, not_implemented};
use crate::http::s3_door::fields::{add_checksums, conditions_of_write, described, wants_version};
use crate::http::s3_door::listing::FOLDER_TAG;
use crate::http::s3_door::objects::{date_of_folder, sees_folder};
use crate::http::s3_door::operation::{Takes, operation};
use crate::http::s3_door::payload::Payload;
use crate::http::s3_door::target::{Target, needs_bucket, unless_gone};
use crate::http::values::put::{self, PutRequest};
use crate::http::verb::Parsed;
use crate::store::{Error, Key, Preconditions};

/// PUT of an object or of a folder, with a body or from another object.
pub fn put(asked: &RequestHead<'_>, target: Target) -> Parsed {
    // A part of no upload, or a version, would be stored as if it were all.
    if asked.query.has("partNumber") || asked.query.has("versionId") {
        return Err(BAD_ARGUMENT);
    }
    match (source(&asked.head.headers)?, target) {
        (None, Target::Folder(folder)) => put_folder(asked, folder, None),
        (None, target) => put_object(asked, target.object()?),
        (Some((Target::Folder(from), None)), Target::Folder(folder)) => {
            put_folder(asked, folder, Some(from))
        }
        (Some((from, of_source)), to) => copy(asked, (from.object()?, of_source), to.object()?),
    }
}

fn put_object(asked: &RequestHead<'_>, key: Key<'static>) -> Parsed {
    let payload = Payload::of(asked)?;
    let mut put = Box::new(PutRequest::of(key.clone(), asked.config)?);
    described(&mut put, asked)?;
    payload.expect(&mut put)?;
    let needs: Vec<_> = put.needs().map(Need::into_owned).collect();
    operation(Takes::Body, needs, async move |request, body| {
        needs_bucket(request, &key).await?;
        request.permitted_now(|client| put.permit(client))?;
        let checksums = payload.checksums.clone();
        put.checksums = Some(checksums.clone());
        payload.open(request, body)?;
        let wants = wants_version(&put);
        let stored = put::put(request, put, body).await;
        let stored = unless_gone(request.service.store.resumable()?, &key, wants, stored).await?;
        let response = with(empty(StatusCode::OK), |headers| {
            put_field(headers, ETAG, stored.etag);
            add_checksums(headers, &[Some(&checksums), body.trailers.as_ref()]);
        });
        Ok(response.into())
    })
}

/// So much is read of a body that should be empty, to say that it is not.
const LONGEST_NOTHING: usize = 64 << 10;

/// Makes a folder, as there is one of the name `from`.
fn put_folder(asked: &RequestHead<'_>, folder: Key<'static>, from: Option<Key<'static>>) -> Parsed {
    let payload = Payload::of(asked)?;
    let is_new = match conditions_of_write(&asked.head.headers) {
        None => false,
        Some(Preconditions::NEW) => true,
        Some(_) => return Err(not_implemented("this condition on a folder")),
    };
    let made = MakeFolder::of(folder.clone(), asked.config)?.with_above();
    let mut needs = vec![Need::below(Right::Create, folder.as_str())];
    needs.extend(from.as_ref().map(sees_folder));
    operation(Takes::Body, needs, async move |request, body| {
        needs_bucket(request, &folder).await?;
        if let Some(from) = &from {
            date_of_folder(request, from).await?;
        }
        let body = payload.read(request, body, LONGEST_NOTHING).await?;
        if !body.is_empty() {
            return Err(FOLDER_HAS_BODY);
        }
        make_folder(request, made)
            .await
            .or_else(|why| match why.cause() {
                // One that went with its last value was no object.
                Some(Error::FolderKept) => Ok(()),
                _ if is_folder(&why) && is_new => Err(PRECONDITION),
                _ if is_folder(&why) => Ok(()),
                _ => Err(why),
            })?;
        if from.is_some() {
            let date = date_of_folder(request, &folder).await?;
            return Ok(copied_to(date, FOLDER_TAG));
        }
        let response = with(empty(StatusCode::OK), |headers| {
            headers.insert(ETAG, HeaderValue::from_static(FOLDER_TAG));
        });
        Ok(response.into())
    })
}
