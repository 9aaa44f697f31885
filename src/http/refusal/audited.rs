//! The audit log's view of an outcome: the changes made, and the refusals of who asks. Pure.

use crate::http::exchange::audit_log::{Deed, Told};
use crate::http::head::syntax::encoded;
use crate::http::refusal::table::rejected;
use crate::http::response::outcome::{Outcome, StoredFile};
use crate::http::service_config::ServiceConfig;
use crate::store::{Error, Key};

/// The audit of `outcome`.
pub fn told(outcome: &Outcome, config: &ServiceConfig) -> Told {
    let (mut deeds, mut is_all) = (Vec::new(), true);
    match outcome {
        Outcome::Stored(_) | Outcome::Deleted => deeds.push(Deed::Changed(None)),
        Outcome::Completed(key, _) | Outcome::Cancelled(key) => {
            deeds.push(Deed::Changed(Some(path(key))));
        }
        Outcome::FormStored(stored) => deeds.extend(changed(&stored.files)),
        Outcome::FormHalted(halted) => {
            deeds.extend(changed(&halted.stored));
            let why = told(&halted.why, config);
            let of_file = |deed| match deed {
                Deed::Refused(problem, None) => {
                    Deed::Refused(problem, halted.file.as_ref().map(path))
                }
                deed => deed,
            };
            deeds.extend(why.deeds.into_iter().map(of_file));
            is_all = why.is_all;
        }
        Outcome::Upload(outcome, _) => return told(outcome, config),
        Outcome::Refused(why) => {
            let row = rejected(why, config);
            deeds.extend(row.audited.then_some(Deed::Refused(row.name, None)));
        }
        Outcome::Failed(Error::OutcomeUnknown { .. }) | Outcome::Panicked => is_all = false,
        _ => {}
    }
    Told { deeds, is_all }
}

fn changed(files: &[StoredFile]) -> impl Iterator<Item = Deed> {
    let stored = files.iter().filter(|file| file.published.is_some());
    stored.map(|file| Deed::Changed(Some(path(&file.key))))
}

fn path(key: &Key<'_>) -> String {
    format!("/{}", encoded(key.as_str()))
}

#[cfg(test)]
mod tests {
    use crate::http::refusal::audited::*;
    use crate::http::refusal::rejection::Rejection;
    use crate::http::response::outcome::FormHalted;

    fn key(name: &str) -> Key<'static> {
        Key::new(name.to_owned()).expect("a key")
    }

    #[test]
    fn of_a_form_that_ends_early_each_file_is_told_and_why_it_ended() {
        let halted = |why| {
            let stored = vec![StoredFile {
                key: key("in/a b"),
                published: Some(crate::http::response::outcome::Published::Tag(String::new())),
            }];
            let file = Some(key("out/c"));
            let halted = FormHalted {
                folder: String::new(),
                file,
                stored,
                why,
            };
            told(
                &Outcome::FormHalted(Box::new(halted)),
                &ServiceConfig::default(),
            )
        };
        let first = || Deed::Changed(Some("/in/a%20b".to_owned()));
        let realm = "r".into();
        let refused = halted(Rejection::Unauthenticated { realm }.into());
        let second = Deed::Refused("unauthenticated", Some("/out/c".to_owned()));
        assert_eq!(
            (refused.deeds, refused.is_all),
            (vec![first(), second], true)
        );
        let unknown = halted(Error::OutcomeUnknown { is_late: true }.into());
        assert_eq!((unknown.deeds, unknown.is_all), (vec![first()], false));
        let full = halted(Error::TooLarge.into());
        assert_eq!((full.deeds, full.is_all), (vec![first()], true));
    }
}
