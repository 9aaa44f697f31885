//! The events of a request in the audit log, by what came of it: what it changed, and whether its client was refused.
//! Pure.

use crate::http::audit::AuditEvent;
use crate::http::forms::StoredFile;
use crate::http::head::path::path_of;
use crate::http::refusal::Refusal;
use crate::http::request::audit::of_refusal;
use crate::http::response::outcome::Outcome;

/// The events of a request in the audit log, by what came of it. False where the result of a change is not known.
pub fn events(result: &Result<Outcome, Refusal>) -> (Vec<AuditEvent>, bool) {
    let refusal = match result {
        Ok(outcome) => return (changes(outcome), true),
        Err(refusal) => refusal,
    };
    (of_refusal(refusal), !refusal.leaves_doubt())
}

fn changes(outcome: &Outcome) -> Vec<AuditEvent> {
    match outcome {
        Outcome::FolderRemoved(removed) if removed.removed + removed.folders > 0 => {
            vec![AuditEvent::Changed(None)]
        }
        Outcome::FolderMoved(to) => {
            let destination = AuditEvent::Changed(Some(path_of(to) + "/"));
            vec![AuditEvent::Changed(None), destination]
        }
        Outcome::Stored(_) | Outcome::Deleted | Outcome::FolderMade => {
            vec![AuditEvent::Changed(None)]
        }
        Outcome::Completed(key, _) | Outcome::Cancelled(key) => {
            vec![AuditEvent::Changed(Some(path_of(key)))]
        }
        Outcome::Relocated(value) => {
            let source = (!value.is_copy).then_some(AuditEvent::Changed(None));
            let destination = AuditEvent::Changed(Some(path_of(&value.key)));
            source.into_iter().chain([destination]).collect()
        }
        Outcome::Shared { lasts, .. } => vec![AuditEvent::Shared(*lasts)],
        Outcome::Upload(outcome, _) => changes(outcome),
        Outcome::FormStored(stored) => changed(&stored.files),
        _ => Vec::new(),
    }
}

fn changed(files: &[StoredFile]) -> Vec<AuditEvent> {
    let stored = files.iter().filter(|file| file.published.is_some());
    let events = stored.map(|file| AuditEvent::Changed(Some(path_of(&file.key))));
    events.collect()
}

#[cfg(test)]
mod tests {
    use crate::http::refusal::kind::{Flag, Kind};
    use crate::http::refusal::{Done, Work};
    use crate::http::service::audit::*;
    use crate::store::Error;
    use hyper::StatusCode;

    #[test]
    fn of_what_ends_early_each_change_is_told_and_why_it_ended() {
        const REFUSED: &Kind = &Kind::new(StatusCode::FORBIDDEN, "no").flags(&[Flag::Audited]);
        let halted = |why: Refusal| {
            let refusal = why.after(Done {
                at: Some("out/c d".to_owned()),
                events: vec![AuditEvent::Changed(Some("/in/a%20b".to_owned()))],
                ..Done::of(Work::Archive)
            });
            events(&Err(refusal))
        };
        let first = || AuditEvent::Changed(Some("/in/a%20b".to_owned()));
        let second = AuditEvent::Refused("no", Some("/out/c%20d".to_owned()));
        assert_eq!(
            halted(REFUSED.because("why")),
            (vec![first(), second], true)
        );
        let unknown = halted(Error::OutcomeUnknown { is_late: true }.into());
        assert_eq!(unknown, (vec![first()], false));
        let unsynced = halted(Error::Unsynced(Box::new(Error::Truncated)).into());
        assert_eq!(unsynced, (vec![first()], false));
        let full = halted(Error::TooLarge.into());
        assert_eq!(full, (vec![first()], true));
    }
}
