//! A request to watch changes: the keys, the first change, the transport, or why it is refused; and the headers of the
//! answer.
//!
//! Pure. Reads the headers of the WebSocket handshake (RFC 6455, section 4.2.1) and decides which pages may make one:
//! browsers let any page open a WebSocket anywhere, and leave it to the server to look at its origin.

use crate::http::refusal::Refusal;
use crate::http::refusal::kind::{Flag, Kind};
use hyper::StatusCode;
use hyper::Version;
use hyper::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN,
    SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::http::request::Parts;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::http::head::allowlists::{NotAllowlisted, is_own};
use crate::http::head::query::{BAD_QUERY, Parameters, QueryFields};
use crate::http::head::syntax::{names_member, only, put};
use crate::store::MAX_LEN;

/// Sent by an `EventSource` that comes back.
const LAST_EVENT_ID: &str = "last-event-id";

/// A request to watch changes.
#[derive(Debug, PartialEq, Eq)]
pub struct WatchRequest {
    /// The prefix of the keys.
    pub prefix: Box<str>,
    /// The number of the last change that the client has seen. Without it, the client gets the changes from now on.
    pub since: Option<u64>,
    pub transport: WatchTransport,
}

impl WatchRequest {
    /// The request of `head`, whose body has `len` bytes where that is known. Pages of another origin may ask if it
    /// `is_allowed`.
    pub fn of(
        head: &Parts,
        query: &QueryFields<'_>,
        len: Option<u64>,
        by_https: bool,
        is_allowed: impl Fn() -> bool,
    ) -> Result<Self, Refusal> {
        let (prefix, since) = place(query)?;
        // RFC 9110, section 7.8: an Upgrade in HTTP/1.0 is ignored; so is one to what is not known here.
        let upgrades = head.version == Version::HTTP_11
            && names_member(&head.headers, &UPGRADE, "websocket")
            && names_member(&head.headers, &CONNECTION, "upgrade");
        let transport = if upgrades {
            WatchTransport::WebSocket(handshake(&head.headers, len, by_https, is_allowed)?)
        } else {
            WatchTransport::Events
        };
        Ok(Self {
            prefix,
            since: last_event_id(&head.headers).or(since),
            transport,
        })
    }
}

/// The transport of changes.
#[derive(Debug, PartialEq, Eq)]
pub enum WatchTransport {
    Events,
    /// The Sec-WebSocket-Accept of the answer.
    WebSocket(String),
}

const HANDSHAKE: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "bad-handshake");
const VERSION: &Kind = &Kind::new(StatusCode::UPGRADE_REQUIRED, "websocket-version").fields(&[
    ("upgrade", "websocket"),
    ("connection", "upgrade"),
    ("sec-websocket-version", "13"),
]);
const FOREIGN: &Kind =
    &Kind::new(StatusCode::FORBIDDEN, "foreign-origin").flags(&[Flag::Audited, Flag::Logged]);

const OTHER_VERSION: Refusal = Refusal::new(
    VERSION,
    "this server speaks version 13 of the WebSocket protocol",
);

/// The refusal of a page of another origin.
fn foreign_page(page: &NotAllowlisted) -> Refusal {
    let NotAllowlisted { seen, remedy } = page;
    FOREIGN.because(format!(
        "pages of {seen} may not follow the changes; the option {remedy}"
    ))
}

fn bad_handshake(why: &str) -> Refusal {
    HANDSHAKE.because(format!("bad WebSocket handshake: {why}"))
}

/// The parameters of the feed, and no other: a client that mistypes `prefix` would get all changes.
const PARAMETERS: &Parameters = &Parameters {
    of: "the feed",
    once: &["prefix", "since"],
    many: &[],
    hint: "it has prefix and since",
};

/// The prefix of the keys, and the last change that was seen, of a query.
fn place(query: &QueryFields<'_>) -> Result<(Box<str>, Option<u64>), Refusal> {
    query.check_all(PARAMETERS)?;
    let prefix = query.get("prefix").unwrap_or_default();
    if prefix.len() > MAX_LEN {
        let why = format!("bad prefix: it has at most {MAX_LEN} bytes");
        return Err(BAD_QUERY.because(why));
    }
    let since = query.get("since").map(str::parse).transpose();
    let why = "bad since: the number of a change, as in ?since=1700000000000000";
    Ok((prefix.into(), since.map_err(|_| BAD_QUERY.because(why))?))
}

/// The number of the last event that the client has seen; an ID that this server never sent is older than all.
fn last_event_id(headers: &HeaderMap) -> Option<u64> {
    let id = headers.get(LAST_EVENT_ID)?.to_str().unwrap_or_default();
    Some(id.trim().parse().unwrap_or(0))
}

fn handshake(
    headers: &HeaderMap,
    len: Option<u64>,
    by_https: bool,
    is_allowed: impl Fn() -> bool,
) -> Result<String, Refusal> {
    if len != Some(0) {
        return Err(bad_handshake("it has no body"));
    }
    let version = headers.get(SEC_WEBSOCKET_VERSION);
    if version.is_none_or(|version| version != "13") {
        return Err(OTHER_VERSION);
    }
    let key = only(headers, &SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes);
    let Some(key) = key.filter(|key| is_key(key)) else {
        let why = "one Sec-WebSocket-Key of 16 bytes in base64 belongs to it";
        return Err(bad_handshake(why));
    };
    // RFC 6454, section 7.3: a page has one; of several the first proves nothing.
    let is_allowed = || only(headers, &ORIGIN).is_some() && is_allowed();
    if headers.contains_key(ORIGIN) && !is_own_origin(headers, by_https) && !is_allowed() {
        let page = NotAllowlisted::origin(headers.get(ORIGIN).map(HeaderValue::as_bytes));
        return Err(foreign_page(&page));
    }
    Ok(derive_accept_key(key))
}

/// True for 16 bytes in base64.
fn is_key(key: &[u8]) -> bool {
    let is_digit = |b: &u8| b.is_ascii_alphanumeric() || *b == b'+' || *b == b'/';
    key.len() == 24 && key.ends_with(b"==") && key[..22].iter().all(is_digit)
}

/// True if the page comes from the host of its request.
fn is_own_origin(headers: &HeaderMap, by_https: bool) -> bool {
    match (only(headers, &ORIGIN), headers.get(HOST)) {
        (Some(origin), Some(host)) => is_own(origin.as_bytes(), host.as_bytes(), by_https),
        _ => false,
    }
}

/// Adds the headers of a stream of events.
pub fn announce_events(headers: &mut HeaderMap) {
    let media_type = HeaderValue::from_static("text/event-stream");
    headers.insert(CONTENT_TYPE, media_type);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Else nginx keeps events back until it has many.
    let name = HeaderName::from_static("x-accel-buffering");
    headers.insert(name, HeaderValue::from_static("no"));
}

/// Adds the headers of the answer to a WebSocket handshake, with this Sec-WebSocket-Accept.
pub fn accept_websocket(headers: &mut HeaderMap, accept: String) {
    // Upgrade, and Connection, which goes with it (RFC 9110, section 7.8).
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    put(headers, SEC_WEBSOCKET_ACCEPT, accept);
}

#[cfg(test)]
mod tests {
    use crate::http::watch::request::*;
    use data_server_testing::table;
    use hyper::Request;

    /// The example of RFC 6455, section 1.3.
    const KEY: &str = "sec-websocket-key:dGhlIHNhbXBsZSBub25jZQ==";
    const VERSION: &str = "sec-websocket-version:13";

    fn head(target: &str, lines: &[&str]) -> Parts {
        let mut request = Request::get(target).header("host", "h:8080");
        for (name, value) in lines.iter().filter_map(|line| line.split_once(':')) {
            request = request.header(name, value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn shake(lines: &[&str]) -> Result<WatchRequest, Refusal> {
        let common = ["upgrade:WebSocket", "connection:keep-alive, Upgrade"];
        let head = head("/-/watch", &[&common, lines].concat());
        let is_allowed = || head.headers[ORIGIN] == "https://app.example";
        WatchRequest::of(&head, &QueryFields::default(), Some(0), false, is_allowed)
    }

    fn of(head: &Parts) -> Result<WatchRequest, Refusal> {
        let query = QueryFields::of(head.uri.query());
        WatchRequest::of(head, &query, Some(0), false, || false)
    }

    #[test]
    fn a_query_gives_prefix_and_place_or_says_what_is_wrong() {
        let long = format!("prefix={}", "x".repeat(MAX_LEN + 1));
        let found = |query: &str| match of(&head(&format!("/-/watch?{query}"), &[])) {
            Ok(ask) => format!("{:?} {:?}", ask.prefix.into_string(), ask.since),
            Err(why) => why.text.split(':').next().unwrap().to_owned(),
        };
        for [query, expected] in table(
            r#"
             ; "" None
            prefx=a ; the feed has no parameter "prefx"
            prefix=a%2Fb%20c+d&since=7 ; "a/b c d" Some(7)
            prefix=%D0%BA ; "к" None
            prefix=%D0 ; bad prefix
            prefix=%zz ; bad prefix
            prefix=%2 ; bad prefix
            since= ; bad since
            since=-1 ; bad since
            since=99999999999999999999 ; bad since"#,
        ) {
            assert_eq!(found(query), expected, "{query}");
        }
        assert_eq!(found(&long), "bad prefix");
    }

    #[test]
    fn the_last_event_id_counts_more_than_the_query_and_nonsense_is_long_gone() {
        for (id, since) in [("9", 9), (" 9 ", 9), ("x", 0), ("", 0), ("-1", 0)] {
            let got = of(&head("/-/watch?since=7", &[&format!("last-event-id:{id}")]));
            assert_eq!(got.unwrap().since, Some(since), "{id:?}");
        }
    }

    #[test]
    fn a_handshake_is_answered_or_refused_by_its_parts() {
        let accept = WatchTransport::WebSocket("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=".into());
        assert_eq!(shake(&[VERSION, KEY]).unwrap().transport, accept);
        let bad = |lines: &[&str]| shake(lines).is_err_and(|why| why.kind == HANDSHAKE);
        assert!(bad(&[VERSION]));
        assert!(bad(&[VERSION, KEY, KEY]));
        for key in " abc dGhlIHNhbXBsZSBub25jZQ= dGhlIHNhbXBsZSBub25jZQ=!".split(' ') {
            let key = format!("sec-websocket-key:{key}");
            assert!(bad(&[VERSION, &key]), "{key}");
        }
        for lines in [&[KEY][..], &[KEY, "sec-websocket-version:8"]] {
            assert_eq!(shake(lines), Err(OTHER_VERSION));
        }
        let lines = ["upgrade:websocket", "connection:upgrade", VERSION, KEY];
        for len in [None, Some(1)] {
            let with_body = head("/-/watch", &lines);
            let query = QueryFields::default();
            let got = WatchRequest::of(&with_body, &query, len, false, || true);
            assert!(got.is_err_and(|why| why.kind == HANDSHAKE), "{len:?}");
        }
    }

    #[test]
    fn what_is_no_handshake_gets_events() {
        let gets_events = |head: &Parts| of(head).unwrap().transport == WatchTransport::Events;
        for lines in [
            &["upgrade:websocket", VERSION, KEY][..],
            &["connection:upgrade", VERSION, KEY],
            &["upgrade:h2c", "connection:upgrade"],
        ] {
            assert!(gets_events(&head("/-/watch", lines)), "{lines:?}");
        }
        let lines = ["upgrade:websocket", "connection:upgrade", VERSION, KEY];
        let mut old = head("/-/watch", &lines);
        old.version = Version::HTTP_10;
        assert!(gets_events(&old));
    }

    #[test]
    fn only_pages_of_the_own_host_or_an_allowed_origin_may_shake_hands() {
        let with = |origin: &str| shake(&[VERSION, KEY, &format!("origin:{origin}")]);
        for own in "http://h:8080 https://h:8080 http://H:8080 https://app.example".split(' ') {
            assert!(with(own).is_ok(), "{own}");
        }
        for foreign in "http://h|http://h:80|http://h:8081|http://hh:8080|http://x@h:8080|h:8080|null||http://|\
            ftp://h:8080|http://h:8080/|http://evil.example|http://h:8080.evil.example|\
            http://app.example".split('|') {
            let unlisted = NotAllowlisted::origin(Some(foreign.as_bytes()));
            let refused = Err(foreign_page(&unlisted));
            assert_eq!(with(foreign), refused, "{foreign}");
        }
    }

    #[test]
    fn an_origin_that_is_told_twice_is_nobodys() {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "h".parse().unwrap());
        headers.insert(ORIGIN, "http://h".parse().unwrap());
        assert!(is_own_origin(&headers, false));
        headers.append(ORIGIN, "http://h".parse().unwrap());
        assert!(!is_own_origin(&headers, false));
    }
}
