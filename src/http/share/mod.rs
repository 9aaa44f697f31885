//! Requests for links to share: a POST to `/key?share=1h` asks for a signed link by which others may read the value of
//! this key for that time; to `/folder/?share=1h`, all that is below the folder, or with `hand-in` put files there.
//! Pure; [`sign`] answers it.
//!
//! The address of a link has the names by which the client asked, and only the client gets it.

pub mod sign;

use crate::http::refusal::Refusal;
use crate::http::refusal::kind::{Flag, Kind};
use hyper::{Method, StatusCode};
use std::time::Duration;

use humantime::{format_duration, parse_duration};
use hyper::header::HOST;
use hyper::http::request::Parts;
use hyper::http::uri::Authority;

use crate::access::{LinkKind, LinkTerms};
use crate::http::head::allowlists::is_authority;
use crate::http::head::client::Client;
use crate::http::head::query::{BAD_QUERY, Parameters, QueryFields};
use crate::http::head::syntax::only;
use crate::http::request::head::RequestHead;
use crate::http::service_config::ServiceConfig;

/// A request for a link to share.
#[derive(Debug)]
pub struct ShareRequest {
    /// The key, or the folder, whose name ends with `/` or is empty.
    pub of: String,
    pub kind: LinkKind,
    /// The time that the link is to last, if the client says it.
    pub lasts: Option<Duration>,
    /// The address of the server's root, as far as it is known, without a `/` at the end.
    pub base: String,
}

const NO_SHARE: &Kind = &Kind::new(StatusCode::FORBIDDEN, "no-share").flags(&[Flag::Audited]);

pub const NOT_OFFERED: Refusal = Refusal::new(
    NO_SHARE,
    "this server signs no links for you: that takes --links, or --access, and in its file `shares` of your subject, the name of a link key",
);

pub const NOT_COUNTED: Refusal = Refusal::new(
    NO_SHARE,
    "links of this link key do not count for this key: see its prefix and its subject",
);

const BAD_TIME: Refusal = Refusal::new(
    BAD_QUERY,
    "share is the time that a link lasts, a second or more, as share=1h or share=7d",
);

/// The refusal of a link that is to last longer than `most`.
pub fn too_long(most: Duration) -> Refusal {
    BAD_QUERY.because(format!("a link lasts at most {} here", written(most)))
}

/// The time as clients write it: whole days as `1d`, of which others would be months.
fn written(time: Duration) -> String {
    match time.as_secs() {
        secs if secs.is_multiple_of(86_400) => format!("{}d", secs / 86_400),
        _ => format_duration(time).to_string(),
    }
}

/// The name of the parameter that asks for a link.
const SHARE: &str = "share";

/// The name of the parameter by which a link to a folder is one to hand files in.
const HAND_IN: &str = "hand-in";

const NO_FOLDER: Refusal = Refusal::new(
    BAD_QUERY,
    "hand-in is of a link to a folder, as in POST /folder/?share=1h&hand-in",
);

/// The parameters of a request for a link.
pub const PARAMETERS: &Parameters = &Parameters {
    of: "a link to share",
    once: &[SHARE, HAND_IN],
    many: &[],
    hint: "it has share, as share=1h, and of a folder hand-in",
};

impl ShareRequest {
    /// The terms of the link, with this end.
    pub fn terms(&self, expires: u64) -> LinkTerms<'_> {
        LinkTerms {
            kind: self.kind,
            key: &self.of,
            expires,
            max: None,
        }
    }

    /// The request with this head, if it is one. What looks like one mistyped is refused: with the fields of an upload
    /// it would replace the value.
    pub fn of(asked: &RequestHead<'_>) -> Result<Option<Self>, Refusal> {
        let RequestHead {
            head,
            query,
            config,
            ..
        } = asked;
        if head.method != Method::POST || config.compat || !query.resembles(PARAMETERS) {
            return Ok(None);
        }
        let folder = asked.folder()?;
        let kind = match query.has(HAND_IN) {
            false => LinkKind::Read,
            true if folder.is_some() => LinkKind::Create,
            true => return Err(NO_FOLDER),
        };
        let of = match folder {
            Some(folder) => folder,
            None => asked.changed_key()?.as_str().to_owned(),
        };
        let (lasts, base) = (lasts(query)?, base(head, asked.client, config));
        let base = base.unwrap_or_default();
        Ok(Some(Self {
            of,
            kind,
            lasts,
            base,
        }))
    }
}

/// The time that the link of this query is to last, if it says it.
fn lasts(query: &QueryFields<'_>) -> Result<Option<Duration>, Refusal> {
    query.check_all(PARAMETERS)?;
    let lasts = query.get(SHARE).filter(|lasts| !lasts.is_empty());
    let lasts = lasts.map(parse_duration).transpose();
    let lasts = lasts.map_err(|_| BAD_TIME)?;
    if lasts.is_some_and(|lasts| lasts.as_secs() == 0) {
        return Err(BAD_TIME);
    }
    Ok(lasts)
}

/// The address at which the client has this server; a proxy says how it was asked. `None` where the client names no
/// host.
fn base(head: &Parts, client: Client, config: &ServiceConfig) -> Option<String> {
    let headers = &head.headers;
    let hosts = &config.allowed.hosts;
    let is_ours =
        |host: &&str| is_authority(host) && hosts.allow(host.as_bytes(), client.by_loopback);
    let target = head.uri.authority().map(Authority::as_str);
    let of_host = only(headers, &HOST).and_then(|host| host.to_str().ok());
    let names = [client.forwarded_host(headers), target, of_host];
    let host = names.into_iter().flatten().find(is_ours)?;
    let by_https = client.by_https(headers);
    let scheme = if by_https { "https" } else { "http" };
    let prefix = client.forwarded_prefix(headers).unwrap_or_default();
    Some(format!("{scheme}://{host}{prefix}"))
}
