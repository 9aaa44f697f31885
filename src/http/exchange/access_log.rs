//! The access log: one event for a request, once its answer has ended. The line that both logs of requests are written from.
//!
//! What a client chose is written as a field, never as a part of the line: the log's formats escape what could end it.

use std::time::Duration;

use hyper::{Method, Version};

use crate::http::client::Client;
use crate::http::exchange::audit_log::{Asked, Audit};
use crate::http::head::identity::Identity;

/// What the logs will say of a request, as far as its head tells.
#[derive(Debug)]
pub struct Line {
    pub client: Client,
    pub reactor: usize,
    /// `None` where the head could not be understood.
    pub method: Option<Method>,
    pub target: String,
    /// Who asked, where that matters.
    pub subject: Option<Box<str>>,
    pub protocol: &'static str,
    /// Whether there is an access log.
    pub has_access: bool,
    /// What the audit log says of it, where there is one.
    pub audit: Option<Audit>,
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

impl Line {
    /// Writes the line to the logs that have it. A `status` of 0: the client left before there was an answer.
    pub fn write(mut self, status: u16, duration: Duration, identity: &Identity) {
        if let Some(audit) = self.audit.take() {
            audit.write(&Asked {
                peer: self.client.peer,
                subject: self.subject.as_deref(),
                method: method(self.method.as_ref()),
                target: &self.target,
                status,
                request_id: identity.request.to_str().unwrap_or_default(),
            });
        }
        if self.has_access {
            self.write_access(status, duration, identity);
        }
    }

    fn write_access(self, status: u16, duration: Duration, identity: &Identity) {
        let Self {
            client: Client {
                peer, tls_version, ..
            },
            reactor,
            method: asked,
            target,
            subject,
            protocol,
            bytes,
            ..
        } = self;
        let method = method(asked.as_ref());
        // To the microsecond.
        let ms = (duration.as_secs_f64() * 1e6).round() / 1e3;
        let request_id = identity.request.to_str().unwrap_or_default();
        let trace = identity.trace.as_ref();
        let trace_id = trace.map(|(trace, _)| trace.as_str());
        let span_id = trace.map(|(_, span)| span.as_str());
        tracing::info!(
            target: "access",
            %peer, subject, method, key = target, protocol, tls = tls_version, status, bytes, ms, reactor, request_id, trace_id,
            span_id
        );
    }
}
