//! The head of a request: its framing, its target, and the fields that each request may have.
//!
//! One pass over the fields finds what is wrong with them, and whether there is more to read in them. Refuses what
//! hyper lets pass: a Host that is missing, doubled or malformed, or that is not on the list. The framing was decided
//! before.

pub mod accept;
pub mod allowlists;
pub mod chunks;
pub mod client;
pub mod encode;
pub mod framing;
pub mod names;
pub mod path;
pub mod query;
pub mod range;
pub mod syntax;
pub mod unread;

use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST,
    HeaderMap, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE, ORIGIN,
    RANGE, TRANSFER_ENCODING, USER_AGENT,
};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode, Version};

use crate::http::head::allowlists::{Hosts, NotAllowlisted, is_authority, is_own};
use crate::http::head::client::Client;
use crate::http::head::names::{
    AuthorizationFields, REQUEST_ID, UPLOAD_COMPLETE, WANT_REPR_DIGEST, is_of_store,
};
use crate::http::head::syntax::{FramingError, MAX_FIELDS, has_member};
use crate::http::refusal::Refusal;
use crate::http::refusal::kind::{Flag, Kind};

const BAD_HOST: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "bad-host").flags(&[Flag::Closes]);
const BAD_TARGET: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "bad-target").flags(&[Flag::Closes]);
const EXPECTATION: &Kind = &Kind::new(StatusCode::EXPECTATION_FAILED, "expectation");

/// Fetch Metadata: the relation of the page to this server, from browsers that send it.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The findings of one pass over the fields; most requests have no field that needs a second one.
#[derive(Debug, Default)]
pub struct CommonHeaders<'a> {
    /// The number of different names in Host, and the last of them.
    hosts: usize,
    host: &'a [u8],
    lengths: usize,
    pub presented: AuthorizationFields<'a>,
    origin: Option<&'a [u8]>,
    /// Sec-Fetch-Site says that the page is of another origin.
    is_site_foreign: Option<bool>,
    has_unknown_expectation: bool,
    /// There are preconditions, ranges or a wanted digest.
    pub has_read_conditions: bool,
    /// There is an Accept-Encoding.
    pub codings_accepted: bool,
    /// Accept names problem+json.
    pub wants_problem_json: bool,
    /// Accept begins as that of a browser that opens an address.
    pub by_browser: bool,
    /// There is an X-Request-Id.
    pub has_request_id: bool,
    /// The client wants no further response on this connection.
    pub wants_close: bool,
    /// There is an Upload-Complete.
    pub resumable: bool,
    /// There are fields that only clients of other stores send.
    pub of_store: bool,
    /// There may be a field that affects how a value is stored.
    pub has_stored_fields: bool,
}

impl<'a> CommonHeaders<'a> {
    pub fn of(head: &'a Parts) -> Self {
        let mut common = Self::default();
        for (name, value) in &head.headers {
            common.note(name, value.as_bytes());
        }
        // The authority of HTTP/2 replaces the field, or equals it (RFC 9113, section 8.3.1).
        let authority = head.uri.authority().map(|it| it.as_str().as_bytes());
        if head.version == Version::HTTP_2
            && let Some(authority) = authority
            && (common.hosts == 0 || !common.host.eq_ignore_ascii_case(authority))
        {
            common.hosts += 1;
            common.host = authority;
        }
        common
    }

    fn note(&mut self, name: &HeaderName, value: &'a [u8]) {
        match *name {
            HOST => {
                self.hosts += 1;
                self.host = value;
            }
            EXPECT => self.has_unknown_expectation |= !value.eq_ignore_ascii_case(b"100-continue"),
            IF_MATCH | IF_NONE_MATCH | IF_MODIFIED_SINCE | IF_UNMODIFIED_SINCE | RANGE => {
                self.has_read_conditions = true;
                self.has_stored_fields = true;
            }
            CONTENT_LENGTH => self.lengths += 1,
            TRANSFER_ENCODING | USER_AGENT => {}
            AUTHORIZATION => self.presented = self.presented.and(value),
            ORIGIN => self.origin = Some(value),
            CONNECTION => self.wants_close |= has_member(value, "close"),
            ACCEPT_ENCODING => self.codings_accepted = true,
            ACCEPT => {
                self.wants_problem_json |= value.windows(12).any(|w| w == b"problem+json");
                self.by_browser |= value.starts_with(b"text/html");
            }
            _ if *name == SEC_FETCH_SITE => {
                let is_foreign = !matches!(value, b"same-origin" | b"none");
                self.is_site_foreign = Some(is_foreign || self.is_site_foreign == Some(true));
            }
            _ => {
                self.has_read_conditions |= *name == WANT_REPR_DIGEST;
                self.has_request_id |= *name == REQUEST_ID;
                self.resumable |= *name == UPLOAD_COMPLETE;
                self.of_store |= is_of_store(name);
                self.has_stored_fields = true;
            }
        }
    }

    /// True for a request of a page of another origin, as far as the browser says so. Older browsers, and all browsers
    /// over plain HTTP from other machines, send only Origin.
    pub fn is_foreign(&self, client: Client, headers: &HeaderMap) -> bool {
        let is_foreign = |origin| !is_own(origin, self.host, client.by_https(headers));
        let by_origin = || self.origin.is_some_and(is_foreign);
        self.is_site_foreign.unwrap_or_else(by_origin)
    }

    /// The host that the client asks for, as it names it.
    pub fn host(&self) -> &'a [u8] {
        self.host
    }

    /// The page of another origin, for its refusal.
    pub fn unlisted(&self) -> NotAllowlisted {
        NotAllowlisted::origin(self.origin)
    }

    /// True where browsers trust the origin that the client asks for: by https, or on this machine (Secure Contexts,
    /// section 3.1).
    pub fn is_trustworthy(&self, headers: &HeaderMap, client: &Client) -> bool {
        client.by_https(headers) || Hosts::default().has(self.host)
    }

    /// Refuses a head that is invalid, or for another server.
    pub fn check(&self, head: &Parts, client: Client, hosts: &Hosts) -> Result<(), Refusal> {
        // The framing guard has counted the lines of HTTP/1.
        if head.headers.len() > MAX_FIELDS && fields(head) > MAX_FIELDS {
            return Err(FramingError::TooLarge.into());
        }
        // The framing guard refuses a second length of HTTP/1; in HTTP/2 both may be equal.
        if self.lengths > 1 {
            return Err(FramingError::Length.into());
        }
        // RFC 9112, section 3.2: an HTTP/1.1 request has exactly one Host, and it is a valid authority or empty.
        let is_known = hosts.was_last(self.host);
        let is_host_missing = self.hosts == 0 && head.version >= Version::HTTP_11;
        let is_valid =
            is_known || self.host.is_empty() || str::from_utf8(self.host).is_ok_and(is_authority);
        if is_host_missing || self.hosts > 1 || !is_valid {
            return Err(BAD_HOST.because("a request needs exactly one valid Host header"));
        }
        // Section 3.2.2: a target in absolute form has the last word. In HTTP/2 all are: it is the authority.
        let is_absolute = head.version < Version::HTTP_2 && head.uri.scheme().is_some();
        let target = head.uri.host().filter(|_| is_absolute);
        let asked = target.map_or(self.host, str::as_bytes);
        let is_allowed = is_known && target.is_none() || hosts.allow(asked, client.by_loopback);
        if !is_allowed {
            return Err(NotAllowlisted::host(asked).wrong_host());
        }
        if self.has_unknown_expectation {
            return Err(EXPECTATION.because("only Expect: 100-continue is supported"));
        }
        // Section 3.2.3 and 3.2.4: the other forms belong to CONNECT and OPTIONS.
        let is_asterisk = head.method == Method::OPTIONS && head.uri.path() == "*";
        if !head.uri.path().starts_with('/') && !is_asterisk && head.method != Method::CONNECT {
            return Err(BAD_TARGET.because("the target of a request is a path, as in GET /key"));
        }
        Ok(())
    }
}

/// The number of fields that HTTP/1.1 would have had: HTTP/2 may send the pairs of one Cookie as a field each (RFC
/// 9113, section 8.2.3).
fn fields(head: &Parts) -> usize {
    let all = head.headers.len();
    if head.version < Version::HTTP_2 {
        return all;
    }
    let cookies = head.headers.get_all(COOKIE).iter().count();
    all - cookies.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use crate::http::head::*;

    #[test]
    fn no_field_that_says_how_a_value_is_stored_is_passed_over() {
        let is_stored = |name| {
            let request = hyper::Request::builder().header(name, "x");
            let (head, ()) = request.body(()).unwrap().into_parts();
            CommonHeaders::of(&head).has_stored_fields
        };
        for name in
            "cache-control content-digest content-disposition content-encoding content-language \
            content-md5 content-range content-type if-match if-modified-since if-none-match \
            if-unmodified-since repr-digest trailer upload-complete x-delete-after x-delete-at x-oc-mtime"
                .split(' ')
        {
            assert!(is_stored(name), "{name}");
        }
        for name in "accept authorization content-length host user-agent".split(' ') {
            assert!(!is_stored(name), "{name}");
        }
    }
}
