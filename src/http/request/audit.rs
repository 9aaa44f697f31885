//! The events of a refused request in the audit log. Pure.

use crate::http::audit::AuditEvent;
use crate::http::head::syntax::encoded;
use crate::http::refusal::Refusal;
use crate::http::refusal::kind::Flag;
use crate::store::Error;

/// The events of a refused request: what it had changed, and whether its client was refused.
pub fn of_refusal(refusal: &Refusal) -> Vec<AuditEvent> {
    let done = refusal.done();
    let mut events = done.map_or_else(Vec::new, |done| done.events.clone());
    if let Some(Error::FolderKept) = refusal.cause() {
        events.push(AuditEvent::Changed(None));
    }
    if refusal.kind.has(Flag::Audited) {
        let at = done.and_then(|done| done.at.as_ref());
        let path = at.map(|at| format!("/{}", encoded(at)));
        events.push(AuditEvent::Refused(refusal.name(), path));
    }
    events
}
