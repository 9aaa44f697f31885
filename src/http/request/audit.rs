//! The events of a refused request in the audit log: what it changed before, and whether its client was refused. Pure.

use crate::http::exchange::request_log::AuditEvent;
use crate::http::head::syntax::encoded;
use crate::http::refusal::kind::Flag;
use crate::http::refusal::{FolderWork, Refusal, StoredFile};
use crate::http::service_config::ServiceConfig;
use crate::store::{Error, Key};

/// The events of a refused request. False where the result of a change is not known.
pub fn of_refusal(refusal: &Refusal, config: &ServiceConfig) -> (Vec<AuditEvent>, bool) {
    let (mut events, file) = match refusal {
        Refusal::OfForm(halted) => (changed(&halted.stored), halted.file.as_ref().map(path)),
        Refusal::OfArchive(halted) => {
            let path = halted.path.as_ref();
            (Vec::new(), path.map(|path| format!("/{path}")))
        }
        Refusal::OfFolder(_, FolderWork::Removed(values, folders)) if values + folders > 0 => {
            (vec![AuditEvent::Changed(None)], None)
        }
        Refusal::Store(Error::FolderKept) => (vec![AuditEvent::Changed(None)], None),
        _ => (Vec::new(), None),
    };
    let kind = refusal.kind(config.compat);
    if kind.has(Flag::Audited) {
        events.push(AuditEvent::Refused(kind.name, file));
    }
    let is_unknown = matches!(
        refusal.reason(),
        Refusal::Store(Error::OutcomeUnknown { .. } | Error::HalfMoved(..) | Error::Unsynced(_))
            | Refusal::Panicked
    );
    (events, !is_unknown)
}

/// The events of these files, as far as they were stored.
pub fn changed(files: &[StoredFile]) -> Vec<AuditEvent> {
    let stored = files.iter().filter(|file| file.published.is_some());
    let events = stored.map(|file| AuditEvent::Changed(Some(path(&file.key))));
    events.collect()
}

/// The path of `key`, as the audit log has it.
pub fn path(key: &Key<'_>) -> String {
    format!("/{}", encoded(key.as_str()))
}

#[cfg(test)]
mod tests {
    use crate::http::refusal::HaltedForm;
    use crate::http::request::audit::*;
    use crate::store::Published;

    fn key(name: &str) -> Key<'static> {
        Key::new(name.to_owned()).expect("a key")
    }

    #[test]
    fn of_a_form_that_ends_early_each_file_is_told_and_why_it_ended() {
        let halted = |why| {
            let stored = vec![StoredFile {
                key: key("in/a b"),
                published: Some(Published {
                    etag: String::new(),
                    modified: None,
                }),
            }];
            let file = Some(key("out/c"));
            let halted = HaltedForm {
                folder: String::new(),
                file,
                stored,
                why,
            };
            let refusal = Refusal::OfForm(Box::new(halted));
            of_refusal(&refusal, &ServiceConfig::default())
        };
        let first = || AuditEvent::Changed(Some("/in/a%20b".to_owned()));
        let realm = "r".into();
        let refused = halted(Refusal::Unauthenticated { realm });
        let second = AuditEvent::Refused("unauthenticated", Some("/out/c".to_owned()));
        assert_eq!(refused, (vec![first(), second], true));
        let unknown = halted(Error::OutcomeUnknown { is_late: true }.into());
        assert_eq!(unknown, (vec![first()], false));
        let full = halted(Error::TooLarge.into());
        assert_eq!(full, (vec![first()], true));
    }
}
