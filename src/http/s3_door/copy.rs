//! `CopyObject`: a copy within the server, by a reflink where the file system has one.

use std::time::UNIX_EPOCH;

use async_trait::async_trait;
use hyper::header::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;

use crate::access::Right;
use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::changes::move_value;
use crate::http::head::syntax::has_bad_escape;
use crate::http::refusal::Refusal;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::Outcome;
use crate::http::s3_door::buckets::document;
use crate::http::s3_door::errors::{BAD_ARGUMENT, ITSELF};
use crate::http::s3_door::stores::{described, unless_gone};
use crate::http::s3_door::target::{Target, conditions, needs_bucket};
use crate::http::s3_door::xml::Document;
use crate::http::values::moves::MoveRequest;
use crate::http::verb::{BodyUse, Parsed, Verb, parsed};
use crate::store::{Key, Preconditions};

const SOURCE: &str = "x-amz-copy-source";

/// The conditions of the source, behind this prefix.
const CONDITION: &str = "x-amz-copy-source-";

/// The key of the object that is to be copied, and what it is to be like; `None` where nothing is copied.
pub fn source(
    headers: &HeaderMap,
) -> Result<Option<(Key<'static>, Option<Preconditions>)>, Refusal> {
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
    match Target::named(&name.map_err(|_| BAD_ARGUMENT)?)? {
        Target::Object(key) => Ok(Some((key, conditions(headers, CONDITION)))),
        _ => Err(BAD_ARGUMENT),
    }
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
    let before = conditions(headers, "").filter(Preconditions::are_of_writes);
    let mut copy = MoveRequest::of_ends(from, to, before, asked.config)?;
    if replaces {
        described(&mut copy.to, asked)?;
    }
    copy.preconditions = of_source;
    copy.replaces = replaces;
    parsed(Copy(copy))
}

struct Copy(MoveRequest);

#[async_trait(?Send)]
impl Verb for Copy {
    fn body(&self) -> BodyUse {
        BodyUse::Ignored
    }

    fn needs(&self) -> Vec<Need<'_>> {
        let of_source = Need::all(Right::Read, self.0.from.as_str());
        [of_source].into_iter().chain(self.0.to.needs()).collect()
    }

    fn permit(&mut self, client: &Principal) -> Result<(), Refusal> {
        self.0.permit(client)
    }

    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        let copy = self.0;
        let to = copy.to.key.clone();
        let from = copy.from.clone();
        needs_bucket(request, &to).await?;
        needs_bucket(request, &from).await?;
        let wants = copy.to.preconditions.as_ref();
        let wants = wants.is_some_and(|it| it.matching.is_some());
        let copied = move_value(request, copy).await;
        let copied = unless_gone(request, &to, wants, copied).await?;
        let mut text = Document::new("CopyObjectResult", true);
        text.date(
            "LastModified",
            copied.published.modified.unwrap_or(UNIX_EPOCH),
        );
        text.add("ETag", &copied.published.etag);
        Ok(document(text.end()))
    }
}
