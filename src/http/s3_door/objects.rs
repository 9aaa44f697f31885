//! `GetObject`, `HeadObject` and `GetObjectAttributes`. A key that ends with `/` is a folder that stays, and has no
//! bytes.

use std::time::{SystemTime, UNIX_EPOCH};

use httpdate::fmt_http_date;
use hyper::StatusCode;
use hyper::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, ETAG,
    EXPIRES, HeaderMap, HeaderName, HeaderValue, LAST_MODIFIED, RANGE,
};

use crate::access::Right;
use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::fields::media::UNKNOWN;
use crate::http::head::syntax::put as put_field;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::{NO_SUCH_KEY, PRECONDITION};
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::{Reply, empty, with};
use crate::http::s3_door::errors::{BAD_ARGUMENT, NO_SUCH_PART, ONLY_SIGNED};
use crate::http::s3_door::fields::{
    add_checksums, check_version, conditions, fields_of, own_fields,
};
use crate::http::s3_door::listing::{FOLDER_TAG, stays};
use crate::http::s3_door::operation::{Takes, operation};
use crate::http::s3_door::target::{Target, not_found};
use crate::http::s3_door::xml::{self, Document};
use crate::http::values::conditional::Selection;
use crate::http::values::digest_fields::checksums;
use crate::http::values::get::{self, GetOptions, GetOutcome};
use crate::http::values::representation::validators;
use crate::http::verb::Parsed;
use crate::store::{Key, Page, Prefixes, Purpose};

/// The parameters of a GET that replace fields of its answer.
const OVERRIDES: [(&str, HeaderName); 6] = [
    ("response-cache-control", CACHE_CONTROL),
    ("response-content-disposition", CONTENT_DISPOSITION),
    ("response-content-encoding", CONTENT_ENCODING),
    ("response-content-language", CONTENT_LANGUAGE),
    ("response-content-type", CONTENT_TYPE),
    ("response-expires", EXPIRES),
];

/// GET and HEAD.
pub fn get(asked: &RequestHead<'_>, target: Target) -> Parsed {
    check_version(asked)?;
    // An object is its first part.
    match asked.query.get("partNumber").map(str::parse::<u32>) {
        None | Some(Ok(1)) => {}
        Some(Ok(2..)) => return Err(NO_SUCH_PART),
        Some(_) => return Err(BAD_ARGUMENT),
    }
    let key = match target {
        Target::Folder(folder) => return get_folder(folder),
        Target::Object(key) => key,
        _ => return Err(NO_SUCH_KEY),
    };
    let mut overrides = HeaderMap::new();
    for (name, field) in OVERRIDES {
        if let Some(value) = asked.query.get(name) {
            let value = HeaderValue::try_from(value).map_err(|_| BAD_ARGUMENT)?;
            overrides.insert(field, value);
        }
    }
    let options = GetOptions {
        preconditions: conditions(&asked.head.headers, ""),
        takes_gzip: false,
        ..GetOptions::of(asked.head, asked.config)
    };
    let mode = asked.head.headers.get("x-amz-checksum-mode");
    let is_enabled = |mode: &HeaderValue| mode.as_bytes().eq_ignore_ascii_case(b"enabled");
    // HEAD of a range has the fields of all, and no checksum, for it would be compared with that of the range.
    let with_checksums = mode.is_some_and(is_enabled) && !asked.head.headers.contains_key(RANGE);
    let needs = [Need::all(Right::Read, key.as_str()).into_owned()];
    operation(Takes::Nothing, needs, async move |request, _| {
        let is_signed = |client: &Principal| !client.subject.is_anonymous;
        if !overrides.is_empty() && !request.principal().is_some_and(is_signed) {
            return Err(ONLY_SIGNED);
        }
        let found = get::get(request, &key, Some(&options), None).await?;
        let Some(GetOutcome::Value(value)) = found else {
            return Err(not_found(request, &key).await);
        };
        let kept = fields_of(&value.value.found);
        let is_all = value.selection == Selection::Whole;
        let mut reply = Reply::from(GetOutcome::Value(value));
        // Of who stored it, or signed the request: it comes back as it was sent, as clients compare it.
        reply.keeps_cache_control =
            kept.contains_key(CACHE_CONTROL) || overrides.contains_key(CACHE_CONTROL);
        let is_modified = !reply.response.status().is_redirection();
        Ok(reply.with(|headers| {
            if is_modified {
                headers.extend(own_fields(&kept));
            }
            if with_checksums && is_all {
                add_checksums(headers, &[Some(&kept)]);
            }
            headers.extend(overrides);
        }))
    })
}

const ATTRIBUTES: &str = "ETag Checksum ObjectParts StorageClass ObjectSize";

/// The attributes of an object that are asked for.
pub fn attributes(asked: &RequestHead<'_>, target: Target) -> Parsed {
    let key = target.object()?;
    let wanted = asked.head.headers.get_all("x-amz-object-attributes").iter();
    let wanted = wanted.filter_map(|line| line.to_str().ok());
    let wanted = wanted.flat_map(|line| line.split(',').map(str::trim));
    let wanted: Vec<_> = wanted.map(str::to_owned).collect();
    let is_known = |name: &String| ATTRIBUTES.split(' ').any(|it| it == name);
    if wanted.is_empty() || !wanted.iter().all(is_known) {
        return Err(BAD_ARGUMENT);
    }
    let preconditions = conditions(&asked.head.headers, "");
    let needs = [Need::all(Right::Read, key.as_str()).into_owned()];
    operation(Takes::Nothing, needs, async move |request, _| {
        let (store, reactor) = (&request.service.store, request.service.reactor);
        let found = store.get(reactor, &key, false, Purpose::Use).await?;
        let Some(found) = found else {
            return Err(not_found(request, &key).await);
        };
        if preconditions.is_some_and(|it| !found.allows(&it)) {
            return Err(PRECONDITION);
        }
        let wants = |name: &str| wanted.iter().any(|it| it == name);
        let mut text = Document::new("GetObjectAttributesResponse");
        let validators = validators(&found);
        if wants("ETag") {
            text.add("ETag", validators.etag.trim_matches('"'));
        }
        let kept = fields_of(&found);
        if wants("Checksum") && checksums(&kept).next().is_some() {
            text.within("Checksum", |text| xml::add_checksums(text, &kept));
        }
        if wants("StorageClass") {
            text.show("StorageClass", "STANDARD");
        }
        if wants("ObjectSize") {
            text.show("ObjectSize", found.len());
        }
        Ok(text.answer().with(|headers| {
            put_field(headers, LAST_MODIFIED, fmt_http_date(validators.modified));
        }))
    })
}

/// A folder that stays, as an object without bytes.
fn get_folder(folder: Key<'static>) -> Parsed {
    let needs = [sees_folder(&folder)];
    operation(Takes::Nothing, needs, async move |request, _| {
        let date = date_of_folder(request, &folder).await?;
        let response = with(empty(StatusCode::OK), |headers| {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(UNKNOWN));
            headers.insert(ETAG, HeaderValue::from_static(FOLDER_TAG));
            put_field(headers, LAST_MODIFIED, fmt_http_date(date));
        });
        Ok(response.into())
    })
}

/// What shows that a folder stays: the right to read any key in it.
pub fn sees_folder(folder: &Key<'_>) -> Need<'static> {
    Need::Any(Right::Read, format!("{folder}/").into())
}

/// When something in this folder, which stays, was last made or removed.
pub async fn date_of_folder(
    request: &RequestContext,
    folder: &Key<'_>,
) -> Result<SystemTime, Refusal> {
    let name = format!("{folder}/");
    if !stays(request, &name, Prefixes::all()).await? {
        return Err(not_found(request, folder).await);
    }
    let mut page = Page {
        within: Prefixes::all(),
        ..Page::default()
    };
    request.permitted_now(|client| {
        client.may_list(&mut page);
        Ok(())
    })?;
    let store = &request.service.store;
    let dates = store.folder_dates(vec![name], &page.within).await?;
    Ok(dates.first().copied().unwrap_or(UNIX_EPOCH))
}
