//! Which changes a subscriber may be told of, for as long as it follows them.
//!
//! Promises that it is told of no key without the right to watch it, by the rules that hold now, and that a subscription ends
//! when its client has that right no more.

use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use crate::access::{Access, Right, Subject};
use crate::http::auth::proven::Proof;
use crate::store::Prefixes;

/// The permission of one subscription; without rules it covers all keys.
pub struct Permission(Option<Granted>);

struct Granted {
    access: Arc<Access>,
    generation: u64,
    proof: Rc<Proof>,
    subject: Arc<Subject>,
}

impl Permission {
    /// That of the client of `proof`, where there are rules.
    pub fn new(access: Option<&Arc<Access>>, proof: Option<&Rc<Proof>>) -> Self {
        let granted = access.zip(proof).map(|(access, proof)| Granted {
            access: Arc::clone(access),
            // Looked at anew at the first event: the rules may have been replaced since the proof.
            generation: u64::MAX,
            proof: Rc::clone(proof),
            subject: Arc::clone(&proof.subject),
        });
        Self(granted)
    }

    /// Whether changes of any key may be told still.
    pub fn holds(&mut self) -> bool {
        let Some(granted) = &mut self.0 else {
            return true;
        };
        granted.look_again() && !granted.keys().is_empty()
    }

    /// Whether a change of `key` may be told; asked after [`Permission::holds`].
    pub fn covers(&self, key: &str) -> bool {
        let granted = self.0.as_ref();
        granted.is_none_or(|granted| granted.keys().has(key))
    }
}

impl Granted {
    fn keys(&self) -> &Prefixes {
        self.subject.grant.keys(Right::Watch)
    }

    /// Whether the client is still who it was.
    fn look_again(&mut self) -> bool {
        let (generation, now) = (self.access.generation(), SystemTime::now());
        if generation == self.generation {
            return self.subject.is_valid(now);
        }
        let policy = self.access.policy();
        let Some(subject) = policy.prove(&self.proof.evidence, now) else {
            return false;
        };
        self.subject = Arc::clone(subject);
        self.generation = generation;
        true
    }
}
