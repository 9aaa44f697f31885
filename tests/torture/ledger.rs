//! What the clients were told of each key, and what is found of it after a fault.
//!
//! A key has one writer, which waits for each answer before it asks for more. So what may be found is what was
//! acknowledged last, or what was asked for after that and not acknowledged; all else is a loss, and has a name.

use std::fmt;

use crate::support::pattern;

/// A value by what its bytes are made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) seed: u64,
    pub(crate) len: usize,
}

impl Value {
    pub(crate) fn bytes(self) -> Vec<u8> {
        pattern(self.seed, self.len)
    }

    fn is(self, bytes: &[u8]) -> bool {
        self.len == bytes.len() && self.bytes() == bytes
    }
}

/// What was found of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// What may be found.
    Kept,
    /// No value where one was acknowledged.
    Missing,
    /// An earlier value of this key where a later one was acknowledged.
    Older,
    /// A value where its DELETE was acknowledged.
    Resurrected,
    /// A value without a byte where none was asked for.
    Empty,
    /// Bytes that no PUT of this key had.
    Torn,
    /// Neither a value nor its absence: the GET failed.
    Unreadable,
}

/// One key.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) key: String,
    acknowledged: Option<Value>,
    unanswered: Vec<Option<Value>>,
    past: Vec<Value>,
    changed: bool,
}

impl Account {
    pub(crate) fn new(key: String) -> Self {
        Self {
            key,
            acknowledged: None,
            unanswered: Vec::new(),
            past: Vec::new(),
            changed: false,
        }
    }

    /// What was acknowledged last.
    pub(crate) fn acknowledged(&self) -> Option<Value> {
        self.acknowledged
    }

    /// Whether a change was acknowledged since the key was last settled.
    pub(crate) fn is_changed(&self) -> bool {
        self.changed
    }

    /// A value, or none, is about to be asked for.
    pub(crate) fn ask(&mut self, change: Option<Value>) {
        self.past.extend(change);
        self.unanswered.push(change);
    }

    /// What was asked for last is acknowledged.
    pub(crate) fn acknowledge(&mut self) {
        self.acknowledged = self.unanswered.pop().expect("something was asked for");
        self.unanswered.clear();
        self.changed = true;
    }

    pub(crate) fn judge(&self, found: &Found) -> Verdict {
        let may_be = || {
            [self.acknowledged]
                .into_iter()
                .chain(self.unanswered.iter().copied())
        };
        match found {
            Found::Nothing if may_be().any(|value| value.is_none()) => Verdict::Kept,
            Found::Nothing => Verdict::Missing,
            Found::Failure(_) => Verdict::Unreadable,
            Found::Bytes(bytes) if may_be().flatten().any(|value| value.is(bytes)) => Verdict::Kept,
            Found::Bytes(bytes) if self.past.iter().any(|value| value.is(bytes)) => {
                match self.acknowledged {
                    Some(_) => Verdict::Older,
                    None => Verdict::Resurrected,
                }
            }
            Found::Bytes(bytes) if bytes.is_empty() => Verdict::Empty,
            Found::Bytes(_) => Verdict::Torn,
        }
    }

    /// Goes on from what was found, if it is a value of this key or nothing.
    pub(crate) fn settle(&mut self, found: &Found) {
        let of_bytes = |bytes: &Vec<u8>| self.past.iter().find(|value| value.is(bytes)).copied();
        self.acknowledged = match found {
            Found::Bytes(bytes) => of_bytes(bytes),
            Found::Nothing | Found::Failure(_) => None,
        };
        self.past.clear();
        self.past.extend(self.acknowledged);
        self.unanswered.clear();
        self.changed = false;
    }
}

/// What a GET gave.
#[derive(Debug)]
pub(crate) enum Found {
    Bytes(Vec<u8>),
    Nothing,
    /// The status of an answer that is neither 200 nor 404.
    Failure(u16),
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Nothing => f.write_str("nothing"),
            Self::Failure(status) => write!(f, "status {status}"),
        }
    }
}

/// Verdicts, counted; of keys with a change that was acknowledged since they were last looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) keys: usize,
    pub(crate) missing: usize,
    pub(crate) older: usize,
    pub(crate) resurrected: usize,
    pub(crate) empty: usize,
    pub(crate) torn: usize,
    pub(crate) unreadable: usize,
    /// The first few losses, for whoever looks into them.
    pub(crate) examples: Vec<String>,
}

impl Tally {
    pub(crate) fn count(&mut self, account: &Account, found: &Found) -> Verdict {
        self.keys += usize::from(account.is_changed());
        let verdict = account.judge(found);
        match verdict {
            Verdict::Kept => return verdict,
            Verdict::Missing => self.missing += 1,
            Verdict::Older => self.older += 1,
            Verdict::Resurrected => self.resurrected += 1,
            Verdict::Empty => self.empty += 1,
            Verdict::Torn => self.torn += 1,
            Verdict::Unreadable => self.unreadable += 1,
        }
        if self.examples.len() < 5 {
            let (key, promised) = (&account.key, account.acknowledged);
            self.examples
                .push(format!("{key}: {verdict:?}: {found} and not {promised:?}"));
        }
        verdict
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.keys += other.keys;
        self.missing += other.missing;
        self.older += other.older;
        self.resurrected += other.resurrected;
        self.empty += other.empty;
        self.torn += other.torn;
        self.unreadable += other.unreadable;
        self.examples.extend(other.examples);
        self.examples.truncate(5);
    }

    /// Keys that are not as they were acknowledged.
    pub(crate) fn losses(&self) -> usize {
        self.missing + self.older + self.resurrected + self.empty + self.torn + self.unreadable
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} acknowledged keys: {} missing, {} older, {} resurrected, {} empty, {} torn, {} unreadable",
            self.keys,
            self.missing,
            self.older,
            self.resurrected,
            self.empty,
            self.torn,
            self.unreadable
        )
    }
}

#[test]
fn each_kind_of_loss_has_its_name() {
    let (old, new) = (Value { seed: 1, len: 100 }, Value { seed: 2, len: 100 });
    let open = Value { seed: 3, len: 50 };
    let mut account = Account::new("k".to_owned());
    let judge = |account: &Account, bytes: &[u8]| account.judge(&Found::Bytes(bytes.to_vec()));
    for value in [old, new] {
        account.ask(Some(value));
        account.acknowledge();
    }
    account.ask(Some(open));
    assert_eq!(judge(&account, &new.bytes()), Verdict::Kept);
    assert_eq!(judge(&account, &open.bytes()), Verdict::Kept);
    assert_eq!(judge(&account, &old.bytes()), Verdict::Older);
    assert_eq!(judge(&account, b""), Verdict::Empty);
    assert_eq!(judge(&account, &new.bytes()[..99]), Verdict::Torn);
    let mixed = [&new.bytes()[..50], &old.bytes()[50..]].concat();
    assert_eq!(judge(&account, &mixed), Verdict::Torn);
    assert_eq!(account.judge(&Found::Nothing), Verdict::Missing);
    assert_eq!(account.judge(&Found::Failure(500)), Verdict::Unreadable);
    account.ask(None);
    assert_eq!(account.judge(&Found::Nothing), Verdict::Kept);
    assert_eq!(judge(&account, &new.bytes()), Verdict::Kept);
    account.acknowledge();
    assert_eq!(account.judge(&Found::Nothing), Verdict::Kept);
    for value in [old, new, open] {
        assert_eq!(judge(&account, &value.bytes()), Verdict::Resurrected);
    }
}
