//! What every request of a reactor is performed with, and its entry in the logs. Reads no header but those that the
//! logs have, and decides no status.

use std::sync::Arc;

use hyper::header::HeaderMap;
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use tokio::sync::Semaphore;

use crate::http::auth::Guard;
use crate::http::auth::credentials::Principal;
use crate::http::exchange::Exchange;
use crate::http::exchange::request_log::{
    Audit, IdGenerator, LogEntry, Timing, logged_fields, protocol,
};
use crate::http::head::client::Client;
use crate::http::locks::Locks;
use crate::http::refusal::Refusal;
use crate::http::refusal::kind::{Flag, Kind};
use crate::http::service_config::ServiceConfig;
use crate::log::Throttle;
use crate::store::Store;

const PANICKED: &Kind = &Kind::new(StatusCode::INTERNAL_SERVER_ERROR, "internal")
    .flags(&[Flag::Closes, Flag::OfUnknownResult]);

/// What every request of one reactor is performed with.
pub struct Service {
    pub(crate) store: Arc<Store>,
    /// The number of the reactor.
    pub(crate) reactor: usize,
    pub(crate) config: ServiceConfig,
    pub(crate) ids: IdGenerator,
    /// The lines of the log that any client can cause.
    pub(crate) throttle: Throttle,
    /// The memory for the directories of zips while they are made, in bytes.
    pub(crate) directories: Arc<Semaphore>,
    /// `None` where there are no rules of access.
    pub(crate) guard: Option<Guard>,
    /// The locks of names, where clients can take some.
    pub(crate) locks: Option<Arc<Locks>>,
}

impl Service {
    /// The entry of a request in the logs; there is no `head` where it could not be understood.
    pub fn log_entry(
        &self,
        head: Option<&Parts>,
        client: Client,
        principal: Option<&Principal>,
    ) -> LogEntry {
        let Self { config, ids, .. } = self;
        let logs = config.logs;
        let logged_head = head.filter(|_| logs.have_client_fields());
        let tried = || {
            let head = head.filter(|_| principal.is_none())?;
            self.guard.as_ref()?.tried(&head.headers)
        };
        LogEntry {
            ids: ids.identify(head.map_or(&HeaderMap::new(), |head| &head.headers)),
            timing: config.server_timing.then(Timing::default),
            client,
            reactor: self.reactor,
            method: head.map(|head| head.method.clone()),
            target: head.map_or("-", |head| head.uri.path()).to_owned(),
            subject: principal.map(|principal| principal.subject.name.clone()),
            protocol: head.map_or("-", |head| protocol(head.version)),
            access: logs.access.then_some(logs.format),
            fields: logged_head.map(|head| Box::new(logged_fields(head))),
            audit: logs.audit.then(|| Audit {
                by: principal.map_or("nothing", Principal::name_of_evidence),
                tried: tried(),
                events: Vec::new(),
                is_open: false,
            }),
            received: 0,
            sent: 0,
        }
    }

    /// Logs and counts a panic. The connection ends with it: how much of the request was read is not known.
    pub fn panicked(
        &self,
        exchange: &Exchange,
        client: Client,
        method: &Method,
        path: &str,
        head: Option<&Parts>,
    ) -> Refusal {
        let entry = || self.log_entry(head, client, None);
        let request_id = exchange.record.request_id(entry);
        tracing::error!(request_id, peer = %client.peer, %method, key = path, "a request panicked");
        exchange.counters().panics.add(1);
        exchange.leave_unread();
        PANICKED.because("the server failed on this request; its log says more")
    }
}
