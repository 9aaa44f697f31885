//! The logs of requests: the access log, an event for each request; and the audit log, an event for each change that a
//! request made, and for each refused client. Both are written once the response has ended.
//!
//! Promises that a change whose result is not known has an event in the audit log, too. Texts of the client are fields
//! of an event, never a part of its line: the formats of the log escape what could end the line. Secrets of queries are
//! hidden. A request has one id in the logs and in its response: the one of the client, if it is one line of visible
//! ASCII, else one that no other request has.

use std::cell::Cell;
use std::fmt::Write as _;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant, SystemTime};

use form_urlencoded::parse;
use hyper::header::{HeaderMap, HeaderName, HeaderValue, RANGE, REFERER, USER_AGENT};
use hyper::http::request::Parts;
use hyper::{Method, Version};

use crate::access::Rule;
use crate::http::audit::AuditEvent;
use crate::http::head::client::{Client, Peer};
use crate::http::head::names::REQUEST_ID;
use crate::http::head::syntax::only;

/// The format of the logs of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Fields: the client, the request, and its result.
    #[default]
    Fields,
    /// Also the query, the range, the user agent and the referrer.
    Full,
    /// The access log has a line as nginx's format `combined`, the audit log has the fields of [`LogFormat::Full`].
    Combined,
}

/// The logs of requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestLogs {
    /// An event for each request.
    pub access: bool,
    /// An event for each change, and for each refused client.
    pub audit: bool,
    /// The format of the events.
    pub format: LogFormat,
}

impl RequestLogs {
    /// True where there is such a log.
    pub fn any(&self) -> bool {
        self.access || self.audit
    }

    /// True where an event has the client's program, and the page that led to the request.
    pub fn have_client_fields(&self) -> bool {
        self.any() && self.format != LogFormat::Fields
    }
}

/// The entry of a request in the logs.
#[derive(Debug)]
pub struct LogEntry {
    pub ids: RequestIds,
    /// The field Server-Timing is made of it, where there is one.
    pub timing: Option<Timing>,
    pub client: Client,
    pub reactor: usize,
    /// `None` where the head could not be understood.
    pub method: Option<Method>,
    pub target: String,
    /// The name of the subject, where there are rules of access.
    pub subject: Option<Box<str>>,
    pub protocol: &'static str,
    /// The format of the access log, where there is one.
    pub access: Option<LogFormat>,
    /// The fields of the head that only the logs have, if their format has them.
    pub fields: Option<Box<LoggedFields>>,
    /// `None` where there is no audit log.
    pub audit: Option<Audit>,
    /// Bytes of the request's body, received so far.
    pub received: u64,
    /// Bytes of the response's body, handed to the socket so far.
    pub sent: u64,
}

/// The time until the response, by what it was spent on.
#[derive(Debug, Default)]
pub struct Timing {
    /// Waiting for the client's body.
    pub waited: Duration,
    /// The time at which the store was asked.
    pub asked: Option<Instant>,
}

impl Timing {
    /// The field `Server-Timing` (W3C), in milliseconds: the part of the store, and the `total` until now.
    pub fn field(&self, total: Duration) -> String {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let total = format!("total;dur={:.3}", ms(total));
        let Some(asked) = self.asked else {
            return total;
        };
        let store = asked.elapsed().saturating_sub(self.waited);
        format!("store;dur={:.3}, {total}", ms(store))
    }
}

/// The part of the audit log.
#[derive(Debug)]
pub struct Audit {
    /// The evidence of the client.
    pub by: &'static str,
    /// The subject whose password an unauthenticated client sent, right or wrong.
    pub tried: Option<Box<str>>,
    pub events: Vec<AuditEvent>,
    /// A change was begun, and its result is not known.
    pub is_open: bool,
}

/// The name of a version of HTTP.
pub fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_11 => "HTTP/1.1",
        Version::HTTP_2 => "HTTP/2.0",
        _ => "-",
    }
}

impl LogEntry {
    /// Writes the entry of `peer`, as text, to the logs that have it. A `status` of 0: the client left before there was
    /// a response.
    pub fn write(&self, peer: &str, status: u16, duration: Duration) {
        if let Some(audit) = &self.audit {
            self.write_audit(audit, peer, status);
        }
        match self.access {
            Some(LogFormat::Combined) => {
                tracing::info!(target: "combined", "{}", self.combined(status));
            }
            Some(_) => self.write_access(peer, status, duration),
            None => {}
        }
    }

    /// Writes an event to the audit log before the response is known: its status is 0.
    pub fn audit_now(&mut self, event: AuditEvent) {
        if let Some(audit) = &self.audit {
            let now = Audit {
                events: vec![event],
                is_open: false,
                tried: None,
                ..*audit
            };
            self.write_audit(&now, &self.client.peer.to_string(), 0);
        }
    }

    fn write_audit(&self, audit: &Audit, peer: &str, status: u16) {
        let (by, tried) = (audit.by, audit.tried.as_deref());
        let (method, target, received) = (self.method(), &*self.target, self.received);
        let subject = self.subject.as_deref().unwrap_or("-");
        let [query, range, agent, referrer] = self.fields();
        let request_id = self.request_id();
        let write = |result, problem, path: Option<&str>, lasts: Option<u64>| {
            let key = path.unwrap_or(target);
            tracing::info!(
                target: "audit",
                %peer, subject, by, tried, result, problem, method, key, lasts, status, received, request_id, query, range, agent, referrer
            );
        };
        for event in &audit.events {
            match event {
                AuditEvent::Changed(path) => write("changed", None, path.as_deref(), None),
                AuditEvent::Shared(lasts) => write("shared", None, None, Some(*lasts)),
                AuditEvent::Refused(problem, path) => {
                    write("refused", Some(*problem), path.as_deref(), None);
                }
            }
        }
        if audit.is_open {
            write("unknown", None, None, None);
        }
    }

    fn write_access(&self, peer: &str, status: u16, duration: Duration) {
        let (method, key, subject) = (self.method(), &*self.target, self.subject.as_deref());
        // To the microsecond.
        let ms = (duration.as_secs_f64() * 1e6).round() / 1e3;
        let [query, range, agent, referrer] = self.fields();
        let request_id = self.request_id();
        let (trace_id, span_id) = self.ids.trace.as_ref().map(|(t, s)| (&**t, &**s)).unzip();
        tracing::info!(
            target: "access",
            %peer, subject, method, key, protocol = self.protocol, tls = self.client.tls_version, status, received = self.received,
            bytes = self.sent, ms, reactor = self.reactor, request_id, trace_id, span_id, query, range, agent, referrer
        );
    }

    /// The line as nginx's format `combined`.
    fn combined(&self, status: u16) -> String {
        let address = match self.client.peer {
            Peer::Address(address) => address.ip().to_string(),
            Peer::Process { .. } => "unix:".to_owned(),
        };
        let date = httpdate::fmt_http_date(SystemTime::now());
        // Sun, 06 Nov 1994 08:49:37 GMT: 06/Nov/1994:08:49:37 +0000.
        let mut words = date.split(' ').skip(1);
        let [day, month, year, time] = [(); 4].map(|()| words.next().unwrap_or_default());
        let [query, _, agent, referrer] = self.fields();
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        // A client without a name is `-`, as in nginx.
        let subject = self.subject.as_deref();
        let subject = subject.filter(|&name| name != Rule::ANONYMOUS);
        format!(
            "{address} - {} [{day}/{month}/{year}:{time} +0000] \"{} {}{} {}\" {status} {} \"{}\" \"{}\"",
            escaped(subject.unwrap_or("-")),
            self.method(),
            escaped(&self.target),
            escaped(&query),
            self.protocol,
            self.sent,
            escaped(referrer.unwrap_or("-")),
            escaped(agent.unwrap_or("-")),
        )
    }

    pub fn request_id(&self) -> &str {
        self.ids.request.to_str().unwrap_or_default()
    }

    fn method(&self) -> &str {
        self.method.as_ref().map_or("-", Method::as_str)
    }

    /// The query, the range, the user agent and the referrer, as far as they are known.
    fn fields(&self) -> [Option<&str>; 4] {
        let fields = self.fields.as_deref();
        fields.map_or([None; 4], |fields| fields.each_ref().map(Option::as_deref))
    }
}

/// The text of a client, escaped as nginx does it.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' | ..b' ' | 0x7F.. => {
                let _ = write!(escaped, "\\x{byte:02X}");
            }
            plain => escaped.push(plain.into()),
        }
    }
    escaped
}

/// Parts of the names of parameters that hold a secret: signed links of this server and of S3, tokens, passwords.
const SECRETS: [&str; 5] = ["signature", "token", "password", "secret", "credential"];
/// The name of the parameter that holds the signature of a link of Azure.
const AZURE: &str = "sig";

/// The query, the range, the user agent and the referrer of a head, without the secrets of queries: only the logs have
/// them.
pub type LoggedFields = [Option<String>; 4];

pub fn logged_fields(head: &Parts) -> LoggedFields {
    let text = |name| text(&head.headers, &name);
    let referrer = text(REFERER).map(|url| match url.split_once('?') {
        Some((page, query)) => format!("{page}?{}", redacted(query)),
        None => url,
    });
    let query = head.uri.query().map(redacted);
    [query, text(RANGE), text(USER_AGENT), referrer]
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?.as_bytes();
    Some(String::from_utf8_lossy(value).into_owned())
}

/// `query` with `***` for each secret.
fn redacted(query: &str) -> String {
    let parameters: Vec<_> = query.split('&').map(without_secret).collect();
    parameters.join("&")
}

/// `parameter` with `***` for its secret. Some programs separate by semicolons: each part is read as a parameter, and
/// what follows a secret belongs to it.
fn without_secret(parameter: &str) -> String {
    let mut at = 0;
    for part in parameter.split_inclusive(';') {
        if let Some((name, _)) = part.split_once('=')
            && names_a_secret(name)
        {
            return format!("{}{name}=***", &parameter[..at]);
        }
        at += part.len();
    }
    parameter.to_owned()
}

fn names_a_secret(name: &str) -> bool {
    let decoded = parse(name.as_bytes()).next();
    let decoded = decoded.map(|(name, _)| name.to_ascii_lowercase());
    decoded.is_some_and(|name| name == AZURE || SECRETS.iter().any(|word| name.contains(word)))
}

/// The header of [`Timing`] in responses.
pub const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

/// The longest id taken from a client, in bytes.
const LONGEST: usize = 128;

/// The id of a request, and its trace (W3C Trace Context, level 1).
#[derive(Debug)]
pub struct RequestIds {
    /// Visible ASCII.
    pub request: HeaderValue,
    /// The trace and the caller's span in it.
    pub trace: Option<(String, String)>,
}

/// Makes ids of a part that no other process or reactor has, and a count.
#[derive(Debug)]
pub struct IdGenerator {
    prefix: String,
    next: Cell<u64>,
}

impl Default for IdGenerator {
    fn default() -> Self {
        Self {
            prefix: format!("{:016x}-", RandomState::new().build_hasher().finish()),
            next: Cell::new(0),
        }
    }
}

impl IdGenerator {
    /// The ids of the request with these headers.
    pub fn identify(&self, headers: &HeaderMap) -> RequestIds {
        let given = only(headers, &REQUEST_ID).filter(|id| is_id(id.as_bytes()));
        RequestIds {
            request: given.cloned().unwrap_or_else(|| self.make()),
            trace: only(headers, &TRACE_PARENT).and_then(|parent| trace(parent.as_bytes())),
        }
    }

    fn make(&self) -> HeaderValue {
        let count = self.next.replace(self.next.get() + 1);
        let mut id = String::with_capacity(self.prefix.len() + 16);
        id.push_str(&self.prefix);
        let _ = write!(id, "{count:x}");
        HeaderValue::try_from(id).unwrap_or(HeaderValue::from_static("-"))
    }
}

fn is_id(id: &[u8]) -> bool {
    (1..=LONGEST).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
}

/// The trace and the span of `version-trace-span-flags`. Of later versions only these parts are read.
fn trace(parent: &[u8]) -> Option<(String, String)> {
    let text = std::str::from_utf8(parent).ok()?;
    let mut parts = text.splitn(5, '-');
    let (version, trace) = (parts.next()?, parts.next()?);
    let (span, flags, rest) = (parts.next()?, parts.next()?, parts.next());
    let is_hex = |part: &str, len| {
        part.len() == len && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_id = |part: &str, len| is_hex(part, len) && part.bytes().any(|b| b != b'0');
    let is_version = is_hex(version, 2) && version != "ff" && (version != "00" || rest.is_none());
    (is_version && is_id(trace, 32) && is_id(span, 16) && is_hex(flags, 2))
        .then(|| (trace.to_owned(), span.to_owned()))
}

#[cfg(test)]
mod tests {
    use crate::http::exchange::request_log::*;
    use proptest::prelude::*;

    #[test]
    fn secrets_are_hidden_and_the_rest_stays() {
        for (query, told) in [
            ("", ""),
            ("a=b&prefix=x%20y&&flag&=", "a=b&prefix=x%20y&&flag&="),
            (
                "expires=1&by=k&signature=s3cr3t",
                "expires=1&by=k&signature=***",
            ),
            ("%73ignature=s3cr3t&max=1", "%73ignature=***&max=1"),
            (
                "a=b;access_token=s3cr3t;s3cr3t&X-Amz-Signature=s3cr3t",
                "a=b;access_token=***&X-Amz-Signature=***",
            ),
            (
                "password=s3cr3t=s3cr3t&sig=&design=a",
                "password=***&sig=***&design=a",
            ),
        ] {
            assert_eq!(redacted(query), told);
        }
    }

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn a_trace_is_taken_only_when_it_is_well_formed() {
        let parsed = Some((TRACE.to_owned(), SPAN.to_owned()));
        for good in [
            format!("00-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}-00"),
            format!("cc-{TRACE}-{SPAN}-01-what-comes-later"),
        ] {
            assert_eq!(trace(good.as_bytes()), parsed, "{good}");
        }
        for bad in [
            String::new(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("0-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{}-{SPAN}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{SPAN}-{TRACE}-01"),
            format!("00-{TRACE}-{SPAN}-0g"),
            format!(" 00-{TRACE}-{SPAN}-01"),
        ] {
            assert_eq!(trace(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn an_id_is_the_clients_or_one_that_no_other_request_has() {
        let ids = IdGenerator::default();
        let with = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(
                    REQUEST_ID,
                    HeaderValue::from_bytes(value.as_bytes()).unwrap(),
                );
            }
            ids.identify(&headers).request
        };
        let longest = "x".repeat(LONGEST);
        for good in [
            "a",
            "550e8400-e29b-41d4-a716-446655440000",
            "a=b;c/\"d\"",
            &longest,
        ] {
            assert_eq!(with(&[good]), good);
        }
        let too_long = "x".repeat(LONGEST + 1);
        let bad: [&[&str]; 6] = [&[], &[""], &["a b"], &["\u{e9}"], &["a", "a"], &[&too_long]];
        let mut made: Vec<_> = bad.into_iter().map(with).collect();
        for id in &made {
            assert!(is_id(id.as_bytes()), "{id:?}");
        }
        made.dedup();
        assert_eq!(made.len(), 6);
    }

    proptest! {
        #[test]
        fn what_is_taken_for_a_trace_is_harmless(parent in "[0-9a-f]{2}-[0-9a-fA-F]{31,33}-[0-9a-f]{15,17}-.{0,4}") {
            if let Some((trace, span)) = trace(parent.as_bytes()) {
                let start = format!("{}-{trace}-{span}-", &parent[..2]);
                prop_assert!(parent.starts_with(&start));
                prop_assert_eq!((trace.len(), span.len()), (32, 16));
            }
        }
    }
}
