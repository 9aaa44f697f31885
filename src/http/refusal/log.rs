//! What is told of refusals and failures besides the answer: lines of the log, where the operator can do something about it, and
//! the deeds of the audit log: changes made, and refusals of who asks.
//!
//! Any client can cause lines of the log, with or without an access log, so there is at most one of each kind in a second; it
//! tells how many were left out since the one before.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::http::client::Peer;
use crate::http::exchange::audit_log::{AuditEvent, AuditOutcome};
use crate::http::head::syntax::encoded;
use crate::http::refusal::rejection::Rejection;
use crate::http::refusal::table::rejected;
use crate::http::response::outcome::{Outcome, StoredFile};
use crate::http::service_config::ServiceConfig;
use crate::store::{Error, Key};

/// The least time between two lines of one kind.
const PAUSE: Duration = Duration::from_secs(1);

/// The lines that one reactor has logged lately.
#[derive(Debug, Default)]
pub struct RejectionLog {
    strangers: Throttle,
    forbidden: Throttle,
}

impl RejectionLog {
    /// Logs a rejection for its host or origin; others are the client's own affair.
    pub fn rejected(&self, rejection: &Rejection, peer: Peer, config: &ServiceConfig) {
        if rejected(rejection, config).logged
            && let Some(left_out) = self.strangers.pass(Instant::now())
        {
            tracing::warn!(%peer, cause = %rejection, left_out, "refused a host or an origin");
        }
    }

    /// Logs a failure of the store: the client learns what happened, the log, why.
    pub fn failed(&self, error: &Error) {
        log_failure(error);
        if let Error::Forbidden { doing, source } = error
            && let Some(left_out) = self.forbidden.pass(Instant::now())
        {
            tracing::warn!(doing, cause = %source, left_out, "the file system denies access");
        }
    }
}

fn log_failure(error: &Error) {
    match error {
        Error::Failed { doing, source } => {
            tracing::error!(doing, cause = %source, "the store failed");
        }
        Error::Unsynced(why) => log_failure(why),
        Error::Refused { said } => tracing::error!(%said, "the store refuses requests"),
        Error::BadGateway { said } => tracing::error!(%said, "the store failed"),
        Error::Unreachable { said } => tracing::warn!(%said, "the store cannot be reached"),
        Error::Busy { .. } | Error::TimedOut | Error::OutcomeUnknown { .. } => {
            tracing::warn!(%error, "no answer of the store");
        }
        Error::Truncated => tracing::warn!(%error, "a read failed"),
        Error::NoSpace { .. } | Error::Exhausted { .. } | Error::TooLarge => {
            tracing::warn!(%error, "out of resources");
        }
        // The store itself says once where its directory has gone, and that it is read-only.
        Error::Displaced { .. }
        | Error::ReadOnly
        | Error::Forbidden { .. }
        | Error::Occupied(_)
        | Error::Precondition
        | Error::NotSupported { .. }
        | Error::BadKey(_)
        | Error::Incomplete => {}
    }
}

/// Lets one line pass in each [`PAUSE`].
#[derive(Debug, Default)]
struct Throttle {
    last: Cell<Option<Instant>>,
    left_out: Cell<u64>,
}

impl Throttle {
    /// How many lines were left out since the last one, if there may be one `now`.
    fn pass(&self, now: Instant) -> Option<u64> {
        if self.last.get().is_some_and(|last| now - last < PAUSE) {
            self.left_out.set(self.left_out.get() + 1);
            return None;
        }
        self.last.set(Some(now));
        Some(self.left_out.take())
    }
}

/// The audit of `outcome`.
pub fn audit_outcome(outcome: &Outcome, config: &ServiceConfig) -> AuditOutcome {
    let (mut deeds, mut is_all) = (Vec::new(), true);
    match outcome {
        Outcome::Stored(_) | Outcome::Deleted => deeds.push(AuditEvent::Changed(None)),
        Outcome::Completed(key, _) | Outcome::Cancelled(key) => {
            deeds.push(AuditEvent::Changed(Some(path(key))));
        }
        Outcome::FormStored(stored) => deeds.extend(changed(&stored.files)),
        Outcome::FormHalted(halted) => {
            deeds.extend(changed(&halted.stored));
            let why = audit_outcome(&halted.why, config);
            let of_file = |deed| match deed {
                AuditEvent::Refused(problem, None) => {
                    AuditEvent::Refused(problem, halted.file.as_ref().map(path))
                }
                deed => deed,
            };
            deeds.extend(why.deeds.into_iter().map(of_file));
            is_all = why.is_all;
        }
        Outcome::Upload(outcome, _) => return audit_outcome(outcome, config),
        Outcome::Refused(why) => {
            let row = rejected(why, config);
            deeds.extend(row.audited.then_some(AuditEvent::Refused(row.name, None)));
        }
        Outcome::Failed(Error::OutcomeUnknown { .. }) | Outcome::Panicked => is_all = false,
        _ => {}
    }
    AuditOutcome { deeds, is_all }
}

fn changed(files: &[StoredFile]) -> impl Iterator<Item = AuditEvent> {
    let stored = files.iter().filter(|file| file.published.is_some());
    stored.map(|file| AuditEvent::Changed(Some(path(&file.key))))
}

fn path(key: &Key<'_>) -> String {
    format!("/{}", encoded(key.as_str()))
}

#[cfg(test)]
mod tests {
    use crate::http::refusal::log::*;
    use crate::http::refusal::rejection::Rejection;
    use crate::http::response::outcome::FormHalted;

    #[test]
    fn of_many_lines_one_a_second_passes_and_tells_of_the_others() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        let at = |ms: u64| throttle.pass(start + Duration::from_millis(ms));
        assert_eq!(at(0), Some(0));
        assert_eq!((at(1), at(500), at(999)), (None, None, None));
        assert_eq!(at(1000), Some(3));
        assert_eq!(at(1999), None);
        assert_eq!(at(10_000), Some(1));
        assert_eq!(at(20_000), Some(0));
    }

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
            audit_outcome(
                &Outcome::FormHalted(Box::new(halted)),
                &ServiceConfig::default(),
            )
        };
        let first = || AuditEvent::Changed(Some("/in/a%20b".to_owned()));
        let realm = "r".into();
        let refused = halted(Rejection::Unauthenticated { realm }.into());
        let second = AuditEvent::Refused("unauthenticated", Some("/out/c".to_owned()));
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
