//! From method, target and headers to an [`Operation`], or a [`Refusal`].
//!
//! The only room that reads request headers. Everything that can be refused without touching the store is refused
//! here, before a byte of the body is read. Which status a refusal has is not known here.

use hyper::header::{
    ACCESS_CONTROL_REQUEST_METHOD, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE,
    HeaderMap, HeaderValue, IF_RANGE, ORIGIN, RANGE, TRAILER,
};
use hyper::http::request::Parts;
use hyper::{Method, Version};

use super::accept::prefers_problem;
use super::admin;
use super::conditional::Preconditions;
use super::digest_fields::{Expected, WANT_REPR_DIGEST, want};
use super::encode::Coding;
use super::home;
use super::listing::{self, Form};
use super::media;
use super::operation::{Audience, Intent, Operation, Terms, Wishes};
use super::path::{WATCH, key, page};
use super::refusal::Refusal;
use super::rules::{Rules, Scope};
use super::subscription::{Ask, ask};
use super::survey::Survey;

/// Understands `head`; `len` is the body's length where the framing tells it.
pub(super) fn understand<'a>(
    head: &'a Parts,
    len: Option<u64>,
    rules: &Rules,
) -> (Audience, Result<Intent<'a>, Refusal>) {
    let survey = Survey::of(&head.headers);
    let origin = || allowed_origin(&head.headers, rules);
    let audience = Audience {
        problem: survey.problem && prefers_problem(&head.headers),
        varies: !rules.cors_origins.is_empty(),
        identified: survey.identified,
        closes: survey.closes,
        origin: (!rules.cors_origins.is_empty()).then(origin).flatten(),
    };
    let is_refused = || !head.method.is_safe() && audience.origin.is_none() && survey.is_foreign();
    let intent = match survey.check(head, &rules.hosts) {
        Ok(()) if is_refused() => Err(Refusal::CrossSite),
        Ok(()) if head.uri.path() == WATCH && rules.scope != Scope::Values => {
            subscription(head, len, rules).map(Intent::Watch)
        }
        Ok(()) => operation(head, len, &survey, rules).map(Intent::Operation),
        Err(refusal) => Err(refusal),
    };
    (audience, intent)
}

fn subscription(head: &Parts, len: Option<u64>, rules: &Rules) -> Result<Ask, Refusal> {
    match head.method {
        Method::GET => {
            let is_allowed = |headers: &_| allowed_origin(headers, rules).is_some();
            Ok(ask(head, len, is_allowed)?)
        }
        _ if rules.compat => Err(Refusal::Method),
        // HEAD stands for nothing here: the answer has no end.
        _ => Err(Refusal::PageMethod("GET")),
    }
}

fn operation<'a>(
    head: &'a Parts,
    len: Option<u64>,
    survey: &Survey<'_>,
    rules: &Rules,
) -> Result<Operation<'a>, Refusal> {
    if let Some(page) = page(head.uri.path(), rules.scope) {
        match head.method {
            Method::GET | Method::HEAD => {
                return Ok(Operation::Page(page, admin::Form::preferred(&head.headers)));
            }
            _ if !rules.compat => return Err(Refusal::PageMethod("GET, HEAD")),
            _ => {}
        }
    }
    if rules.scope == Scope::Pages {
        return Err(Refusal::NoSuchPath);
    }
    match head.method {
        Method::GET | Method::HEAD => get(head, survey, rules),
        Method::PUT => put(head, len, rules),
        Method::DELETE => {
            let key = key(head.uri.path())?;
            if rules.read_only {
                return Err(Refusal::ReadOnly);
            }
            let preconditions = Preconditions::of(&head.headers);
            Ok(Operation::Delete { key, preconditions })
        }
        Method::OPTIONS if !rules.compat => Ok(Operation::Options {
            preflight: head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD),
        }),
        _ => Err(Refusal::Method),
    }
}

fn get<'a>(head: &'a Parts, survey: &Survey<'_>, rules: &Rules) -> Result<Operation<'a>, Refusal> {
    match head.uri.path() {
        "/" if rules.compat => Err(Refusal::NoSuchPath),
        "/" if home::is_preferred(&head.headers) => Ok(Operation::Home {
            is_known: home::is_known(&head.headers)?,
        }),
        "/" => Ok(Operation::List {
            page: listing::page(head.uri.query().unwrap_or_default())?,
            form: Form::preferred(&head.headers),
        }),
        path => {
            let key = key(path)?;
            let has_wishes = survey.wishes || (rules.compress && survey.codings_accepted);
            let wishes = has_wishes.then(|| wishes(head, rules)).map(Box::new);
            Ok(Operation::Get { key, wishes })
        }
    }
}

fn wishes(head: &Parts, rules: &Rules) -> Wishes {
    let mut ranges = HeaderMap::new();
    if head.method == Method::GET {
        for name in [RANGE, IF_RANGE] {
            for value in head.headers.get_all(&name) {
                ranges.append(&name, value.clone());
            }
        }
    }
    Wishes {
        preconditions: Preconditions::of(&head.headers),
        ranges,
        digest: want(&head.headers, &WANT_REPR_DIGEST),
        coding: rules
            .compress
            .then(|| Coding::preferred(&head.headers))
            .flatten(),
    }
}

fn put<'a>(head: &'a Parts, len: Option<u64>, rules: &Rules) -> Result<Operation<'a>, Refusal> {
    let key = key(head.uri.path()).map_err(|refusal| match refusal {
        Refusal::NoSuchPath => Refusal::NoKey,
        other => other,
    })?;
    if rules.read_only {
        return Err(Refusal::ReadOnly);
    }
    if rules.compat && len.is_none_or(|len| len == 0) {
        return Err(Refusal::NothingToStore);
    }
    // An HTTP/1.0 body without a length would end with the connection, as a cut-off one does.
    if head.version < Version::HTTP_11 && !head.headers.contains_key(CONTENT_LENGTH) {
        return Err(Refusal::LengthRequired);
    }
    if len.is_some_and(|len| len > rules.max_body) {
        return Err(Refusal::TooLarge {
            limit: rules.max_body,
        });
    }
    let terms = Box::new(terms(&head.headers)?);
    Ok(Operation::Put { key, len, terms })
}

fn terms(headers: &HeaderMap) -> Result<Terms, Refusal> {
    // RFC 9110, section 14.4: a part must not be stored as if it were the whole.
    if headers.contains_key(CONTENT_RANGE) {
        return Err(Refusal::PartialPut);
    }
    // Stored and answered without its coding, a value would be another one.
    if headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .any(|c| !c.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        return Err(Refusal::ContentCoding);
    }
    let announced = headers
        .get_all(TRAILER)
        .iter()
        .any(|fields| announces_digest(fields.as_bytes()));
    Ok(Terms {
        preconditions: Preconditions::of(headers),
        media_type: headers
            .get(CONTENT_TYPE)
            .and_then(|v| media::check(v.as_bytes()))
            .map(Into::into),
        expected: Expected::of(headers)?,
        digests_follow: announced,
    })
}

fn announces_digest(fields: &[u8]) -> bool {
    let names = ["content-digest", "repr-digest", "content-md5"];
    let is_one = |field: &[u8]| {
        names
            .iter()
            .any(|name| field.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
    };
    fields.split(|&b| b == b',').any(is_one)
}

/// The Origin of the request, if pages of it may use this server.
fn allowed_origin(headers: &HeaderMap, rules: &Rules) -> Option<HeaderValue> {
    let origin = headers.get(ORIGIN)?;
    let allowed = |allowed: &String| allowed == "*" || allowed.as_bytes() == origin.as_bytes();
    rules
        .cors_origins
        .iter()
        .any(allowed)
        .then(|| origin.clone())
}
