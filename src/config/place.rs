//! A place to listen at, as it is typed: ADDRESS:PORT, `unix:PATH` or `fd:N`, behind what says that TLS or the PROXY protocol is spoken there.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use super::BadConfig;
use crate::net::{self, At, Listen};

/// The prefix of the path of a unix socket.
const UNIX: &str = "unix:";

/// The prefix of the number of a descriptor.
const FD: &str = "fd:";

/// Where `given` says to listen.
pub fn place(option: &'static str, given: &str) -> Result<Listen, BadConfig> {
    let proxied = without_proxy(given);
    let place = proxied.unwrap_or(given);
    let by_tls = without_https(place);
    Ok(Listen {
        at: at(option, given, by_tls.unwrap_or(place))?,
        by_tls: by_tls.is_some(),
        by_proxy: proxied.is_some(),
    })
}

/// `given` without what says that it is for a proxy, if that is there.
fn without_proxy(given: &str) -> Option<&str> {
    given.strip_prefix("proxy+")
}

/// `given` without what says that it is for TLS, if that is there.
fn without_https(given: &str) -> Option<&str> {
    given
        .strip_prefix("https+")
        .or_else(|| Some(without_slash(given.strip_prefix("https://")?)))
}

/// Where `place`, which was `given` with its scheme, is.
fn at(option: &'static str, given: &str, place: &str) -> Result<At, BadConfig> {
    let bad = |why: &str| {
        let (is_address, is_port) = (place.parse::<IpAddr>().is_ok(), is_number(place));
        let own_or = |is_own: bool, other: &str| if is_own { place } else { other }.to_owned();
        BadConfig::Address {
            option,
            given: given.to_owned(),
            why: match (is_address, is_port) {
                (true, _) => "an address without a port",
                (_, true) => "a port without an address",
                _ => why,
            }
            .to_owned(),
            address: own_or(is_address, "127.0.0.1"),
            port: own_or(is_port, "8080"),
        }
    };
    if let Some(path) = place.strip_prefix(UNIX) {
        let path = Some(path).filter(|path| !path.is_empty());
        let path = path.ok_or_else(|| bad("no path"))?;
        return Ok(At::Unix(path.into()));
    }
    if let Some(fd) = place.strip_prefix(FD) {
        let fd = fd.parse().ok().filter(|&fd| fd >= 3);
        let fd = fd.ok_or_else(|| bad("no descriptor from 3 on"))?;
        return Ok(At::Fd(fd));
    }
    let authority = authority(place);
    if let Some(port) = authority.strip_prefix(':').filter(|port| is_number(port)) {
        let port = port.parse().map_err(|_| bad("no such port"))?;
        let everywhere = SocketAddr::new(net::everywhere(), port);
        return Ok(At::Address(everywhere));
    }
    let addresses = authority.to_socket_addrs();
    let addresses = addresses.map_err(|error| bad(&error.to_string()))?;
    // One address of a name, IPv4 first, as in Go: Debian names ::1 localhost before 127.0.0.1, which clients try too.
    let address = addresses.min_by_key(SocketAddr::is_ipv6);
    address
        .map(At::Address)
        .ok_or_else(|| bad("no such address"))
}

/// The name or address in `given`, if there is one.
pub fn name(given: &str) -> Option<&str> {
    let place = without_proxy(given).unwrap_or(given);
    let place = without_https(place).unwrap_or(place);
    if place.starts_with(UNIX) || place.starts_with(FD) {
        return None;
    }
    Some(authority(place).rsplit_once(':')?.0)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `place` without its scheme.
fn authority(place: &str) -> &str {
    place.strip_prefix("http://").map_or(place, without_slash)
}

fn without_slash(authority: &str) -> &str {
    authority.strip_suffix('/').unwrap_or(authority)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_says_how_to_listen() {
        let address = || At::Address("127.0.0.1:80".parse().unwrap());
        let own = Some("127.0.0.1");
        for (given, at, by_tls, name) in [
            ("127.0.0.1:80", address(), false, own),
            ("http://127.0.0.1:80", address(), false, own),
            ("http://127.0.0.1:80/", address(), false, own),
            ("https://127.0.0.1:80/", address(), true, own),
            ("https+127.0.0.1:80", address(), true, own),
            ("unix:/run/a:b", At::Unix("/run/a:b".into()), false, None),
            ("https+unix:a", At::Unix("a".into()), true, None),
            ("fd:3", At::Fd(3), false, None),
            ("https+fd:4", At::Fd(4), true, None),
        ] {
            for by_proxy in [false, true] {
                let given = format!("{}{given}", if by_proxy { "proxy+" } else { "" });
                let at = at.clone();
                let expected = Listen {
                    at,
                    by_tls,
                    by_proxy,
                };
                assert_eq!(place("--listen", &given).unwrap(), expected, "{given}");
                assert_eq!(super::name(&given), name, "{given}");
            }
        }
        let ipv6 = place("--listen", "[::1]:80").unwrap();
        assert_eq!(ipv6.at, At::Address("[::1]:80".parse().unwrap()));
        for bad in [
            "unix:",
            "fd:2",
            "fd:",
            "fd:x",
            "http://",
            "https://",
            "https+",
            "https:127.0.0.1:80",
            "proxy+",
            "https+proxy+127.0.0.1:80",
            "proxy://127.0.0.1:80",
            "ftp://127.0.0.1:80",
            "127.0.0.1",
        ] {
            let refused = place("--listen", bad).unwrap_err().to_string();
            assert!(
                refused.starts_with(&format!("--listen {bad}: ")),
                "{refused}"
            );
        }
    }
}
