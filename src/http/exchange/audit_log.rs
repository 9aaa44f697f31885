//! The audit log: one event for each change that a request made, and for each refusal of who asks, once its answer has ended.
//!
//! Promises that a change whose end is not known has an event, too. What a client says of itself it has where the access log
//! has it.

use crate::http::auth::credentials::Principal;
use crate::http::client::Peer;
use crate::http::exchange::logged_fields::LoggedFields;

/// What a request did that is told.
#[derive(Debug, PartialEq, Eq)]
pub enum AuditEvent {
    /// It changed what the store has: under this path, where that is not the one it asked for.
    Changed(Option<String>),
    /// It was refused for who asks: the name of the problem, and the path as above.
    Refused(&'static str, Option<String>),
}

/// What a request came to.
#[derive(Debug, PartialEq, Eq)]
pub struct AuditOutcome {
    pub deeds: Vec<AuditEvent>,
    /// Whether that is all; of what failed in between it is not known.
    pub is_all: bool,
}

/// What is told of a request.
#[derive(Debug)]
pub struct Audit {
    /// By what the client proved who it is.
    by: &'static str,
    deeds: Vec<AuditEvent>,
    /// A change was begun, and it is not known what became of it.
    is_open: bool,
}

/// What the events of a request have in common.
pub struct AuditFields<'a> {
    pub peer: Peer,
    pub subject: Option<&'a str>,
    pub method: &'a str,
    pub target: &'a str,
    pub status: u16,
    pub received: u64,
    pub said: Option<&'a LoggedFields>,
    pub request_id: &'a str,
}

impl Audit {
    /// Of a request of the client of `proof`.
    pub fn of(proof: Option<&Principal>) -> Self {
        Self {
            by: proof.map_or("nothing", Principal::name_of_evidence),
            deeds: Vec::new(),
            is_open: false,
        }
    }

    /// It goes about a change.
    pub fn begin(&mut self) {
        self.is_open = true;
    }

    /// It came to this.
    pub fn end(&mut self, told: AuditOutcome) {
        self.deeds = told.deeds;
        self.is_open &= !told.is_all;
    }

    /// Writes the events.
    pub fn write(self, asked: &AuditFields<'_>) {
        let by = self.by;
        for deed in self.deeds {
            match deed {
                AuditEvent::Changed(path) => asked.write(by, "changed", path.as_deref(), None),
                AuditEvent::Refused(problem, path) => {
                    asked.write(by, "refused", path.as_deref(), Some(problem));
                }
            }
        }
        if self.is_open {
            asked.write(by, "unknown", None, None);
        }
    }
}

impl AuditFields<'_> {
    fn write(&self, by: &str, result: &str, path: Option<&str>, problem: Option<&str>) {
        let &Self {
            peer,
            subject,
            method,
            target,
            status,
            received,
            said,
            request_id,
        } = self;
        let [query, range, agent, referrer] = LoggedFields::fields(said);
        let (subject, key) = (subject.unwrap_or("-"), path.unwrap_or(target));
        tracing::info!(
            target: "audit",
            %peer, subject, by, result, problem, method, key, status, received, request_id, query, range, agent, referrer
        );
    }
}
