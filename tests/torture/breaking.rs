//! The network between a server and its store, each of whose connections breaks while it is bad.

use crate::proxy::{Fault, Faults, Relay};
use crate::random::Random;
use crate::support::prelude::*;

/// The bytes of some answers.
const ANSWERS: usize = 12_000;

pub(crate) struct BreakingNetwork {
    pub(crate) relay: Relay,
    is_bad: Arc<AtomicBool>,
}

impl BreakingNetwork {
    /// Once it is bad, each new connection breaks somewhere in its first bytes, in one direction.
    pub(crate) fn to(endpoint: SocketAddr, dice: Random) -> Self {
        let (dice, is_bad) = (Mutex::new(dice), Arc::<AtomicBool>::default());
        let breaks = Arc::clone(&is_bad);
        let relay = Relay::to(endpoint, move || {
            let mut dice = dice.lock().expect("no panic");
            let at = 1 + dice.place(ANSWERS);
            let bad = [Fault::Fin, Fault::Reset][dice.place(2)];
            let (up, down) = match breaks.load(Ordering::Acquire) {
                false => (Fault::None, Fault::None),
                true if dice.below(2) == 0 => (bad(at), Fault::None),
                true => (Fault::None, bad(at)),
            };
            Faults { up, down }
        });
        Self { relay, is_bad }
    }

    pub(crate) fn become_bad(&self) {
        self.is_bad.store(true, Ordering::Release);
    }
}
