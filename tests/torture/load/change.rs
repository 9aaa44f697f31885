//! What a client of the load asks of a key next: a write, a removal, or one that is to be refused.

use crate::ledger::{Ledger, Number};
use crate::random::Random;
use crate::value::length;

/// The longest body of a PUT that is to be refused: the server takes no more of it than it must.
const SMALL: usize = 64 << 10;

/// A change that was begun, and what is told when all is well.
pub(super) struct Change {
    pub(super) number: Number,
    pub(super) removes: bool,
    pub(super) condition: String,
    pub(super) status: u16,
}

impl Change {
    /// The next change of a key, of those that make sense in its state.
    pub(super) fn draw(random: &mut Random, ledger: &mut Ledger) -> Self {
        const NEW: &str = "If-None-Match: *\r\n";
        const STALE: &str = "If-Match: \"stale\"\r\n";
        let there = ledger.holds();
        let swap = format!("If-Match: {}\r\n", ledger.tag);
        let (removes, condition, status) = match (random.u64(..12), there) {
            (_, None) => return Self::deciding(ledger),
            (0..=5, _) => (false, "", 200),
            (6..=7, Some(true)) => (true, "", 200),
            (6..=7, Some(false)) => (true, "", 404),
            (8, Some(true)) => (true, STALE, 412),
            (9, Some(true)) => (false, &*swap, 200),
            (8..=9, Some(false)) => (false, NEW, 200),
            (_, Some(true)) => return Self::refused(ledger, NEW),
            (_, Some(false)) => return Self::refused(ledger, STALE),
        };
        Self::of(ledger.begin(removes), removes, condition, status)
    }

    fn of(number: Number, removes: bool, condition: &str, status: u16) -> Self {
        Self {
            number,
            removes,
            condition: condition.to_owned(),
            status,
        }
    }

    /// A write after one that was refused, and made or not. It has bytes: of two empty values without a known tag, a
    /// reader could not tell which it has met.
    fn deciding(ledger: &mut Ledger) -> Self {
        Self::of(begin(ledger, |length| length > 0), false, "", 200)
    }

    /// A small write that is to be refused.
    fn refused(ledger: &mut Ledger, condition: &str) -> Self {
        let number = begin(ledger, |length| length <= SMALL);
        Self::of(number, false, condition, 412)
    }
}

/// Begins the next write whose length fits.
fn begin(ledger: &mut Ledger, fits: impl Fn(usize) -> bool) -> Number {
    loop {
        let number = ledger.begin(false);
        if fits(length(&ledger.key, number)) {
            return number;
        }
        ledger.refuse(number);
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, Ledger, Random, begin, length};
    use crate::support::Response;

    /// A reader once took the tag of the second of two empty writes for that of the first, which was refused for lack
    /// of descriptors and not made; the acknowledgement of the second then looked like a broken promise.
    #[test]
    fn no_empty_write_follows_one_that_was_perhaps_made() {
        for seed in 0..300 {
            let mut ledger = Ledger::new(format!("k{seed}"));
            let open = begin(&mut ledger, |length| length == 0);
            let next = Change::draw(&mut Random::with_seed(seed), &mut ledger);
            let empty = Response {
                status: 200,
                headers: vec![("etag".to_owned(), "tag".to_owned())],
                body: Vec::new(),
            };
            assert_eq!(ledger.judge(ledger.floor(), &empty), Ok(open));
            assert_ne!(length(&ledger.key, next.number), 0);
            assert_eq!(ledger.acknowledge(next.number, "another"), Ok(()));
        }
    }
}
