//! What is noted of a request for its line in the logs.

use hyper::http::request::Parts;

use crate::http::auth::proven::Proof;
use crate::http::client::Client;
use crate::http::exchange::access_log::{Line, Said, protocol};
use crate::http::exchange::audit_log::Audit;
use crate::http::exchange::request_metrics::{Notes, Timing};
use crate::http::service::Service;

impl Service {
    /// What the log says of a request; without a `head`, it could not be understood.
    pub fn notes(&self, head: Option<&Parts>, client: Client, proof: Option<&Proof>) -> Notes {
        let config = &self.handler.config;
        let line = config.logs_requests().then(|| Line {
            client,
            reactor: self.handler.reactor,
            method: head.map(|head| head.method.clone()),
            target: head.map_or("-", |head| head.uri.path()).to_owned(),
            subject: proof.map(|proof| proof.subject.name.clone()),
            protocol: head.map_or("-", |head| protocol(head.version)),
            access: config.access_log,
            said: head.and_then(|head| Said::of(head, config.access_log)),
            audit: config.audit_log.then(|| Audit::of(proof)),
            received: 0,
            bytes: 0,
        });
        let identity = head.map(|head| self.handler.ids.identify(&head.headers));
        Notes {
            identity: identity.unwrap_or_else(|| self.handler.ids.anonymous()),
            line,
            timing: config.server_timing.then(Timing::default),
        }
    }
}
