//! The fields of a MOVE or COPY.
//!
//! Destination names the key that gets the value: a path, or a URL of this server. If-Match and its like are preconditions of the target of
//! the request, which is the source (RFC 9110, section 13.1); Destination-If-Match and Destination-If-None-Match are the same of the
//! value that the destination has. Pure.

use hyper::Uri;
use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use hyper::http::request::Parts;
use hyper::http::uri::{Authority, Scheme};

use crate::http::head::allowlists::host_and_port;
use crate::http::head::path::{check_depth, folder, key};
use crate::http::head::syntax::only;
use crate::http::refusal::Refusal;
use crate::http::service::operation::{MoveRequest, PutOptions};
use crate::http::service_config::ServiceConfig;
use crate::http::values::conditional::preconditions;
use crate::http::values::content_names::named_sha256;
use crate::http::values::moves::BadMove;
use crate::store::{BadKey, DELETE_AFTER, DELETE_AT, Key, Preconditions};

const DESTINATION: HeaderName = HeaderName::from_static("destination");
const OVERWRITE: HeaderName = HeaderName::from_static("overwrite");
static X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The preconditions of the destination, and the fields that they mean.
const OF_DESTINATION: [(HeaderName, HeaderName); 2] = [
    (HeaderName::from_static("destination-if-match"), IF_MATCH),
    (
        HeaderName::from_static("destination-if-none-match"),
        IF_NONE_MATCH,
    ),
];

/// Fields that would change what is done, and that these methods do not take.
const NOT_TAKEN: [&str; 4] = [
    DELETE_AFTER,
    DELETE_AT,
    "destination-if-modified-since",
    "destination-if-unmodified-since",
];

impl MoveRequest {
    /// The request with this `head`, whose target is the key `from`.
    pub fn of(
        head: &Parts,
        from: Result<Key<'_>, Refusal>,
        is_copy: bool,
        config: &ServiceConfig,
    ) -> Result<Self, Refusal> {
        if let Some(name) = NOT_TAKEN
            .into_iter()
            .find(|name| head.headers.contains_key(*name))
        {
            return Err(BadMove::Field(name).into());
        }
        let to = destination(head, config)?;
        let from = from
            .map_err(|why| of_folder(why, head.uri.path()))?
            .into_owned();
        if from == to {
            return Err(BadMove::Same.into());
        }
        check_depth(&to, config.limits.max_key_depth)?;
        let mut options = PutOptions {
            preconditions: of_destination(&head.headers),
            ..PutOptions::default()
        };
        options.expected.sha256 = named_sha256(&to, config)?;
        if !overwrites(&head.headers)? {
            let asked = options.preconditions.take();
            options.preconditions = Some(Preconditions {
                matching: asked.and_then(|asked| asked.matching),
                ..Preconditions::NEW
            });
        }
        Ok(Self {
            from,
            to,
            is_copy,
            preconditions: preconditions(&head.headers),
            options,
            may_tell: true,
        })
    }
}

/// False where a value of the destination is to be left as it is.
fn overwrites(headers: &HeaderMap) -> Result<bool, BadMove> {
    if !headers.contains_key(OVERWRITE) {
        return Ok(true);
    }
    match only(headers, &OVERWRITE).map(HeaderValue::as_bytes) {
        Some(b"T") => Ok(true),
        Some(b"F") => Ok(false),
        _ => Err(BadMove::Overwrite),
    }
}

/// The preconditions of the destination, if there are any.
fn of_destination(headers: &HeaderMap) -> Option<Preconditions> {
    let mut meant = HeaderMap::new();
    for (name, as_if) in &OF_DESTINATION {
        for value in headers.get_all(name) {
            meant.append(as_if, value.clone());
        }
    }
    preconditions(&meant)
}

/// The key that Destination names.
fn destination(head: &Parts, config: &ServiceConfig) -> Result<Key<'static>, Refusal> {
    let text = only(&head.headers, &DESTINATION).ok_or(BadMove::Destination)?;
    let text = text.to_str().map_err(|_| BadMove::Destination)?.trim();
    let uri: Uri = match text.parse() {
        Ok(uri) if !text.contains(['#', '?']) => uri,
        _ => return Err(BadMove::Destination.into()),
    };
    match uri.scheme() {
        None if text.starts_with('/') => {}
        None => return Err(BadMove::Destination.into()),
        Some(scheme) => {
            let port = match scheme {
                scheme if *scheme == Scheme::HTTP => "80",
                scheme if *scheme == Scheme::HTTPS => "443",
                _ => return Err(BadMove::Elsewhere.into()),
            };
            let authority = uri.authority().map_or("", |it| it.as_str());
            if !is_ours(authority, port, head, config) {
                return Err(BadMove::Elsewhere.into());
            }
        }
    }
    match key(uri.path(), false) {
        Ok(key) => Ok(key.into_owned()),
        Err(why) => Err(of_folder(why, uri.path())),
    }
}

/// True for an `authority` by which this server is asked, or may be asked at the same port. Where it has no port, this one is meant.
fn is_ours(authority: &str, port: &str, head: &Parts, config: &ServiceConfig) -> bool {
    let parts = |text| {
        let (host, given) = host_and_port(text)?;
        let given = given.strip_prefix(':').filter(|given| !given.is_empty());
        Some((host, given.unwrap_or(port)))
    };
    let Some((host, port)) = parts(authority) else {
        return false;
    };
    let field = |name| only(&head.headers, name)?.to_str().ok();
    let target = head.uri.authority().map(Authority::as_str);
    let trusts = !config.trusted_proxies.is_empty();
    let by_proxy = field(&X_FORWARDED_HOST);
    let asked = [target, field(&HOST), by_proxy.filter(|_| trusts)];
    // In HTTP/1 a target in absolute form has the last word, in HTTP/2 all are.
    let asked = asked.into_iter().flatten().filter_map(parts);
    let is_named = config.allowed.hosts.has(authority.as_bytes());
    asked.into_iter().any(|(asked, of)| {
        of == port && (is_named || (asked.eq_ignore_ascii_case(host) && !host.is_empty()))
    })
}

/// The refusal of a path that is no key: of a folder, one of its own.
fn of_folder(why: Refusal, path: &str) -> Refusal {
    match why {
        Refusal::NoSuchPath if path != "/" => BadMove::Destination.into(),
        Refusal::NoSuchPath | Refusal::Folder => BadMove::Folder.into(),
        Refusal::BadKey(BadKey::EmptySegment) if matches!(folder(path), Ok(Some(_))) => {
            BadMove::Folder.into()
        }
        why => why,
    }
}
