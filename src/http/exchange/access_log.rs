//! The access log: one event for a request, once its answer has ended. The line that both logs of requests are written from.
//!
//! What a client chose is written as a field, never as a part of the line: the log's formats escape what could end it.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use hyper::{Method, Version};

use crate::http::client::{Client, Peer};
use crate::http::exchange::audit_log::{Audit, AuditFields};
use crate::http::exchange::logged_fields::LoggedFields;
use crate::http::head::identity::RequestIds;

/// The format of the logs of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Default))]
pub enum LogFormat {
    /// Fields: who asked for what, and what came of it.
    #[cfg_attr(test, default)]
    Fields,
    /// Also the query, the range, the client's program, and the page that led to the request.
    Full,
    /// The access log has a line as nginx's format `combined`, the audit log what [`LogFormat::Full`] has.
    Combined,
}

/// What the logs will say of a request, as far as its head tells.
#[derive(Debug)]
pub struct LogEntry {
    pub client: Client,
    pub reactor: usize,
    /// `None` where the head could not be understood.
    pub method: Option<Method>,
    pub target: String,
    /// Who asked, where that matters.
    pub subject: Option<Box<str>>,
    pub protocol: &'static str,
    /// What the access log says, where there is one.
    pub access: Option<LogFormat>,
    /// What the client said, where the format has it.
    pub said: Option<Box<LoggedFields>>,
    /// What the audit log says of it, where there is one.
    pub audit: Option<Audit>,
    /// Of the request's body, received so far.
    pub received: u64,
    /// Of the answer's body, handed to the socket so far.
    pub bytes: u64,
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

fn method(method: Option<&Method>) -> &str {
    method.map_or("-", Method::as_str)
}

impl LogEntry {
    /// Writes the line to the logs that have it. A `status` of 0: the client left before there was an answer.
    pub fn write(mut self, status: u16, duration: Duration, identity: &RequestIds) {
        if let Some(audit) = self.audit.take() {
            audit.write(&AuditFields {
                peer: self.client.peer,
                subject: self.subject.as_deref(),
                method: method(self.method.as_ref()),
                target: &self.target,
                status,
                received: self.received,
                said: self.said.as_deref(),
                request_id: identity.request.to_str().unwrap_or_default(),
            });
        }
        match self.access {
            Some(LogFormat::Combined) => {
                tracing::info!(target: "combined", "{}", self.combined(status));
            }
            Some(_) => self.write_access(status, duration, identity),
            None => {}
        }
    }

    fn write_access(self, status: u16, duration: Duration, identity: &RequestIds) {
        let Self {
            client: Client {
                peer, tls_version, ..
            },
            reactor,
            method: asked,
            target,
            subject,
            protocol,
            received,
            bytes,
            said,
            ..
        } = self;
        let method = method(asked.as_ref());
        // To the microsecond.
        let ms = (duration.as_secs_f64() * 1e6).round() / 1e3;
        let [query, range, agent, referrer] = LoggedFields::fields(said.as_deref());
        let request_id = identity.request.to_str().unwrap_or_default();
        let trace = identity.trace.as_ref();
        let trace_id = trace.map(|(trace, _)| trace.as_str());
        let span_id = trace.map(|(_, span)| span.as_str());
        tracing::info!(
            target: "access",
            %peer, subject, method, key = target, protocol, tls = tls_version, status, received, bytes, ms, reactor, request_id, trace_id,
            span_id, query, range, agent, referrer
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
        let [query, _, agent, referrer] = LoggedFields::fields(self.said.as_deref());
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        format!(
            "{address} - {} [{day}/{month}/{year}:{time} +0000] \"{} {}{} {}\" {status} {} \"{}\" \"{}\"",
            escaped(self.subject.as_deref().unwrap_or("-")),
            method(self.method.as_ref()),
            escaped(&self.target),
            escaped(&query),
            self.protocol,
            self.bytes,
            escaped(referrer.unwrap_or("-")),
            escaped(agent.unwrap_or("-")),
        )
    }
}

/// As nginx escapes what a client chose.
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
