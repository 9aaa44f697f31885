//! The client of a request: the other end of its connection or, behind a trusted proxy, the address in Forwarded (RFC
//! 7239) or X-Forwarded-For. What else such a proxy says is read here alone.
//!
//! Promises that a client cannot speak for a trusted proxy: the fields are read from their end, to which each proxy
//! appends, and no further than to the first hop that is no trusted proxy.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use hyper::HeaderMap;
use hyper::header::{FORWARDED, HeaderName, HeaderValue};
use ipnet::{AddrParseError, IpNet};
use percent_encoding::percent_decode_str;

use crate::access::ClientSource;
use crate::http::head::allowlists::is_authority;
use crate::http::head::names::AuthorizationFields;
use crate::http::head::syntax::only;

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// An address, over TCP; its port is 0 where only a proxy knows it.
    Address(SocketAddr),
    /// A process of this machine, over a unix socket, as the kernel knew it when it connected.
    Process {
        /// Its user.
        uid: u32,
        /// Its number.
        pid: i32,
    },
}

impl Peer {
    /// The source that all connections of this peer share.
    pub fn source(&self) -> ClientSource {
        match self {
            Self::Address(address) => ClientSource::of(address.ip()),
            Self::Process { uid, .. } => ClientSource::User(*uid),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) if address.port() == 0 => address.ip().fmt(f),
            Self::Address(address) => address.fmt(f),
            Self::Process { uid, pid } => write!(f, "unix:uid={uid},pid={pid}"),
        }
    }
}

/// What is spoken where a client asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Door {
    /// Keys and values, by HTTP alone.
    #[default]
    Plain,
    /// `WebDAV`.
    Dav,
    /// The protocol of S3.
    S3,
}

impl Door {
    /// The doors beside the plain one, each with the word for it in front of a place to listen.
    const WORDS: &[(Self, &str)] = &[(Self::Dav, "dav+"), (Self::S3, "s3+")];

    /// The word for it; none for the plain one.
    pub fn word(self) -> &'static str {
        let found = Self::WORDS.iter().find(|(door, _)| *door == self);
        found.map_or("", |(_, word)| word)
    }

    /// The door at a `place` to listen, and the place behind the word for it.
    pub fn of(place: &str) -> (Self, &str) {
        let mut doors = Self::WORDS.iter();
        let found = doors.find_map(|(door, word)| Some((*door, place.strip_prefix(word)?)));
        found.unwrap_or((Self::Plain, place))
    }
}

/// The client of a request.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// The other end, or the client of a trusted proxy.
    pub peer: Peer,
    /// The other end is a trusted proxy, which also says how it was asked.
    pub by_trusted: bool,
    /// What is spoken on the connection.
    pub door: Door,
    /// The listener is on the loopback network, which the names of that network reach.
    pub by_loopback: bool,
    /// The connection is encrypted, by TLS.
    pub by_tls: bool,
    /// The version of TLS, once both sides have agreed on one.
    pub tls_version: Option<&'static str>,
}

impl Client {
    /// A client of which nothing is known but the other end.
    pub fn of(peer: Peer) -> Self {
        Self {
            peer,
            by_trusted: false,
            door: Door::Plain,
            by_loopback: false,
            by_tls: false,
            tls_version: None,
        }
    }

    /// The field `name` of a trusted proxy, by which it says how it was asked.
    pub fn forwarded<'h>(&self, name: &'static str, headers: &'h HeaderMap) -> Option<&'h str> {
        if !self.by_trusted {
            return None;
        }
        only(headers, &HeaderName::from_static(name))?.to_str().ok()
    }

    /// The user whom a trusted proxy has signed on, by this field.
    pub fn signed_on<'h>(
        &self,
        field: &HeaderName,
        headers: &'h HeaderMap,
    ) -> AuthorizationFields<'h> {
        let fields = headers.get_all(field).iter().filter(|_| self.by_trusted);
        let fields = fields.map(HeaderValue::as_bytes);
        fields.fold(AuthorizationFields::Nothing, AuthorizationFields::and)
    }

    /// True where the client asked by `https`, as far as the server knows: over TLS, or of a trusted proxy that says
    /// so.
    pub fn by_https(&self, headers: &HeaderMap) -> bool {
        let is_https = |scheme: &str| scheme.eq_ignore_ascii_case("https");
        let proto = || self.forwarded("x-forwarded-proto", headers);
        self.by_tls || proto().is_some_and(is_https)
    }

    /// The path that a trusted proxy has put in front of this server's, without a `/` at the end, if it is one that
    /// browsers and programs leave as it is.
    pub fn forwarded_prefix<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let prefix = self.forwarded("x-forwarded-prefix", headers)?;
        let prefix = prefix.trim_end_matches('/');
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~%".contains(&b);
        let is_segment = |segment: &str| {
            let decoded: Vec<u8> = percent_decode_str(segment).collect();
            !matches!(&decoded[..], b"" | b"." | b"..") && segment.bytes().all(is_plain)
        };
        let mut segments = prefix.strip_prefix('/')?.split('/');
        segments.all(is_segment).then_some(prefix)
    }

    /// The host that a trusted proxy was asked for, with its port where it names one.
    pub fn forwarded_host<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let host = self.forwarded("x-forwarded-host", headers);
        // A comma makes it a list, of the hosts that several proxies were asked for.
        let is_one = |host: &&str| is_authority(host) && !host.contains(',');
        host.filter(is_one).filter(|host| !host.ends_with(':'))
    }
}

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The trusted proxies.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies {
    nets: Vec<IpNet>,
    /// All peers on unix sockets.
    on_unix: bool,
}

/// The error of a field that is no list of hops, as far as it is read.
struct Malformed;

impl TrustedProxies {
    /// Adds a network or an address, or by `unix` all peers on unix sockets.
    pub fn add(&mut self, given: &str) -> Result<(), AddrParseError> {
        match given.parse::<IpAddr>() {
            _ if given == "unix" => self.on_unix = true,
            Ok(address) => self.nets.push(address.to_canonical().into()),
            Err(_) => self.nets.push(canonical(given.parse()?)),
        }
        Ok(())
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.nets.is_empty() && !self.on_unix
    }

    /// The client of a request with these fields, if `peer` is a trusted proxy. Where the two fields disagree, or one
    /// is malformed, it is the peer.
    pub fn client(&self, peer: Peer, headers: &HeaderMap) -> Option<Peer> {
        if !self.trust(peer) {
            return None;
        }
        let standard = self.first_untrusted(headers, &FORWARDED, |element| node(of_for(element)?));
        let usual = self.first_untrusted(headers, &X_FORWARDED_FOR, node);
        let ip = |address: SocketAddr| address.ip().to_canonical();
        let client = match (standard, usual) {
            (Ok(Some(one)), Ok(Some(other))) if ip(one) == ip(other) => Some(one),
            (Ok(client), Ok(None)) | (Ok(None), Ok(client)) => client,
            _ => None,
        };
        Some(client.map_or(peer, Peer::Address))
    }

    fn trust(&self, peer: Peer) -> bool {
        match peer {
            Peer::Address(of) => {
                let ip = of.ip().to_canonical();
                self.nets.iter().any(|net| net.contains(&ip))
            }
            Peer::Process { .. } => self.on_unix,
        }
    }

    /// The last hop of a field that is no trusted proxy, or the first of all, if there is a hop.
    fn first_untrusted(
        &self,
        headers: &HeaderMap,
        name: &HeaderName,
        hop: impl Fn(&str) -> Option<SocketAddr>,
    ) -> Result<Option<SocketAddr>, Malformed> {
        let mut client = None;
        let values = headers.get_all(name).iter().rev();
        // A comma within quotes cuts them apart, which makes both pieces malformed.
        let elements = values.flat_map(|value| HeaderValue::as_bytes(value).rsplit(|&b| b == b','));
        for element in elements.map(<[u8]>::trim_ascii) {
            if element.is_empty() {
                continue;
            }
            let hop = str::from_utf8(element).ok().and_then(&hop);
            let hop = hop.ok_or(Malformed)?;
            client = Some(hop);
            if !self.trust(Peer::Address(hop)) {
                break;
            }
        }
        Ok(client)
    }
}

/// `net`, as a network of IPv4 if its addresses are IPv4-mapped: peers are compared in this form.
fn canonical(net: IpNet) -> IpNet {
    let mapped = |len: u8| Some((net.addr().to_canonical(), len.checked_sub(96)?));
    match mapped(net.prefix_len()) {
        Some((ip @ IpAddr::V4(_), len)) => IpNet::new(ip, len).unwrap_or(net),
        _ => net,
    }
}

/// The value of `for` in an element of Forwarded; `None` where the element is malformed, or has none.
///
/// Strict, so that no piece of a quoted value passes for pairs: a proxy may quote what its client chose, such as Host.
fn of_for(element: &str) -> Option<&str> {
    let mut of_for = None;
    for pair in element.split(';').map(str::trim) {
        let (name, value) = pair.split_once('=')?;
        let value = match value.strip_prefix('"') {
            Some(quoted) => quoted.strip_suffix('"')?,
            None if value.is_empty() || value.contains(char::is_whitespace) => return None,
            None => value,
        };
        let is_second = name.eq_ignore_ascii_case("for") && of_for.replace(value).is_some();
        if is_second || value.contains(['"', '\\']) {
            return None;
        }
    }
    of_for
}

/// The address of a hop: of IPv4 or IPv6, in brackets or not, with a port or without, which is 0 then.
fn node(text: &str) -> Option<SocketAddr> {
    let bracketed = text.strip_prefix('[').and_then(|ip| ip.strip_suffix(']'));
    let of_ip = |ip: IpAddr| SocketAddr::new(ip, 0);
    let address = text.parse().ok();
    address.or_else(|| bracketed.unwrap_or(text).parse().ok().map(of_ip))
}

#[cfg(test)]
mod tests {
    use data_server_testing::table;
    use proptest::prelude::*;

    use super::*;

    fn trusted(given: &[&str]) -> TrustedProxies {
        let mut trusted = TrustedProxies::default();
        for given in given {
            trusted.add(given).unwrap();
        }
        trusted
    }

    fn peer(text: &str) -> Peer {
        Peer::Address(node(text).unwrap())
    }

    /// The client of a proxy at 10.0.0.1 that sends these lines.
    fn client(lines: &[(HeaderName, &str)]) -> String {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(name.clone(), value.parse().unwrap());
        }
        let trusted = trusted(&["10.0.0.0/8", "2001:db8::/32"]);
        let client = trusted.client(peer("10.0.0.1:7"), &headers);
        client.expect("a trusted proxy").to_string()
    }

    const PROXY: &str = "10.0.0.1:7";

    #[test]
    fn the_last_hop_that_is_no_trusted_proxy_asks() {
        for (value, expected) in [
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1:80", "192.0.2.1:80"),
            ("2001:db9::1", "2001:db9::1"),
            ("[2001:db9::1]", "2001:db9::1"),
            ("[2001:db9::1]:80", "[2001:db9::1]:80"),
            ("192.0.2.9, 192.0.2.1", "192.0.2.1"),
            ("192.0.2.9,192.0.2.1 ,10.0.0.2,\t2001:db8::1", "192.0.2.1"),
            ("192.0.2.1, ::ffff:10.0.0.2", "192.0.2.1"),
            // All are of the net: the first of them asks.
            ("10.0.0.3, 10.0.0.2", "10.0.0.3"),
            (", 192.0.2.1, ,", "192.0.2.1"),
            // The client chooses all that stands before it.
            ("gibberish \", 192.0.2.1", "192.0.2.1"),
            ("", PROXY),
            ("unknown", PROXY),
            ("192.0.2.1, unknown", PROXY),
            ("192.0.2.1, unknown, 10.0.0.2", PROXY),
            ("192.0.2.1 192.0.2.2", PROXY),
            ("192.0.2.1:65536", PROXY),
            ("[192.0.2.1", PROXY),
        ] {
            assert_eq!(client(&[(X_FORWARDED_FOR, value)]), expected, "{value}");
        }
    }

    #[test]
    fn the_standard_field_says_the_same() {
        for [value, expected] in table(
            r#"
            for=192.0.2.1 ; 192.0.2.1
            For="192.0.2.1:80" ; 192.0.2.1:80
            proto=http;FOR="[2001:db9::1]:80";by=203.0.113.1 ; [2001:db9::1]:80
            for=192.0.2.9, for=192.0.2.1, for=10.0.0.2;host="" ; 192.0.2.1
            for=", for=192.0.2.1 ; 192.0.2.1
            for=_hidden
            for=unknown
            proto=http
            for
            for=
            for=192.0.2.1;for=192.0.2.2
            for=192.0.2.1;host="a
            for=192.0.2.1;host=a b
            for=192.0.2.1;
            for=192.0.2.1;host="a, for=192.0.2.9"
            for=192.0.2.1;host="a, for=192.0.2.9;x=\"
            for=192.0.2.1;host="a;for=192.0.2.9""#,
        ) {
            // The last ones are of a name that the client chose, and its proxy quoted.
            let expected = if expected.is_empty() { PROXY } else { expected };
            assert_eq!(client(&[(FORWARDED, value)]), expected, "{value}");
        }
        let spaced = "proto=http;FOR=\"[2001:db9::1]:80\" ; by=203.0.113.1";
        assert_eq!(client(&[(FORWARDED, spaced)]), "[2001:db9::1]:80");
    }

    #[test]
    fn lines_are_one_list_and_both_fields_have_to_agree() {
        let x = |value| (X_FORWARDED_FOR, value);
        let standard = |value| (FORWARDED, value);
        for (lines, expected) in [
            (
                &[x("192.0.2.9"), x("192.0.2.1"), x("10.0.0.2")][..],
                "192.0.2.1",
            ),
            (
                &[x("192.0.2.1"), standard("for=\"192.0.2.1:80\"")],
                "192.0.2.1:80",
            ),
            (&[x("192.0.2.1"), standard("for=192.0.2.2")], PROXY),
            (&[x("192.0.2.1"), standard("for=unknown")], PROXY),
            (&[x("unknown"), standard("for=192.0.2.1")], PROXY),
            (&[], PROXY),
        ] {
            assert_eq!(client(lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn only_a_trusted_proxy_speaks_for_others() {
        let headers =
            HeaderMap::from_iter([(X_FORWARDED_FOR, HeaderValue::from_static("192.0.2.1"))]);
        let process = Peer::Process { uid: 1, pid: 2 };
        for (given, peer, counts) in [
            ("10.0.0.0/8", peer("10.0.0.1:7"), true),
            ("10.0.0.0/8", peer("[::ffff:10.0.0.1]:7"), true),
            ("10.0.0.0/8", peer("11.0.0.1:7"), false),
            ("10.0.0.0/8", process, false),
            ("10.0.0.1", peer("10.0.0.1:7"), true),
            ("10.0.0.1", peer("10.0.0.2:7"), false),
            ("::1", peer("[::1]:7"), true),
            ("::ffff:10.0.0.1", peer("10.0.0.1:7"), true),
            ("::ffff:10.0.0.0/104", peer("10.9.0.1:7"), true),
            ("::ffff:10.0.0.0/104", peer("11.0.0.1:7"), false),
            ("unix", process, true),
            ("unix", peer("10.0.0.1:7"), false),
        ] {
            let client = trusted(&[given]).client(peer, &headers);
            assert_eq!(client.is_some(), counts, "{given} {peer}");
        }
        for bad in ["", "10.0.0.0/33", "10.0.0", "localhost", "unix:"] {
            assert!(TrustedProxies::default().add(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        /// Whatever a client sends, its proxies append who asked them, and what they quote for that.
        #[test]
        fn nothing_that_a_client_writes_counts(
            own in "[ -~]{0,40}",
            host in "[ -~]{0,40}",
            asks in any::<[u8; 4]>().prop_filter("no proxy", |ip| ip[0] != 10),
            hops in prop::collection::vec(any::<[u8; 3]>(), 0..3),
            in_lines in any::<bool>(),
        ) {
            let ip = IpAddr::from(asks);
            let ips = || std::iter::once(ip).chain(hops.iter().map(|&[a, b, c]| [10, a, b, c].into()));
            let append = |name: HeaderName, appended: Vec<String>| {
                let lines = if in_lines {
                    std::iter::once(own.clone()).chain(appended).collect()
                } else {
                    vec![format!("{own},{}", appended.join(", "))]
                };
                let lines: Vec<_> = lines.iter().map(|line| (name.clone(), line.as_str())).collect();
                client(&lines)
            };
            let usual = ips().map(|ip: IpAddr| ip.to_string()).collect();
            prop_assert_eq!(append(X_FORWARDED_FOR, usual), ip.to_string());
            let quoted = host.replace('\\', "\\\\").replace('"', "\\\"");
            let standard = ips().map(|ip: IpAddr| format!("for={ip};host=\"{quoted}\"")).collect();
            let client = append(FORWARDED, standard);
            let is_plain = !host.contains(['"', '\\', ',', ';']);
            let expected = if is_plain { ip.to_string() } else { PROXY.to_owned() };
            prop_assert_eq!(client, expected);
        }
    }
}
