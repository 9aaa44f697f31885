//! By which names this server may be asked, and whether a page that asks is one of its own.
//!
//! A page of another origin reaches a server on the loopback address or behind a firewall through the browser of a user
//! inside. It may use its own name, pointed to this address (DNS rebinding): then Host shows it. Or it uses a name of this
//! server: then Origin shows it.

use std::cell::RefCell;
use std::net::IpAddr;

/// The names that a request may give in Host.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    any: bool,
    is_listed: bool,
    names: Vec<String>,
    addresses: Vec<IpAddr>,
    /// The authority that was allowed last: clients ask for the same one again and again.
    last: RefCell<Vec<u8>>,
}

/// A text that is no host.
#[derive(Debug, thiserror::Error)]
#[error("no host name or address (without scheme, port and path), and not '*'")]
pub struct BadName;

impl Hosts {
    /// Adds `name` to those of the loopback network: a host name or an address; `*` is any. Whether there is a dot at its
    /// end makes no difference.
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

    /// Adds the name by which the server itself was told to listen; what is no name is in no Host either.
    pub fn add_own(&mut self, name: &str) {
        let is_listed = self.is_listed;
        let _ = self.add(name);
        self.is_listed = is_listed;
    }

    /// Whether a request may ask for `authority`, a valid `uri-host [ ":" port ]`. Any port will do: it is the name that
    /// the owner of another site can point here. An empty one names no host. Unless names were given, any will do on a
    /// listener that is not on the loopback network: only its operator knows them.
    pub fn allow(&self, authority: &[u8], by_loopback: bool) -> bool {
        let takes_any = self.any || !(self.is_listed || by_loopback);
        if takes_any || authority.is_empty() || self.was_last(authority) {
            return true;
        }
        let is_allowed = self.has(authority);
        if is_allowed {
            authority.clone_into(&mut self.last.borrow_mut());
        }
        is_allowed
    }

    /// Whether `authority` is the one that was allowed last, byte for byte: then it is valid.
    pub fn was_last(&self, authority: &[u8]) -> bool {
        *self.last.borrow() == authority
    }

    fn has(&self, authority: &[u8]) -> bool {
        let Ok(host) = std::str::from_utf8(host(authority)) else {
            return false;
        };
        if let Ok(address) = host.parse::<IpAddr>() {
            let address = address.to_canonical();
            return address.is_loopback() || self.addresses.contains(&address);
        }
        let own = self.names.iter().map(String::as_str);
        own.chain(["localhost"])
            .any(|name| name.eq_ignore_ascii_case(without_dot(host)))
    }
}

/// Whether `origin` is that of the pages of `host`. By TLS these are of https alone: a page of http may come from any machine
/// on the way. Without it the scheme may be either, for a proxy may stand before this server.
pub fn is_own(origin: &[u8], host: &[u8], by_tls: bool) -> bool {
    let schemes = [&b"https://"[..], b"http://"];
    schemes[..if by_tls { 1 } else { 2 }]
        .iter()
        .filter_map(|scheme| origin.strip_prefix(*scheme))
        .any(|authority| !host.is_empty() && authority.eq_ignore_ascii_case(host))
}

/// The host in a valid authority, without its brackets.
pub fn host(authority: &[u8]) -> &[u8] {
    let end = |mark| authority.iter().position(|&b| b == mark);
    match authority.strip_prefix(b"[") {
        Some(literal) => &literal[..end(b']').map_or(literal.len(), |end| end - 1)],
        None => &authority[..end(b':').unwrap_or(authority.len())],
    }
}

fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

pub fn is_of_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-._".contains(&b)
}

#[cfg(test)]
mod tests {
    use crate::http::head::hosts::*;

    #[test]
    fn the_loopback_network_and_what_was_named_are_allowed_with_any_port_and_spelling() {
        let mut hosts = Hosts::default();
        for name in ["store.example", "192.0.2.1", "[2001:db8::1]"] {
            hosts.add(name).unwrap();
        }
        for good in [
            "",
            "localhost",
            "LOCALHOST:8080",
            "localhost.",
            "localhost.:80",
            "127.0.0.1",
            "127.255.0.9:1",
            "[::1]",
            "[::1]:8080",
            "[0:0:0:0:0:0:0:1]",
            "[::ffff:127.0.0.1]",
            "store.example",
            "Store.Example.:443",
            "192.0.2.1:80",
            "[2001:DB8:0::1]:80",
        ] {
            assert!(hosts.allow(good.as_bytes(), true), "{good}");
        }
        for bad in [
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "evil-localhost",
            "127.0.0.1.evil.example",
            "127.0.0.1.",
            "127.1",
            "2130706433",
            "128.0.0.1",
            "0.0.0.0",
            "[::2]",
            "[::]",
            "192.0.2.2",
            "a.store.example",
            "store.example..",
            ".",
        ] {
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
            assert_eq!(
                hosts.allow(b"evil.example", by_loopback),
                allowed,
                "{given} {own} {by_loopback}"
            );
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
        for bad in [
            "", "a:80", "http://a", "a/b", "[::1]:80", "a b", "*.a", "[a]", "\u{e9}",
        ] {
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
            assert!(
                is_own(origin.as_bytes(), host.as_bytes(), false),
                "{origin}"
            );
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
            assert!(
                !is_own(origin.as_bytes(), host.as_bytes(), false),
                "{origin}"
            );
        }
    }
}
