//! From method, target and headers to an [`Operation`], or a [`Rejection`].
//!
//! The fields of a request are read here and in the pure functions that this file calls. Everything that can be refused
//! without touching the store is refused here, before a byte of the body is read. Which status a rejection has is not
//! known here.

use hyper::header::{
    ACCESS_CONTROL_REQUEST_METHOD, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderMap,
    HeaderValue, IF_RANGE, ORIGIN, RANGE,
};
use hyper::http::request::Parts;
use hyper::{Method, Version};

use crate::http::request::common_headers::CommonHeaders;
use crate::http::request::operation::{GetOptions, Intent, Operation, PutOptions, ResponseContext};
use crate::http::request::page::MetricsFormat;
use crate::http::request::path::{Segments, WATCH, folder, key, page};
use crate::http::request::rejection::Rejection;
use crate::http::request::watch_request::WatchRequest;
use crate::http::semantics::accept::prefers_problem;
use crate::http::semantics::coding::Coding;
use crate::http::semantics::conditional::Preconditions;
use crate::http::semantics::digest_fields::{Expected, WANT_REPR_DIGEST, are_announced, want};
use crate::http::semantics::listing::ListFormat;
use crate::http::semantics::stored_fields::StoredFields;
use crate::http::semantics::{listing, media};
use crate::http::service_config::{Routes, ServiceConfig};
use crate::http::ui as home;

/// Understands `head`; `len` is the body's length where the framing tells it.
pub(in crate::http) fn understand<'a>(
    head: &'a Parts,
    len: Option<u64>,
    config: &ServiceConfig,
) -> (ResponseContext, Result<Intent<'a>, Rejection>) {
    let common = CommonHeaders::of(&head.headers);
    let origin = || allowed_origin(&head.headers, config);
    let context = ResponseContext {
        problem: common.problem && prefers_problem(&head.headers),
        varies: !config.allowed.origins.is_empty(),
        identified: common.identified,
        closes: common.closes,
        origin: (!config.allowed.origins.is_empty()).then(origin).flatten(),
    };
    let is_refused = || !head.method.is_safe() && context.origin.is_none() && common.is_foreign();
    let intent = match common.check(head, &config.allowed.hosts) {
        Ok(()) if is_refused() => Err(Rejection::CrossSite(common.unlisted())),
        Ok(()) if head.uri.path() == WATCH && config.routes != Routes::Values => {
            subscription(head, len, config).map(Intent::Watch)
        }
        Ok(()) => operation(head, len, &common, config).map(Intent::Operation),
        Err(rejection) => Err(rejection),
    };
    (context, intent)
}

fn subscription(
    head: &Parts,
    len: Option<u64>,
    config: &ServiceConfig,
) -> Result<WatchRequest, Rejection> {
    match head.method {
        Method::GET => {
            let is_allowed = |headers: &_| allowed_origin(headers, config).is_some();
            Ok(WatchRequest::of(head, len, is_allowed)?)
        }
        _ if config.compat => Err(Rejection::Method),
        // HEAD stands for nothing here: the answer has no end.
        _ => Err(Rejection::PageMethod("GET")),
    }
}

fn operation<'a>(
    head: &'a Parts,
    len: Option<u64>,
    common: &CommonHeaders<'_>,
    config: &ServiceConfig,
) -> Result<Operation<'a>, Rejection> {
    if let Some(page) = page(head.uri.path(), config.routes) {
        match head.method {
            Method::GET | Method::HEAD => {
                return Ok(Operation::Page(
                    page,
                    MetricsFormat::preferred(&head.headers),
                ));
            }
            _ if !config.compat => return Err(Rejection::PageMethod("GET, HEAD")),
            _ => {}
        }
    }
    if config.routes == Routes::Pages {
        return Err(Rejection::NoSuchPath);
    }
    match head.method {
        Method::GET | Method::HEAD => get(head, common, config),
        Method::PUT => put(head, len, config),
        Method::DELETE => {
            let key = key(head.uri.path(), segments(config))?;
            if config.read_only {
                return Err(Rejection::ReadOnly);
            }
            let preconditions = Preconditions::of(&head.headers);
            Ok(Operation::Delete { key, preconditions })
        }
        Method::OPTIONS if !config.compat => Ok(Operation::Options {
            preflight: head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD),
        }),
        _ => Err(Rejection::Method),
    }
}

fn get<'a>(
    head: &'a Parts,
    common: &CommonHeaders<'_>,
    config: &ServiceConfig,
) -> Result<Operation<'a>, Rejection> {
    match head.uri.path() {
        "/" if config.compat => Err(Rejection::NoSuchPath),
        "/" if home::is_preferred(&head.headers) => Ok(Operation::Home {
            is_known: home::is_known(&head.headers)?,
        }),
        "/" => list(head, String::new()),
        path => {
            if !config.compat
                && let Some(folder) = folder(path)?
            {
                return list(head, folder);
            }
            let key = key(path, segments(config))?;
            let has_wishes = common.options || (config.compress && common.codings_accepted);
            let options = has_wishes.then(|| get_options(head, config)).map(Box::new);
            Ok(Operation::Get { key, options })
        }
    }
}

/// The listing of the keys that begin with `folder` and with the prefix of the query behind it.
fn list(head: &Parts, folder: String) -> Result<Operation<'static>, Rejection> {
    Ok(Operation::List {
        page: listing::page(folder, head.uri.query().unwrap_or_default())?,
        format: ListFormat::preferred(&head.headers),
    })
}

fn segments(config: &ServiceConfig) -> Segments {
    if config.compat {
        Segments::One
    } else {
        Segments::Any
    }
}

fn get_options(head: &Parts, config: &ServiceConfig) -> GetOptions {
    let mut ranges = HeaderMap::new();
    if head.method == Method::GET {
        for name in [RANGE, IF_RANGE] {
            for value in head.headers.get_all(&name) {
                ranges.append(&name, value.clone());
            }
        }
    }
    GetOptions {
        preconditions: Preconditions::of(&head.headers),
        ranges,
        digest: want(&head.headers, &WANT_REPR_DIGEST),
        coding: config
            .compress
            .then(|| Coding::preferred(&head.headers))
            .flatten(),
    }
}

fn put<'a>(
    head: &'a Parts,
    len: Option<u64>,
    config: &ServiceConfig,
) -> Result<Operation<'a>, Rejection> {
    let key = key(head.uri.path(), segments(config)).map_err(|rejection| match rejection {
        Rejection::NoSuchPath => Rejection::NoKey,
        other => other,
    })?;
    if config.read_only {
        return Err(Rejection::ReadOnly);
    }
    if config.compat && len.is_none_or(|len| len == 0) {
        return Err(Rejection::NothingToStore);
    }
    // An HTTP/1.0 body without a length would end with the connection, as a cut-off one does.
    if head.version < Version::HTTP_11 && !head.headers.contains_key(CONTENT_LENGTH) {
        return Err(Rejection::LengthRequired);
    }
    if len.is_some_and(|len| len > config.max_body) {
        return Err(Rejection::TooLarge {
            limit: config.max_body,
        });
    }
    let options = Box::new(put_options(&head.headers, config)?);
    Ok(Operation::Put { key, len, options })
}

fn put_options(headers: &HeaderMap, config: &ServiceConfig) -> Result<PutOptions, Rejection> {
    // RFC 9110, section 14.4: a part must not be stored as if it were the whole.
    if headers.contains_key(CONTENT_RANGE) {
        return Err(Rejection::PartialPut);
    }
    Ok(PutOptions {
        preconditions: Preconditions::of(headers),
        media_type: headers
            .get(CONTENT_TYPE)
            .and_then(|v| media::check(v.as_bytes()))
            .map(Into::into),
        // The C server knew none of these fields.
        fields: if config.compat {
            StoredFields::default()
        } else {
            StoredFields::of(headers)?
        },
        expected: Expected::of(headers)?,
        digests_follow: are_announced(headers),
    })
}

/// The Origin of the request, if pages of it may use this server.
fn allowed_origin(headers: &HeaderMap, config: &ServiceConfig) -> Option<HeaderValue> {
    let origin = headers.get(ORIGIN)?;
    let is_allowed = config.allowed.origins.allow(origin.as_bytes());
    is_allowed.then(|| origin.clone())
}
