//! `CopyObject`: a copy within the server, by a reflink where the file system has one.

use std::time::{SystemTime, UNIX_EPOCH};

use hyper::header::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;

use crate::http::auth::need::Need;
use crate::http::changes::move_value;
use crate::http::head::syntax::has_bad_escape;
use crate::http::refusal::Refusal;
use crate::http::request::head::RequestHead;
use crate::http::response::Reply;
use crate::http::s3_door::errors::{BAD_ARGUMENT, ITSELF};
use crate::http::s3_door::fields::{conditions, conditions_of_write, described, wants_version};
use crate::http::s3_door::operation::{Takes, operation};
use crate::http::s3_door::target::{Target, needs_bucket, unless_gone};
use crate::http::s3_door::xml::Document;
use crate::http::values::moves::MoveRequest;
use crate::http::verb::{Parsed, Verb as _};
use crate::store::{Key, Preconditions};

const SOURCE: &str = "x-amz-copy-source";

/// The conditions of the source, behind this prefix.
const CONDITION: &str = "x-amz-copy-source-";

/// What is to be copied, and what it is to be like; `None` where nothing is copied.
pub fn source(headers: &HeaderMap) -> Result<Option<(Target, Option<Preconditions>)>, Refusal> {
    let Some(source) = headers.get(SOURCE) else {
        return Ok(None);
    };
    let source = source.to_str().map_err(|_| BAD_ARGUMENT)?;
    let source = source.strip_prefix('/').unwrap_or(source);
    let source = match source.split_once('?') {
        None | Some((_, "versionId=null")) => source.split('?').next().unwrap_or_default(),
        Some(_) => return Err(BAD_ARGUMENT),
    };
    if has_bad_escape(source) {
        return Err(BAD_ARGUMENT);
    }
    let name = percent_decode_str(source).decode_utf8();
    let source = Target::named(&name.map_err(|_| BAD_ARGUMENT)?)?;
    Ok(Some((source, conditions(headers, CONDITION))))
}

/// A copy of `from` to `to`.
pub fn copy(
    asked: &RequestHead<'_>,
    (from, of_source): (Key<'static>, Option<Preconditions>),
    to: Key<'static>,
) -> Parsed {
    let headers = &asked.head.headers;
    let directive = headers.get("x-amz-metadata-directive");
    let replaces = match directive.map(HeaderValue::as_bytes) {
        None | Some(b"COPY") => false,
        Some(b"REPLACE") => true,
        Some(_) => return Err(BAD_ARGUMENT),
    };
    if from == to && !replaces {
        return Err(ITSELF);
    }
    let before = conditions_of_write(headers);
    let mut copy = MoveRequest::of_ends(from.clone(), to.clone(), before, asked.config)?;
    if replaces {
        described(&mut copy.to, asked)?;
    }
    copy.preconditions = of_source;
    copy.replaces = replaces;
    let needs = copy.needs().into_iter().map(Need::into_owned);
    let needs: Vec<_> = needs.collect();
    operation(Takes::Nothing, needs, async move |request, _| {
        needs_bucket(request, &to).await?;
        needs_bucket(request, &from).await?;
        request.permitted_now(|client| copy.permit(client))?;
        let wants = wants_version(&copy.to);
        let copied = move_value(request, copy).await;
        let copied = unless_gone(request.service.store.resumable()?, &to, wants, copied)
            .await?
            .published;
        Ok(copied_to(
            copied.modified.unwrap_or(UNIX_EPOCH),
            &copied.etag,
        ))
    })
}

/// The answer about a copy.
pub fn copied_to(modified: SystemTime, etag: &str) -> Reply {
    let mut text = Document::new("CopyObjectResult");
    text.date("LastModified", modified);
    text.add("ETag", etag);
    text.answer()
}
