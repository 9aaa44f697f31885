//! MOVE and COPY of a value (RFC 4918, sections 9.8 and 9.9): what the fields ask for, and the doing.
//!
//! Destination names the key that gets the value: a path, or a URL of this server. If-Match and its like are preconditions of the target of
//! the request, which is the source (RFC 9110, section 13.1); Destination-If-Match and Destination-If-None-Match are the same of the
//! value that the destination has. Reads no body, and decides no status.

use hyper::Uri;
use hyper::header::{HOST, HeaderMap, HeaderName, IF_MATCH, IF_NONE_MATCH};
use hyper::http::request::Parts;
use hyper::http::uri::Scheme;

use crate::http::head::allowlists::{Hosts, host_and_port};
use crate::http::head::path::{check_depth, folder, key};
use crate::http::head::syntax::only;
use crate::http::refusal::Refusal;
use crate::http::response::outcome::{Outcome, RelocatedValue};
use crate::http::service::context::{RequestContext, Service};
use crate::http::service::operation::PutOptions;
use crate::http::service_config::ServiceConfig;
use crate::http::values::conditional::preconditions;
use crate::http::values::content_names::named_sha256;
use crate::http::values::put::verify;
use crate::store::{
    BadKey, CONTENDED, Digest, Digests, Key, Preconditions, Relocated, Relocation, TRIES,
    UploadHead, WriteCondition,
};

const DESTINATION: HeaderName = HeaderName::from_static("destination");
const OVERWRITE: HeaderName = HeaderName::from_static("overwrite");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The preconditions of the destination, and the fields that they mean.
const OF_DESTINATION: [(HeaderName, HeaderName); 2] = [
    (HeaderName::from_static("destination-if-match"), IF_MATCH),
    (
        HeaderName::from_static("destination-if-none-match"),
        IF_NONE_MATCH,
    ),
];

/// A MOVE or COPY that cannot be done as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMove {
    #[error(
        "MOVE and COPY need one Destination: a path as /key, or the URL of a key of this server"
    )]
    Destination,
    #[error(
        "Destination is no http or https URL of this server, and a value is moved and copied within it"
    )]
    Elsewhere,
    #[error("Overwrite is T or F")]
    Overwrite,
    #[error("source and destination are the same key")]
    Same,
    /// Everything that has to do with folders as a source or a destination.
    #[error("folders are not moved or copied: name a key at both ends")]
    Folder,
}

/// A MOVE or COPY.
#[derive(Debug)]
pub struct MoveRequest {
    pub from: Key<'static>,
    pub to: Key<'static>,
    pub is_copy: bool,
    /// The preconditions of the source.
    pub preconditions: Option<Preconditions>,
    /// The options of the PUT that it is to the destination.
    pub options: PutOptions,
    /// The client may be told whether the destination had a value.
    pub may_tell: bool,
}

impl MoveRequest {
    /// The request with this `head`, whose target is the key `from`.
    pub fn of(
        head: &Parts,
        from: Result<Key<'_>, Refusal>,
        is_copy: bool,
        config: &ServiceConfig,
    ) -> Result<Self, Refusal> {
        let to = destination(head, &config.allowed.hosts)?;
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
    match only(headers, &OVERWRITE).map(|it| it.as_bytes()) {
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
fn destination(head: &Parts, hosts: &Hosts) -> Result<Key<'static>, Refusal> {
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
            if !is_ours(authority, port, head, hosts) {
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
fn is_ours(authority: &str, port: &str, head: &Parts, hosts: &Hosts) -> bool {
    let parts = |text| {
        let (host, given) = host_and_port(text)?;
        let given = given.strip_prefix(':').filter(|given| !given.is_empty());
        Some((host, given.unwrap_or(port)))
    };
    let Some((host, port)) = parts(authority) else {
        return false;
    };
    let field = |name| only(&head.headers, name)?.to_str().ok();
    let target = head.uri.authority().map(|it| it.as_str());
    // The framing guard leaves the field of proxies out where none is trusted.
    let asked = [target, field(&HOST), field(&X_FORWARDED_HOST)];
    // In HTTP/1 a target in absolute form has the last word, in HTTP/2 all are.
    let asked = asked.into_iter().flatten().filter_map(parts);
    let is_named = hosts.has(authority.as_bytes());
    asked.into_iter().any(|(asked, of)| {
        of == port && (is_named || (asked.eq_ignore_ascii_case(host) && !host.is_empty()))
    })
}

/// The refusal of a path that is no key: of a folder, one of its own.
fn of_folder(why: Refusal, path: &str) -> Refusal {
    match why {
        Refusal::NoSuchPath if path != "/" => BadMove::Destination.into(),
        Refusal::NoSuchPath => BadMove::Folder.into(),
        Refusal::Folder => BadMove::Folder.into(),
        Refusal::BadKey(BadKey::EmptySegment) if matches!(folder(path), Ok(Some(_))) => {
            BadMove::Folder.into()
        }
        why => why,
    }
}

/// Moves or copies a value. A source that is replaced meanwhile is looked at anew.
pub async fn relocate(request: &RequestContext, asked: MoveRequest) -> Result<Outcome, Refusal> {
    let Service { store, reactor, .. } = &*request.service;
    let limit = request.service.config.limits.max_body;
    for _ in 0..TRIES {
        let Some(found) = store.get(*reactor, &asked.from, false).await? else {
            return Ok(Outcome::NoValue);
        };
        if asked
            .preconditions
            .as_ref()
            .is_some_and(|it| !found.allows(it))
        {
            return Err(Refusal::Precondition);
        }
        if found.len() > limit {
            return Err(Refusal::TooLarge { limit });
        }
        if asked.options.expected.sha256.is_some() {
            let Some(Digest::Sha256(sha256)) = store.digest(&found, false).await? else {
                continue;
            };
            let digests = Digests {
                sha256: Some(sha256),
                ..Digests::default()
            };
            verify(&asked.options.expected, &digests)?;
        }
        let how = Relocation {
            from: asked.from.clone(),
            to: asked.to.clone(),
            is_copy: asked.is_copy,
            preconditions: asked.options.preconditions.clone(),
        };
        let quota = store.quota().filter(|quota| quota.is_by_client());
        let head = UploadHead {
            uploader: quota.map(|_| request.uploader()),
            ..UploadHead::default()
        };
        let relocated = store.relocate(*reactor, found, how, head).await;
        let relocated = request.narrowed(asked.options.existing, relocated.map_err(Into::into))?;
        if let Some(Relocated { published, is_new }) = relocated {
            let of_destination = asked.options.preconditions.as_ref();
            let is_create =
                || of_destination.and_then(Preconditions::exact) == Some(WriteCondition::Create);
            return Ok(Outcome::Relocated(Box::new(RelocatedValue {
                key: asked.to,
                is_copy: asked.is_copy,
                published,
                is_new: is_new && (asked.may_tell || is_create()),
            })));
        }
    }
    Err(CONTENDED.into())
}
