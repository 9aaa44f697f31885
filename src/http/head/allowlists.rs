//! The names by which this server may be asked, and the origins whose pages may use it.
//!
//! A page of another origin reaches a server on the loopback address or behind a firewall through the browser of a user
//! inside. It may use its own name, pointed to this address (DNS rebinding): then Host shows it. Or it uses a name of
//! this server: then Origin shows it. A browser writes an origin in one way (RFC 6454, section 6.2; the WHATWG's URL
//! and HTML standards), and no other spelling is taken. A name that is on no list is reported in one line of visible
//! ASCII, of bounded length, whatever the client sent.

use crate::http::refusal::Refusal;
use crate::http::refusal::kind::{Flag, Kind};
use hyper::StatusCode;
use std::cell::RefCell;
use std::net::{IpAddr, Ipv6Addr};

/// The names and origins that may use the server: other web sites may not.
#[derive(Clone, Debug, Default)]
pub struct AllowLists {
    /// The names by which the server may be asked.
    pub hosts: Hosts,
    /// The origins whose pages may use it.
    pub origins: Origins,
}

/// The names that a request may give in Host.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    any: bool,
    is_listed: bool,
    names: Vec<String>,
    /// Names, each with all names below it.
    below: Vec<String>,
    addresses: Vec<IpAddr>,
    /// The authority that was allowed last: clients ask for the same one again and again.
    last: RefCell<Vec<u8>>,
}

/// The error of a text that is no host.
#[derive(Debug, thiserror::Error)]
#[error("no host name or address (without scheme, port and path), and not '*'")]
pub struct BadName;

impl Hosts {
    /// Adds `name`, a host name or an address, to the names of the loopback network; `*` is any. A dot at its end makes
    /// no difference.
    pub fn add(&mut self, name: &str) -> Result<(), BadName> {
        let literal = name
            .strip_prefix('[')
            .and_then(|literal| literal.strip_suffix(']'));
        if name == "*" {
            self.any = true;
        } else if let Ok(address) = literal.unwrap_or(name).parse::<IpAddr>() {
            self.addresses.push(address.to_canonical());
        } else if !name.is_empty() && name.bytes().all(is_of_name) {
            self.names.push(without_dot(name).to_owned());
        } else {
            return Err(BadName);
        }
        self.is_listed = true;
        Ok(())
    }

    /// Adds the name of the listen address. A text that is no name is in no Host either.
    pub fn add_own(&mut self, name: &str) {
        let is_listed = self.is_listed;
        let _ = self.add(name);
        self.is_listed = is_listed;
    }

    /// Adds `name`, a host name, and all names below it. It makes no list of what others may be asked for.
    pub fn add_below(&mut self, name: &str) -> Result<(), BadName> {
        if name.is_empty() || !name.bytes().all(is_of_name) {
            return Err(BadName);
        }
        self.below.push(without_dot(name).to_ascii_lowercase());
        Ok(())
    }

    /// True where a request may ask for `authority`, a valid `uri-host [ ":" port ]`, with any port: the owner of
    /// another site can point its name here, not its port. An empty one names no host. Unless names were given, any is
    /// allowed on a listener that is not on the loopback network: only its operator knows them.
    pub fn allow(&self, authority: &[u8], by_loopback: bool) -> bool {
        let takes_any = self.any || !(self.is_listed || by_loopback);
        if takes_any || authority.is_empty() {
            return true;
        }
        let is_allowed = self.has(authority);
        if is_allowed {
            authority.clone_into(&mut self.last.borrow_mut());
        }
        is_allowed
    }

    /// True for the authority that was allowed last, by its name and so on each listener: it is valid.
    pub fn was_last(&self, authority: &[u8]) -> bool {
        *self.last.borrow() == authority
    }

    /// True where `authority` has a name of this server, with any port.
    pub fn has(&self, authority: &[u8]) -> bool {
        let Some(host) = host(authority) else {
            return false;
        };
        if let Ok(address) = host.parse::<IpAddr>() {
            let address = address.to_canonical();
            return address.is_loopback() || self.addresses.contains(&address);
        }
        let (own, host) = (self.names.iter().map(String::as_str), without_dot(host));
        let is_below = |of: &String| {
            let host = host.to_ascii_lowercase();
            let above = host.strip_suffix(of);
            above.is_some_and(|label| label.is_empty() || label.ends_with('.'))
        };
        own.chain(["localhost"])
            .any(|name| name.eq_ignore_ascii_case(host))
            || self.below.iter().any(is_below)
    }
}

/// True for the `origin` of the pages of `host`. Where the client asked by https, it has that scheme: a page of http
/// may come from any machine on the way. Else it has either scheme, for a proxy that says nothing may stand before this
/// server.
pub fn is_own(origin: &[u8], host: &[u8], by_https: bool) -> bool {
    let is_of = |scheme: &[u8]| {
        let authority = origin.strip_prefix(scheme);
        authority.is_some_and(|it| !host.is_empty() && it.eq_ignore_ascii_case(host))
    };
    is_of(b"https://") || (!by_https && is_of(b"http://"))
}

/// The host in an authority, without its brackets, and the port with its colon, where there is one.
pub fn host_and_port(authority: &str) -> Option<(&str, &str)> {
    match authority.strip_prefix('[') {
        Some(literal) => literal.split_once(']'),
        None => Some(authority.split_at(authority.find(':').unwrap_or(authority.len()))),
    }
}

/// True for `uri-host [ ":" port ]` (RFC 3986, section 3.2) with a host that is not empty, by its bytes alone, and a
/// port that there is, or an empty one.
pub fn is_authority(text: &str) -> bool {
    let Some((name, port)) = host_and_port(text) else {
        return false;
    };
    let is_literal = text.starts_with('[');
    let is_name = |b: u8| {
        b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(&b) || (b == b':' && is_literal)
    };
    let is_port = match port.strip_prefix(':') {
        None => port.is_empty(),
        Some("") => true,
        // A sign before the digits would be parsed, too.
        Some(digits) => !digits.starts_with('+') && digits.parse::<u16>().is_ok(),
    };
    !name.is_empty() && name.bytes().all(is_name) && is_port
}

/// The host in a valid authority, without its brackets.
fn host(authority: &[u8]) -> Option<&str> {
    let authority = std::str::from_utf8(authority).ok()?;
    host_and_port(authority).map(|(host, _)| host)
}

fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

fn is_of_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-._".contains(&b)
}

/// The origins that were named.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    any: bool,
    names: Vec<String>,
}

/// The error of a text that no browser sends as an Origin.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadOrigin {
    /// The text is an origin in another spelling.
    #[error("no browser spells an origin so; write {0}")]
    Spelling(String),
    /// The text is no origin.
    #[error(
        "no origin; write scheme, host and port as browsers do, such as https://app.example or http://localhost:3000 \
         (a pattern is none, but '*' alone is any origin)"
    )]
    None,
}

impl Origins {
    /// Adds an origin; `*` is any, and `null` stands for pages that have none.
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

    /// True where none was named.
    pub fn is_empty(&self) -> bool {
        !self.any && self.names.is_empty()
    }

    /// True where pages of `origin` may use this server.
    pub fn allow(&self, origin: &[u8]) -> bool {
        self.any || self.has(origin)
    }

    /// True where pages of `origin` may use what a browser sends by itself: the origin was named. As in the Fetch
    /// standard (section 3.3.5) `*` is not enough, nor is `null`, which the pages of any site can have.
    pub fn trust(&self, origin: &[u8]) -> bool {
        origin != b"null" && self.has(origin)
    }

    fn has(&self, origin: &[u8]) -> bool {
        self.names.iter().any(|name| name.as_bytes() == origin)
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
    let is_name = !host.is_empty() && host.bytes().all(is_of_name);
    let host = if authority.starts_with('[') {
        format!("[{}]", host.parse::<Ipv6Addr>().ok()?)
    } else {
        is_name.then(|| host.to_ascii_lowercase())?
    };
    let port = match port {
        "" | ":" => String::new(),
        _ => {
            let digits = port.strip_prefix(':')?;
            let is_number = digits.bytes().all(|b| b.is_ascii_digit());
            match (&*scheme, digits.parse::<u16>().ok().filter(|_| is_number)?) {
                ("http", 80) | ("https", 443) => String::new(),
                (_, port) => format!(":{port}"),
            }
        }
    };
    Some(format!("{scheme}://{host}{port}"))
}

/// The longest name that is reported whole, in bytes; longer names end in dots.
const SHOWN: usize = 100;

/// A host or an origin that is on no list, and the option that would allow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAllowlisted {
    /// As it was sent.
    pub seen: Box<str>,
    /// The option that would add it.
    pub remedy: Box<str>,
}

const WRONG_HOST: &Kind =
    &Kind::new(StatusCode::MISDIRECTED_REQUEST, "wrong-host").flags(&[Flag::Logged]);
const CROSS_SITE: &Kind =
    &Kind::new(StatusCode::FORBIDDEN, "cross-site").flags(&[Flag::Audited, Flag::Logged]);

impl NotAllowlisted {
    /// The refusal of a request for this host.
    pub fn wrong_host(self) -> Refusal {
        let Self { seen, remedy } = self;
        WRONG_HOST.because(format!(
            "this server does not go by the name {seen} in Host; the option {remedy}"
        ))
    }

    /// The refusal of a change by a page of this origin.
    pub fn cross_site(self) -> Refusal {
        let Self { seen, remedy } = self;
        CROSS_SITE.because(format!(
            "pages of {seen} may change nothing here; the option {remedy}"
        ))
    }

    /// The host of a request, with or without a port.
    pub fn host(authority: &[u8]) -> Self {
        let name = host(authority).filter(|name| name.len() <= SHOWN);
        let name = name.filter(|name| Hosts::default().add(name).is_ok());
        let remedy = name.map_or("--allowed-host adds one".to_owned(), |name| {
            format!("--allowed-host {name} adds it")
        });
        Self {
            seen: quoted(authority).into(),
            remedy: remedy.into(),
        }
    }

    /// The origin of a page, where the browser sends it.
    pub fn origin(origin: Option<&[u8]>) -> Self {
        let text = origin.and_then(|origin| std::str::from_utf8(origin).ok());
        // Not `null`: pages of any site can have that.
        let named = text.filter(|text| text.len() <= SHOWN && text.contains("://"));
        let named = named.and_then(serialized);
        let remedy = named.map_or("--cors-origin lets those of one".to_owned(), |named| {
            format!("--cors-origin {named} lets them")
        });
        Self {
            seen: origin.map_or("other origins".to_owned(), quoted).into(),
            remedy: remedy.into(),
        }
    }
}

/// `bytes` of a client, in quotes.
fn quoted(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(SHOWN)];
    let dots = if shown.len() < bytes.len() { "..." } else { "" };
    format!("\"{}{dots}\"", shown.escape_ascii())
}

#[cfg(test)]
mod tests {
    use crate::http::head::allowlists::*;
    use proptest::prelude::*;

    #[test]
    fn an_authority_is_one_host_with_a_port_or_without() {
        for good in
            "a a: a.example:1 a:65535 a:080 127.0.0.1:80 [::1] [::1]:80 xn--e1a a_b a,b".split(' ')
        {
            assert!(is_authority(good), "{good}");
        }
        for bad in "|:80|a:65536|a:+80|a:b|a:1:2|a, b|u@a|a/b|a b|[::1|[]|[::1]80|\u{e9}".split('|')
        {
            assert!(!is_authority(bad), "{bad}");
        }
    }

    #[test]
    fn the_loopback_network_and_what_was_named_are_allowed_with_any_port_and_spelling() {
        let mut hosts = Hosts::default();
        for name in ["store.example", "192.0.2.1", "[2001:db8::1]"] {
            hosts.add(name).unwrap();
        }
        for good in "|localhost|LOCALHOST:8080|localhost.|localhost.:80|127.0.0.1|127.255.0.9:1|[::1]|\
            [::1]:8080|[0:0:0:0:0:0:0:1]|[::ffff:127.0.0.1]|store.example|Store.Example.:443|192.0.2.1:80|\
            [2001:DB8:0::1]:80".split('|') {
            assert!(hosts.allow(good.as_bytes(), true), "{good}");
        }
        for bad in "evil.example evil.example:8080 localhost.evil.example evil-localhost \
            127.0.0.1.evil.example 127.0.0.1. 127.1 2130706433 128.0.0.1 0.0.0.0 [::2] [::] 192.0.2.2 \
            a.store.example store.example.. .".split(' ') {
            assert!(!hosts.allow(bad.as_bytes(), true), "{bad}");
        }
        hosts.add("*").unwrap();
        assert!(hosts.allow(b"evil.example", true));
    }

    #[test]
    fn where_others_can_reach_the_server_any_name_is_allowed_unless_some_were_given() {
        for (given, own, by_loopback, allowed) in [
            ("", "localhost", true, false),
            ("", "store", true, false),
            ("", "::1", true, false),
            ("", "0.0.0.0", false, true),
            ("", "192.0.2.1", false, true),
            ("a.example", "0.0.0.0", false, false),
            ("*", "127.0.0.1", true, true),
        ] {
            let mut hosts = Hosts::default();
            assert_eq!(hosts.add(given).is_ok(), !given.is_empty());
            hosts.add_own(own);
            let found = hosts.allow(b"evil.example", by_loopback);
            assert_eq!(found, allowed, "{given} {own} {by_loopback}");
            if !own.contains(':') {
                assert!(hosts.allow(own.as_bytes(), by_loopback), "{own}");
            }
        }
    }

    #[test]
    fn a_name_comes_without_anything_else() {
        for good in ["*", "a", "a.b.", "a_b", "::1", "[::1]", "127.0.0.1"] {
            assert!(Hosts::default().add(good).is_ok(), "{good}");
        }
        for bad in "|a:80|http://a|a/b|[::1]:80|a b|*.a|[a]|\u{e9}".split('|') {
            assert!(Hosts::default().add(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_page_is_our_own_when_its_origin_has_our_name_and_port() {
        for (origin, host) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("https://Store.example", "store.example"),
            ("http://[::1]:80", "[::1]:80"),
        ] {
            let is_right = is_own(origin.as_bytes(), host.as_bytes(), false);
            assert!(is_right, "{origin}");
            let by_tls = is_own(origin.as_bytes(), host.as_bytes(), true);
            assert_eq!(by_tls, origin.starts_with("https"), "{origin}");
        }
        for (origin, host) in [
            ("http://127.0.0.1:8081", "127.0.0.1:8080"),
            ("http://localhost:8080", "127.0.0.1:8080"),
            ("http://a.evil.example", "a"),
            ("http://a@evil.example", "a"),
            ("null", "null"),
            ("http://", ""),
            ("", ""),
            ("ftp://a", "a"),
        ] {
            let holds = !is_own(origin.as_bytes(), host.as_bytes(), false);
            assert!(holds, "{origin}");
        }
    }

    #[test]
    fn an_origin_is_taken_as_browsers_write_it() {
        let mut origins = Origins::default();
        assert!(origins.is_empty());
        for good in "https://app.example http://localhost:3000 https://xn--caf-dma.example:8443 \
            http://127.0.0.1:8080 http://[2001:db8::1]:8080 \
            chrome-extension://aapbdbdomjkkjkaonfhkkikfgjllcleb tauri://localhost null"
            .split(' ')
        {
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
        for bad in "|https://|://a.b|https:///a.b|https://*.a.b|https://user@a.b|https://a.b:x|\
            https://a.b:65536|https://[::1|https://[a.b]|https://a b|https://caf\u{e9}.example|file:///|\
            https://a.b https://c.d".split('|') {
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

    #[test]
    fn a_host_is_named_with_the_option_that_adds_it() {
        for (authority, name) in [
            ("store.example:8080", "store.example"),
            ("a_b.", "a_b."),
            ("[2001:db8::1]:80", "2001:db8::1"),
        ] {
            let unlisted = NotAllowlisted::host(authority.as_bytes());
            assert_eq!(*unlisted.seen, format!("\"{authority}\""));
            assert_eq!(*unlisted.remedy, format!("--allowed-host {name} adds it"));
        }
        for odd in ["$(reboot)", "a;b", "%41"] {
            let unlisted = NotAllowlisted::host(odd.as_bytes());
            assert_eq!(&*unlisted.remedy, "--allowed-host adds one", "{odd}");
        }
    }

    #[test]
    fn an_origin_is_named_with_the_option_that_lets_it() {
        let unlisted = NotAllowlisted::origin(Some(b"https://a.example"));
        assert_eq!(&*unlisted.seen, "\"https://a.example\"");
        assert_eq!(
            &*unlisted.remedy,
            "--cors-origin https://a.example lets them"
        );
        assert_eq!(&*NotAllowlisted::origin(None).seen, "other origins");
        for odd in [&b"null"[..], b"", b"x", b"\xff"] {
            let unlisted = NotAllowlisted::origin(Some(odd));
            assert_eq!(&*unlisted.remedy, "--cors-origin lets those of one");
        }
    }

    proptest! {
        #[test]
        fn whatever_was_sent_is_one_short_line(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            for NotAllowlisted { seen, remedy } in [NotAllowlisted::host(&bytes), NotAllowlisted::origin(Some(&bytes))] {
                prop_assert!(seen.len() + remedy.len() < 5 * SHOWN + 50);
                prop_assert!(seen.bytes().chain(remedy.bytes()).all(|b| matches!(b, b' '..=b'~')));
            }
        }
    }
}
