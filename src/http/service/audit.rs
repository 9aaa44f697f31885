//! The events of a request in the audit log, by what came of it. Pure.

use crate::http::exchange::request_log::AuditEvent;
use crate::http::refusal::Refusal;
use crate::http::request::audit::{changed, of_refusal, path};
use crate::http::response::outcome::Outcome;
use crate::http::service_config::ServiceConfig;

/// The events of a request in the audit log, by what came of it. False where the result of a change is not known.
pub fn events(
    result: &Result<Outcome, Refusal>,
    config: &ServiceConfig,
) -> (Vec<AuditEvent>, bool) {
    match result {
        Ok(outcome) => (changes(outcome), true),
        Err(refusal) => of_refusal(refusal, config),
    }
}

fn changes(outcome: &Outcome) -> Vec<AuditEvent> {
    match outcome {
        Outcome::FolderRemoved(removed) if removed.removed + removed.folders > 0 => {
            vec![AuditEvent::Changed(None)]
        }
        Outcome::FolderMoved(to) => {
            let destination = AuditEvent::Changed(Some(path(to) + "/"));
            vec![AuditEvent::Changed(None), destination]
        }
        Outcome::Stored(_) | Outcome::Deleted | Outcome::FolderMade => {
            vec![AuditEvent::Changed(None)]
        }
        Outcome::Completed(key, _) | Outcome::Cancelled(key) => {
            vec![AuditEvent::Changed(Some(path(key)))]
        }
        Outcome::Relocated(value) => {
            let source = (!value.is_copy).then_some(AuditEvent::Changed(None));
            let destination = AuditEvent::Changed(Some(path(&value.key)));
            source.into_iter().chain([destination]).collect()
        }
        Outcome::Shared { lasts, .. } => vec![AuditEvent::Shared(*lasts)],
        Outcome::Upload(outcome, _) => changes(outcome),
        Outcome::FormStored(stored) => changed(&stored.files),
        _ => Vec::new(),
    }
}
