//! The fields of a MOVE or COPY, of a value or of a folder.
//!
//! Destination names the key that gets the value: a path, or a URL of this server. If-Match and its like are
//! preconditions of the target of the request, which is the source (RFC 9110, section 13.1); Destination-If-Match and
//! Destination-If-None-Match are the same of the value that the destination has. Pure.

use hyper::Uri;
use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use hyper::http::request::Parts;
use hyper::http::uri::{Authority, Scheme};

use crate::http::head::allowlists::host_and_port;
use crate::http::head::client::Client;
use crate::http::head::path::{folder, key};
use crate::http::head::query::{Parameters, QueryFields};
use crate::http::head::syntax::only;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::{BAD_KEY, FOLDER_PRECONDITION, NO_SUCH_PATH};
use crate::http::service_config::ServiceConfig;
use crate::http::values::conditional::preconditions_of_write;
use crate::http::values::moves::{
    FIELD, FolderMove, MoveRequest, Relocating, SAME, WITHIN, elsewhere, mixed, no_destination,
};
use crate::http::values::put::PutRequest;
use crate::store::{DELETE_AFTER, DELETE_AT, Key, Preconditions};

const DESTINATION: HeaderName = HeaderName::from_static("destination");
/// RFC 4918, section 10.2.
const DEPTH: HeaderName = HeaderName::from_static("depth");
const OVERWRITE: HeaderName = HeaderName::from_static("overwrite");

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
    /// The request with this `head`, of a value.
    fn of_value(
        head: &Parts,
        (from, to): (Key<'_>, Key<'_>),
        is_copy: bool,
        config: &ServiceConfig,
    ) -> Result<Self, Refusal> {
        if from == to {
            return Err(SAME.because("source and destination are the same key"));
        }
        let mut before = of_destination(&head.headers);
        if !overwrites(&head.headers)? {
            before = Some(Preconditions {
                matching: before.and_then(|asked| asked.matching),
                ..Preconditions::NEW
            });
        }
        Ok(Self {
            is_copy,
            preconditions: preconditions_of_write(&head.headers),
            ..Self::of_ends(from, to, before, config)?
        })
    }

    /// A COPY that takes any value of `from`, and of `to` what `before` says.
    pub fn of_ends(
        from: Key<'_>,
        to: Key<'_>,
        before: Option<Preconditions>,
        config: &ServiceConfig,
    ) -> Result<Self, Refusal> {
        let mut to = PutRequest::of(to.into_owned(), config)?;
        to.preconditions = before;
        Ok(Self {
            from: from.into_owned(),
            to,
            is_copy: true,
            preconditions: None,
            may_tell: true,
            replaces: false,
        })
    }
}

/// What a MOVE or COPY with this `head` asks for.
pub fn relocation(
    head: &Parts,
    query: &QueryFields<'_>,
    is_copy: bool,
    client: Client,
    config: &ServiceConfig,
) -> Result<Relocating, Refusal> {
    if let Some(name) = NOT_TAKEN
        .into_iter()
        .find(|name| head.headers.contains_key(*name))
    {
        return Err(FIELD.because(format!("MOVE and COPY take no {name}: nothing was done")));
    }
    let to = destination(head, client, config)?;
    let (from, to) = (head.uri.path(), to.path());
    let of_destination = |why: Refusal| match why {
        why if why == NO_SUCH_PATH && to != "/" => no_destination(),
        why => of_no_key(why, to),
    };
    // In this order: of two paths that are none the destination is named.
    match (folder(to), folder(from)) {
        (Ok(None), _) | (_, Ok(None)) => {
            let to = key(to, false).map_err(of_destination)?;
            let from = key(from, false).map_err(|why| of_no_key(why, from))?;
            let request = MoveRequest::of_value(head, (from, to), is_copy, config)?;
            Ok(Relocating::Value(Box::new(request)))
        }
        (to, from) => {
            let (to, from) = (to.map_err(of_destination)?, from?);
            query.check_all(OF_FOLDER)?;
            let (from, to) = (from.unwrap_or_default(), to.unwrap_or_default());
            let asked = FolderMove::of(&head.headers, &from, &to)?;
            Ok(Relocating::Folder(asked))
        }
    }
}

impl FolderMove {
    /// The request with these `headers`, of the folders with these names, which end with `/`.
    fn of(headers: &HeaderMap, from: &str, to: &str) -> Result<Self, Refusal> {
        if is_deep(headers)? == Some(false) {
            let why = "a folder is moved and copied with all that is below it: Depth is infinity, or absent";
            return Err(FIELD.because(why));
        }
        if preconditions_of_write(headers).is_some() || of_destination(headers).is_some() {
            return Err(FOLDER_PRECONDITION);
        }
        if from.starts_with(to) || to.starts_with(from) {
            let why = "one of the two folders is the other, or lies in it";
            return Err(WITHIN.because(why));
        }
        let name = |folder: &str| Key::new(folder.trim_end_matches('/').to_owned());
        Ok(Self {
            from: name(from)?,
            to: name(to)?,
            overwrites: overwrites(headers)?,
        })
    }

    /// The key that a value of the key `from`, below the first folder, gets.
    pub fn to(&self, from: &str) -> Result<Key<'static>, Refusal> {
        let below = &from[self.from.as_str().len()..];
        Ok(Key::new(format!("{}{below}", self.to))?)
    }

    /// The COPY of the value of `from`, which lies below the first folder.
    pub fn copy_of(&self, from: &Key<'_>, config: &ServiceConfig) -> Result<MoveRequest, Refusal> {
        let before = (!self.overwrites).then_some(Preconditions::NEW);
        MoveRequest::of_ends(from.clone(), self.to(from.as_str())?, before, config)
    }
}

/// The parameters of a change of a folder: none. What one is meant to select would be ignored, and all would go.
pub const OF_FOLDER: &Parameters = &Parameters {
    of: "a change of a folder",
    once: &[],
    many: &[],
    hint: "a folder is made, moved, copied and removed whole",
};

/// Whether Depth asks for all that is below a folder; `None` where it is not sent.
pub fn is_deep(headers: &HeaderMap) -> Result<Option<bool>, Refusal> {
    match only(headers, &DEPTH).map(HeaderValue::as_bytes) {
        Some(depth) if depth.eq_ignore_ascii_case(b"infinity") => Ok(Some(true)),
        Some(b"0" | b"1") => Ok(Some(false)),
        None if !headers.contains_key(&DEPTH) => Ok(None),
        _ => Err(FIELD.because("Depth is infinity, 0 or 1, once")),
    }
}

/// False where a value of the destination is to be left as it is.
pub fn overwrites(headers: &HeaderMap) -> Result<bool, Refusal> {
    if !headers.contains_key(OVERWRITE) {
        return Ok(true);
    }
    match only(headers, &OVERWRITE).map(HeaderValue::as_bytes) {
        Some(b"T") => Ok(true),
        Some(b"F") => Ok(false),
        _ => Err(FIELD.because("Overwrite is T or F")),
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
    preconditions_of_write(&meant)
}

/// The URL of this server that Destination is.
pub fn destination(head: &Parts, client: Client, config: &ServiceConfig) -> Result<Uri, Refusal> {
    let text = only(&head.headers, &DESTINATION).ok_or_else(no_destination)?;
    let text = text.to_str().map_err(|_| no_destination())?.trim();
    let uri: Uri = match text.parse() {
        Ok(uri) if !text.contains(['#', '?']) => uri,
        _ => return Err(no_destination()),
    };
    // The client has the address that the proxy has, of which the server is only a part.
    let below = client.forwarded_prefix(&head.headers).map(|prefix| {
        let below = uri.path().strip_prefix(prefix);
        below.filter(|path| path.starts_with('/'))
    });
    let below = match uri.scheme() {
        // Without the prefix it is a path of this server, as from a client that knows of the proxy.
        None if text.starts_with('/') => below.flatten(),
        None => return Err(no_destination()),
        Some(scheme) => {
            let port = match scheme {
                scheme if *scheme == Scheme::HTTP => "80",
                scheme if *scheme == Scheme::HTTPS => "443",
                _ => return Err(elsewhere()),
            };
            let authority = uri.authority().map_or("", |it| it.as_str());
            if !is_ours((authority, port), head, client, config) {
                return Err(elsewhere());
            }
            below.map(|path| path.ok_or_else(elsewhere)).transpose()?
        }
    };
    match below {
        Some(path) => path.parse().map_err(|_| no_destination()),
        None => Ok(uri),
    }
}

/// True for an `authority` by which this server is asked, or may be asked at the same port. Where it has no port, this
/// one is meant.
fn is_ours(
    (authority, port): (&str, &str),
    head: &Parts,
    client: Client,
    config: &ServiceConfig,
) -> bool {
    let parts = |text| {
        let (host, given) = host_and_port(text)?;
        let port = match given {
            "" | ":" => port,
            given => given.strip_prefix(':')?,
        };
        Some((host, port))
    };
    let Some((host, port)) = parts(authority) else {
        return false;
    };
    let field = |name| only(&head.headers, name)?.to_str().ok();
    let target = head.uri.authority().map(Authority::as_str);
    let by_proxy = client.forwarded_host(&head.headers);
    let asked = [target, field(&HOST), by_proxy];
    // In HTTP/1 a target in absolute form has the last word, in HTTP/2 all are.
    let asked = asked.into_iter().flatten().filter_map(parts);
    let is_named = config.allowed.hosts.has(authority.as_bytes());
    asked.into_iter().any(|(asked, of)| {
        of == port && (is_named || (asked.eq_ignore_ascii_case(host) && !host.is_empty()))
    })
}

/// The refusal of a path that is no key: of a folder, one of its own.
fn of_no_key(why: Refusal, path: &str) -> Refusal {
    let is_folder = || why.kind == BAD_KEY && matches!(folder(path), Ok(Some(_)));
    if (why == NO_SUCH_PATH && path == "/") || is_folder() {
        return mixed();
    }
    why
}
