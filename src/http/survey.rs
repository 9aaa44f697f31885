//! One look at the headers of a request: what is wrong with them, and whether there is more to read in them.
//!
//! Refuses what hyper lets pass: a Host that is missing, doubled or malformed, or that is not ours. Framing was decided before
//! (`head`).

use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CONNECTION, EXPECT, HOST, HeaderMap, HeaderName, IF_MATCH,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE, ORIGIN, RANGE,
};
use hyper::http::request::Parts;
use hyper::{Method, Version};

use super::digest_fields::WANT_REPR_DIGEST;
use super::hosts::{Hosts, is_own};
use super::identity::REQUEST_ID;
use super::refusal::Refusal;

/// Fetch Metadata: how the page that asks is related to this server, where a browser says so.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What one pass over the headers finds: most requests have few, and none that needs a closer look.
#[derive(Debug)]
pub(super) struct Survey<'a> {
    hosts: usize,
    host: &'a [u8],
    origin: Option<&'a [u8]>,
    /// What Sec-Fetch-Site says: the page that asks is of another origin.
    is_site_foreign: Option<bool>,
    is_host_valid: bool,
    is_expectation_met: bool,
    /// There are wishes, preconditions or ranges.
    pub(super) wishes: bool,
    /// There is an Accept-Encoding.
    pub(super) codings_accepted: bool,
    /// Accept names problem+json.
    pub(super) problem: bool,
    /// There is an X-Request-Id.
    pub(super) identified: bool,
    /// The connection ends with the answer.
    pub(super) closes: bool,
}

impl<'a> Survey<'a> {
    pub(super) fn of(headers: &'a HeaderMap) -> Self {
        let mut survey = Self {
            hosts: 0,
            host: b"",
            origin: None,
            is_site_foreign: None,
            is_host_valid: true,
            is_expectation_met: true,
            wishes: false,
            codings_accepted: false,
            problem: false,
            identified: false,
            closes: false,
        };
        for (name, value) in headers {
            survey.note(name, value.as_bytes());
        }
        survey
    }

    fn note(&mut self, name: &HeaderName, value: &'a [u8]) {
        match *name {
            HOST => {
                self.hosts += 1;
                self.host = value;
                self.is_host_valid &= value.is_empty() || is_authority(value);
            }
            EXPECT => self.is_expectation_met &= value.eq_ignore_ascii_case(b"100-continue"),
            IF_MATCH | IF_NONE_MATCH | IF_MODIFIED_SINCE | IF_UNMODIFIED_SINCE | RANGE => {
                self.wishes = true;
            }
            ORIGIN => self.origin = Some(value),
            CONNECTION => self.closes |= value.eq_ignore_ascii_case(b"close"),
            ACCEPT_ENCODING => self.codings_accepted = true,
            ACCEPT => self.problem |= value.windows(12).any(|w| w == b"problem+json"),
            _ if *name == SEC_FETCH_SITE => {
                let is_foreign = !matches!(value, b"same-origin" | b"none");
                self.is_site_foreign = Some(is_foreign || self.is_site_foreign == Some(true));
            }
            _ => {
                self.wishes |= *name == WANT_REPR_DIGEST;
                self.identified |= *name == REQUEST_ID;
            }
        }
    }

    /// Whether it is a page of another origin that asks, as far as the browser tells: older ones, and all of them where
    /// neither https nor the loopback network is between, tell by Origin alone.
    pub(super) fn is_foreign(&self) -> bool {
        let by_origin = || self.origin.is_some_and(|origin| !is_own(origin, self.host));
        self.is_site_foreign.unwrap_or_else(by_origin)
    }

    pub(super) fn check(&self, head: &Parts, hosts: &Hosts) -> Result<(), Refusal> {
        // RFC 9112, section 3.2: an HTTP/1.1 request has exactly one Host, and it is a valid authority or empty.
        let is_host_missing = self.hosts == 0 && head.version >= Version::HTTP_11;
        if is_host_missing || self.hosts > 1 || !self.is_host_valid {
            return Err(Refusal::BadHost);
        }
        // Section 3.2.2: a target in absolute form has the last word.
        let target = head.uri.scheme().and_then(|_| head.uri.host());
        if !hosts.allow(target.map_or(self.host, str::as_bytes)) {
            return Err(Refusal::WrongHost);
        }
        if !self.is_expectation_met {
            return Err(Refusal::Expectation);
        }
        // Section 3.2.3 and 3.2.4: the other forms belong to CONNECT and OPTIONS.
        let is_asterisk = head.method == Method::OPTIONS && head.uri.path() == "*";
        if !head.uri.path().starts_with('/') && !is_asterisk && head.method != Method::CONNECT {
            return Err(Refusal::BadTarget);
        }
        Ok(())
    }
}

/// `uri-host [ ":" port ]` (RFC 3986, section 3.2), the host by its bytes alone.
pub(super) fn is_authority(host: &[u8]) -> bool {
    let (name, port) = match host.strip_prefix(b"[") {
        Some(literal) => match literal.iter().position(|&b| b == b']') {
            Some(end) => (&literal[..end], &literal[end + 1..]),
            None => return false,
        },
        None => host.split_at(host.iter().position(|&b| b == b':').unwrap_or(host.len())),
    };
    let is_literal = host.starts_with(b"[");
    let is_name = |b: &u8| {
        b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(b) || (is_literal && *b == b':')
    };
    let is_port = port.is_empty() || (port[0] == b':' && port[1..].iter().all(u8::is_ascii_digit));
    !name.is_empty() && name.iter().all(is_name) && is_port
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_a_literal_with_an_optional_port() {
        for good in [
            "a",
            "a:80",
            "a:",
            "127.0.0.1:8080",
            "[::1]",
            "[::1]:80",
            "xn--e1a",
            "a_b",
        ] {
            assert!(is_authority(good.as_bytes()), "{good}");
        }
        for bad in [
            ":80", "a:80:80", "[::1", "[::1]x", "[]", "a b", "a/b", "u@a", "a:b", "\u{e9}",
        ] {
            assert!(!is_authority(bad.as_bytes()), "{bad}");
        }
    }
}
