//! The origins whose pages may use this server.
//!
//! Pure. A browser writes an origin in one way (RFC 6454, section 6.2; the WHATWG's URL and HTML standards): what is spelled
//! otherwise would match no request, so it is not taken.

use std::net::Ipv6Addr;

use crate::http::head::hosts::is_of_name;

/// Origins that were named.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    any: bool,
    names: Vec<String>,
}

/// A text that no browser sends as an Origin.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadOrigin {
    /// There is an origin in it.
    #[error("no browser spells an origin so; write {0}")]
    Spelling(String),
    /// There is none.
    #[error(
        "no origin; write scheme, host and port as browsers do, such as https://app.example or http://localhost:3000 \
         (a pattern is none, but '*' alone is any origin)"
    )]
    None,
}

impl Origins {
    /// Adds an origin; `*` is any, `null` that of pages that have none.
    pub fn add(&mut self, origin: &str) -> Result<(), BadOrigin> {
        match origin {
            "*" => self.any = true,
            "null" => self.names.push(origin.to_owned()),
            _ => {
                let spelled = serialized(origin).ok_or(BadOrigin::None)?;
                if spelled != origin {
                    return Err(BadOrigin::Spelling(spelled));
                }
                self.names.push(spelled);
            }
        }
        Ok(())
    }

    /// Whether none was named.
    pub fn is_empty(&self) -> bool {
        !self.any && self.names.is_empty()
    }

    /// Whether pages of `origin` may use this server.
    pub fn allow(&self, origin: &[u8]) -> bool {
        self.any || self.names.iter().any(|name| name.as_bytes() == origin)
    }
}

/// The origin of `url`, as a browser writes it; without a scheme, https is meant.
pub fn serialized(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let scheme = scheme.to_ascii_lowercase();
    let is_of_scheme = |b: u8| b.is_ascii_alphanumeric() || b"+-.".contains(&b);
    if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.bytes().all(is_of_scheme) {
        return None;
    }
    let (host, port) = host_and_port(authority)?;
    let default = match &*scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    };
    let port = port.filter(|&port| Some(port) != default);
    let port = port.map_or_else(String::new, |port| format!(":{port}"));
    Some(format!("{scheme}://{host}{port}"))
}

/// The host in its one spelling, and the port if there is one.
fn host_and_port(authority: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = if let Some(literal) = authority.strip_prefix('[') {
        let (literal, port) = literal.split_once(']')?;
        (format!("[{}]", literal.parse::<Ipv6Addr>().ok()?), port)
    } else {
        let (name, port) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
        let is_name = !name.is_empty() && name.bytes().all(is_of_name);
        (is_name.then(|| name.to_ascii_lowercase())?, port)
    };
    let digits = match port {
        "" | ":" => return Some((host, None)),
        _ => port.strip_prefix(':')?,
    };
    let is_number = digits.bytes().all(|b| b.is_ascii_digit());
    Some((host, Some(digits.parse().ok().filter(|_| is_number)?)))
}

#[cfg(test)]
mod tests {
    use crate::http::head::origins::*;
    use proptest::prelude::*;

    #[test]
    fn an_origin_is_taken_as_browsers_write_it() {
        let mut origins = Origins::default();
        assert!(origins.is_empty());
        for good in [
            "https://app.example",
            "http://localhost:3000",
            "https://xn--caf-dma.example:8443",
            "http://127.0.0.1:8080",
            "http://[2001:db8::1]:8080",
            "chrome-extension://aapbdbdomjkkjkaonfhkkikfgjllcleb",
            "tauri://localhost",
            "null",
        ] {
            assert_eq!(origins.add(good), Ok(()), "{good}");
            assert!(origins.allow(good.as_bytes()));
        }
        assert!(!origins.is_empty() && !origins.allow(b"https://evil.example"));
        origins.add("*").unwrap();
        assert!(origins.allow(b"https://evil.example"));
    }

    #[test]
    fn another_spelling_is_refused_with_the_right_one() {
        for (given, right) in [
            ("https://a.b/", "https://a.b"),
            ("a.b", "https://a.b"),
            ("a.b:8080", "https://a.b:8080"),
            ("https://a.b/page?x#y", "https://a.b"),
            ("HTTPS://A.B", "https://a.b"),
            ("https://a.b:443", "https://a.b"),
            ("http://a.b:80/", "http://a.b"),
            ("http://a.b:443/", "http://a.b:443"),
            ("http://a.b:", "http://a.b"),
            ("http://a.b:08080", "http://a.b:8080"),
            ("http://[0:0::1]", "http://[::1]"),
            ("NULL", "https://null"),
        ] {
            let added = Origins::default().add(given);
            assert_eq!(added, Err(BadOrigin::Spelling(right.into())), "{given}");
            assert!(added.unwrap_err().to_string().ends_with(right));
        }
    }

    #[test]
    fn what_holds_no_origin_is_refused() {
        for bad in [
            "",
            "https://",
            "://a.b",
            "https:///a.b",
            "https://*.a.b",
            "https://user@a.b",
            "https://a.b:x",
            "https://a.b:65536",
            "https://[::1",
            "https://[a.b]",
            "https://a b",
            "https://caf\u{e9}.example",
            "file:///",
            "https://a.b https://c.d",
        ] {
            let added = Origins::default().add(bad);
            assert_eq!(added, Err(BadOrigin::None), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_advised_is_taken(given in "([a-zA-Z]{1,5}://)?([a-zA-Z.-]{1,9}|\\[::1\\])(:[0-9]{0,5})?[ -~]{0,4}") {
            if let Err(BadOrigin::Spelling(right)) = Origins::default().add(&given) {
                prop_assert_eq!(Origins::default().add(&right), Ok(()));
            }
        }
    }
}
