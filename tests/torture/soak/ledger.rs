//! What may be read: values that say which write of which key they are, and a ledger of what was acknowledged.
//!
//! Each key has one writer, whose writes are numbered. A reader notes what was acknowledged before it asks; what it gets
//! may be that write or a later one, whole, and never an earlier one.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::pattern;

/// The writes of one key.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The last write begun; the last removal among them.
    begun: AtomicU64,
    removal_begun: AtomicU64,
    /// The last write that was acknowledged, a removal too.
    acknowledged: AtomicU64,
}

impl Ledger {
    /// Begins the next write; its number.
    pub(super) fn begin(&self, is_removal: bool) -> u64 {
        let number = self.begun.load(Ordering::Acquire) + 1;
        if is_removal {
            self.removal_begun.store(number, Ordering::Release);
        }
        self.begun.store(number, Ordering::Release);
        number
    }

    pub(super) fn acknowledge(&self, number: u64) {
        self.acknowledged.fetch_max(number, Ordering::AcqRel);
    }

    /// What was acknowledged before a read begins.
    pub(super) fn floor(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// Whether a read that began at `floor` may find this in `key`: a value, or none.
    pub(super) fn judge(&self, key: &str, floor: u64, got: Option<&[u8]>) -> Result<(), String> {
        let Some(value) = got else {
            let removal = self.removal_begun.load(Ordering::Acquire);
            return if floor == 0 || removal >= floor {
                Ok(())
            } else {
                Err(format!(
                    "/{key}: write {floor} was acknowledged and is lost"
                ))
            };
        };
        let number = number_of(key, value)?;
        let begun = self.begun.load(Ordering::Acquire);
        if number < floor {
            return Err(format!(
                "/{key}: write {number} is stale, {floor} was acknowledged"
            ));
        }
        if number > begun {
            return Err(format!("/{key}: write {number} was never begun"));
        }
        Ok(())
    }
}

/// The value of this write: its key and number, then bytes that follow from them.
pub(super) fn value(key: &str, number: u64, len: usize) -> Vec<u8> {
    let mut value = format!("{key} {number} {len}\n").into_bytes();
    value.extend(pattern(seed(key, number), len));
    value
}

fn seed(key: &str, number: u64) -> u64 {
    let key = key.bytes().fold(7_u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(byte))
    });
    key.wrapping_mul(1_000_003).wrapping_add(number)
}

/// Which write of `key` this is, if it is one, whole.
pub(super) fn number_of(key: &str, got: &[u8]) -> Result<u64, String> {
    let torn = || format!("/{key}: {} bytes that are no write of it", got.len());
    let end = got
        .iter()
        .position(|&byte| byte == b'\n')
        .ok_or_else(torn)?;
    let line = std::str::from_utf8(&got[..end]).map_err(|_| torn())?;
    let mut words = line.split(' ');
    let mut next = || words.next().ok_or_else(torn);
    let (named, number, len) = (next()?, next()?, next()?);
    let number = number.parse().map_err(|_| torn())?;
    let len = len.parse().map_err(|_| torn())?;
    if named == key && got == value(key, number, len) {
        Ok(number)
    } else {
        Err(torn())
    }
}

#[test]
fn planted_lies_are_found_out() {
    let ledger = Ledger::default();
    assert_eq!(ledger.judge("k", ledger.floor(), None), Ok(()));
    for _ in 0..3 {
        ledger.acknowledge(ledger.begin(false));
    }
    let (floor, third) = (ledger.floor(), value("k", 3, 1000));
    assert_eq!(ledger.judge("k", floor, Some(&third)), Ok(()));
    let fault = |got: Option<&[u8]>| ledger.judge("k", floor, got).expect_err("a lie");
    assert!(fault(Some(&value("k", 2, 1000))).contains("stale"));
    assert!(fault(Some(&value("k", 4, 1000))).contains("never begun"));
    assert!(fault(Some(&value("other", 3, 1000))).contains("no write of it"));
    assert!(fault(Some(&third[..500])).contains("no write of it"));
    let mixed = [&third[..500], &value("k", 2, 1000)[500..]].concat();
    assert!(fault(Some(&mixed)).contains("no write of it"));
    assert!(fault(None).contains("lost"));

    // What may be under way, or may have come while the read was, is no lie.
    let fourth = ledger.begin(true);
    assert_eq!(ledger.judge("k", floor, Some(&third)), Ok(()));
    assert_eq!(ledger.judge("k", floor, None), Ok(()));
    ledger.acknowledge(fourth);
    assert!(ledger.judge("k", ledger.floor(), Some(&third)).is_err());
}
