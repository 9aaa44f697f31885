//! What each key was asked to hold: the judge of every answer, and of what is there after a fault.
//!
//! A key has one writer, which waits for each answer, so its changes have one order and a number each. A value tells
//! which write of which key it is, all of it, so that a torn or mixed one shows. A reader notes the last change that
//! was acknowledged before it asks, the floor: what it meets is that change or a later one. Nothing here knows how the
//! server works.

use std::fmt;

use crate::prelude::*;
use crate::value::{is_value, written};

/// The number of a change of a key, from 1; before the first it has no value.
pub(crate) type Number = u32;

/// A broken promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// No value where one was acknowledged.
    Missing,
    /// An earlier value where a later one was acknowledged.
    Older,
    /// A value where its DELETE was acknowledged.
    Resurrected,
    /// A value without a byte where none was asked for.
    Empty,
    /// Bytes that no PUT of this key had.
    Torn,
    /// A change was made that was refused, or that an orderly end left unanswered.
    Unheard,
    /// Two writes of a key have one `ETag`, or one write has two.
    Tag,
    /// A file is there that is no value.
    Litter,
    /// A wrong answer, or none while the server should serve.
    Answer,
    /// A start or an end took too long, or went wrong.
    Process,
}

pub(crate) type Finding = (Fault, String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It may have been made.
    Open,
    Made,
    NotMade,
}

#[derive(Clone, Copy, Debug)]
struct Change {
    removes: bool,
    outcome: Outcome,
}

/// `ETag`s that are remembered of a key, before those of values long replaced are forgotten.
const MOST_TAGS: usize = 4_000;

/// What is known of one key.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) key: String,
    changes: Vec<Change>,
    floor: Number,
    /// The floor when the key was last counted.
    counted: Number,
    tags: HashMap<String, Number>,
    /// The tag of the value that was acknowledged last.
    pub(crate) tag: String,
}

impl Ledger {
    pub(crate) fn new(key: String) -> Self {
        let absent = Change {
            removes: true,
            outcome: Outcome::Made,
        };
        Self {
            key,
            changes: vec![absent],
            floor: 0,
            counted: 0,
            tags: HashMap::new(),
            tag: String::new(),
        }
    }

    /// A change is about to be asked for.
    pub(crate) fn begin(&mut self, removes: bool) -> Number {
        let outcome = Outcome::Open;
        self.changes.push(Change { removes, outcome });
        self.last()
    }

    /// The change begun last is acknowledged.
    pub(crate) fn acknowledge(&mut self, number: Number, tag: &str) -> Result<(), Finding> {
        self.made(number);
        if self.removes(number) {
            return Ok(());
        }
        tag.clone_into(&mut self.tag);
        self.name(number, tag)
    }

    /// It was not made, and will not be.
    pub(crate) fn refuse(&mut self, number: Number) {
        self.changes[number as usize].outcome = Outcome::NotMade;
    }

    /// The last change that is known to be made.
    pub(crate) fn floor(&self) -> Number {
        self.floor
    }

    /// Whether there is a value; unknown while a later change may have been made.
    pub(crate) fn holds(&self) -> Option<bool> {
        let is_certain = self.possible(self.floor).eq([self.floor]);
        is_certain.then(|| !self.removes(self.floor))
    }

    /// The change that an answer to a GET shows, and its tag the only one of it.
    pub(crate) fn judge(&mut self, floor: Number, answer: &Response) -> Result<Number, Finding> {
        let number = self.meet(floor, answer)?;
        if answer.status == 200 {
            self.name(number, answer.must("etag"))?;
        }
        Ok(number)
    }

    /// The change that an answer to a GET shows, which must be the one at `floor` or a later one.
    pub(crate) fn meet(&self, floor: Number, answer: &Response) -> Result<Number, Finding> {
        let met = match answer.status {
            404 => self.absence(floor),
            200 => self.value(floor, answer),
            _ => Err(Fault::Answer),
        };
        met.map_err(|fault| {
            let (key, status, bytes) = (&self.key, answer.status, answer.body.len());
            let tag = answer.header("etag").unwrap_or_default();
            let possible = self.possible(floor);
            let possible: Vec<_> = possible.map(|n| (n, self.changes[n as usize])).collect();
            let told = format!("/{key}: {status}, {bytes} bytes, {tag}, not one of {possible:?}");
            (fault, told)
        })
    }

    /// What was found with nothing under way is what the key holds, and its later changes were not made.
    pub(crate) fn settle(&mut self, number: Number, answer: &Response) {
        for change in &mut self.changes[number as usize..] {
            change.outcome = Outcome::NotMade;
        }
        self.made(number);
        let tag = answer.header("etag").unwrap_or_default();
        tag.clone_into(&mut self.tag);
    }

    /// The same after a fault that may have cost values their tags.
    pub(crate) fn start_over(&mut self, number: Number, answer: &Response) {
        self.settle(number, answer);
        self.counted = number;
        self.tags.clear();
        if !self.removes(number) {
            self.tags.insert(self.tag.clone(), number);
        }
    }

    fn made(&mut self, number: Number) {
        self.changes[number as usize].outcome = Outcome::Made;
        self.floor = number;
    }

    fn last(&self) -> Number {
        Number::try_from(self.changes.len() - 1).expect("few changes")
    }

    fn removes(&self, number: Number) -> bool {
        self.changes[number as usize].removes
    }

    /// The changes that may be met by a reader that began at `floor`.
    fn possible(&self, floor: Number) -> impl Iterator<Item = Number> {
        (floor..=self.last()).filter(|&n| self.changes[n as usize].outcome != Outcome::NotMade)
    }

    fn absence(&self, floor: Number) -> Result<Number, Fault> {
        let removal = self.possible(floor).find(|&number| self.removes(number));
        removal.ok_or(Fault::Missing)
    }

    fn value(&self, floor: Number, answer: &Response) -> Result<Number, Fault> {
        let bytes = &answer.body;
        let tagged = answer.header("etag");
        let tagged = tagged.and_then(|tag| self.tags.get(tag).copied());
        let named = tagged.into_iter().chain(written(bytes));
        let mut named = named.chain(self.possible(floor));
        // An empty value names no write: its tag does, or it is of one that may be met and has none yet.
        let is_named =
            |number| tagged == Some(number) || !bytes.is_empty() || !self.is_tagged(number);
        let is_it = |&number: &Number| {
            let is_write = number <= self.last() && !self.removes(number);
            is_write && is_named(number) && is_value(bytes, &self.key, number)
        };
        let is_empty = bytes.is_empty();
        let other = if is_empty { Fault::Empty } else { Fault::Torn };
        let number = named.find(is_it).ok_or(other)?;
        match self.changes[number as usize].outcome {
            _ if number < floor && self.removes(floor) => Err(Fault::Resurrected),
            _ if number < floor => Err(Fault::Older),
            Outcome::NotMade => Err(Fault::Unheard),
            Outcome::Open | Outcome::Made => Ok(number),
        }
    }

    fn is_tagged(&self, number: Number) -> bool {
        self.tags.values().any(|&other| other == number)
    }

    /// `tag` is that of this write, and of no other.
    fn name(&mut self, number: Number, tag: &str) -> Result<(), Finding> {
        let before = self.tags.get(tag).copied();
        let is_renamed = || self.is_tagged(number);
        if before.map_or_else(is_renamed, |other| other != number) {
            let told = format!("/{}: {tag} of {number}, before of {before:?}", self.key);
            return Err((Fault::Tag, told));
        }
        if self.tags.len() >= MOST_TAGS {
            let floor = self.floor;
            self.tags.retain(|_, &mut other| other >= floor);
        }
        self.tags.insert(tag.to_owned(), number);
        Ok(())
    }
}

/// Faults, counted; and the keys with a change that was acknowledged since they were last counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    keys: usize,
    faults: BTreeMap<Fault, usize>,
    /// The first few.
    pub(crate) examples: Vec<String>,
}

impl Tally {
    pub(crate) fn count<T>(&mut self, ledger: &Ledger, judged: &Result<T, Finding>) {
        self.keys += usize::from(ledger.floor > ledger.counted);
        let Err((fault, told)) = judged else {
            return;
        };
        *self.faults.entry(*fault).or_default() += 1;
        self.examples.push(format!("{fault:?}: {told}"));
        self.examples.truncate(5);
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.keys += other.keys;
        for (fault, count) in other.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        self.examples.extend(other.examples);
        self.examples.truncate(5);
    }

    pub(crate) fn of(&self, fault: Fault) -> usize {
        self.faults.get(&fault).copied().unwrap_or(0)
    }

    /// Keys that are not as they were acknowledged.
    pub(crate) fn losses(&self) -> usize {
        self.faults.values().sum()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { keys, faults, .. } = self;
        write!(f, "{keys} acknowledged keys, broken: {faults:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, Ledger, Number, Response};
    use crate::value::{length, value};

    fn answer(status: u16, tag: &str, body: &[u8]) -> Response {
        Response {
            status,
            headers: vec![("etag".to_owned(), tag.to_owned())],
            body: body.to_vec(),
        }
    }

    fn of(number: Number) -> Vec<u8> {
        value("k", number)
    }

    /// A key that was written twice, `a` and `b`, and these changes, which were not answered.
    fn written_twice(unanswered: &[bool]) -> Ledger {
        let mut ledger = Ledger::new("k".into());
        for (number, tag) in [(1, "a"), (2, "b")] {
            assert!(length("k", number) > 16, "values that tell their number");
            assert_eq!(ledger.begin(false), number);
            assert_eq!(ledger.acknowledge(number, tag), Ok(()));
        }
        for &removes in unanswered {
            ledger.begin(removes);
        }
        ledger
    }

    fn fault(mut ledger: Ledger, status: u16, tag: &str, body: &[u8]) -> Option<Fault> {
        let judged = ledger.judge(ledger.floor(), &answer(status, tag, body));
        judged.err().map(|(fault, _)| fault)
    }

    #[test]
    fn what_was_acknowledged_or_may_have_been_made_is_taken() {
        assert_eq!(fault(written_twice(&[]), 200, "b", &of(2)), None);
        for unanswered in [&[false][..], &[false, true], &[true, false]] {
            assert_eq!(fault(written_twice(unanswered), 200, "b", &of(2)), None);
        }
        let met = fault(written_twice(&[false, false]), 200, "c", &of(3));
        assert_eq!(met, None);
        assert_eq!(fault(written_twice(&[false, true]), 404, "", b""), None);
    }

    #[test]
    fn each_broken_promise_has_its_name() {
        let (other, late, none) = (value("other", 2), &of(3), &[][..]);
        for (unanswered, status, tag, body, expected) in [
            (none, 200, "a", &of(1)[..], Fault::Older),
            (none, 404, "", b"", Fault::Missing),
            (&[false], 404, "", b"", Fault::Missing),
            (none, 200, "b", b"", Fault::Empty),
            (none, 200, "b", &of(2)[1..], Fault::Torn),
            (none, 200, "b", &other, Fault::Torn),
            // Never begun.
            (none, 200, "c", late, Fault::Torn),
            (none, 200, "a", &of(2), Fault::Tag),
            (none, 200, "c", &of(2), Fault::Tag),
            (&[false], 200, "b", late, Fault::Tag),
            (none, 500, "", b"", Fault::Answer),
        ] {
            let found = fault(written_twice(unanswered), status, tag, body);
            assert_eq!(found, Some(expected), "{unanswered:?}, {status}, {tag}");
        }
        let mut refused = written_twice(&[false]);
        refused.refuse(3);
        assert_eq!(fault(refused, 200, "c", &of(3)), Some(Fault::Unheard));
        let mut removed = written_twice(&[true]);
        assert_eq!(removed.acknowledge(3, ""), Ok(()));
        assert_eq!(fault(removed, 200, "b", &of(2)), Some(Fault::Resurrected));
    }

    #[test]
    fn a_reader_may_meet_what_came_while_it_asked_and_nothing_older() {
        let mut ledger = written_twice(&[false]);
        let floor = ledger.floor();
        assert_eq!(ledger.acknowledge(3, "c"), Ok(()));
        assert_eq!(ledger.judge(floor, &answer(200, "b", &of(2))), Ok(2));
        assert_eq!(ledger.judge(floor, &answer(200, "c", &of(3))), Ok(3));
        let late = ledger.judge(ledger.floor(), &answer(200, "b", &of(2)));
        assert_eq!(late.map_err(|(fault, _)| fault), Err(Fault::Older));
    }

    #[test]
    fn of_two_empty_values_the_tag_tells_which_is_met() {
        let mut ledger = Ledger::new("k".into());
        let begin_empty = |ledger: &mut Ledger| loop {
            let number = ledger.begin(false);
            if length("k", number) == 0 {
                return number;
            }
            ledger.refuse(number);
        };
        let first = begin_empty(&mut ledger);
        assert_eq!(ledger.acknowledge(first, "a"), Ok(()));
        let (floor, second) = (ledger.floor(), begin_empty(&mut ledger));
        assert_eq!(ledger.judge(floor, &answer(200, "a", b"")), Ok(first));
        assert_eq!(ledger.judge(floor, &answer(200, "b", b"")), Ok(second));
        assert_eq!(ledger.acknowledge(second, "b"), Ok(()));
        assert_eq!(fault(ledger, 200, "c", b""), Some(Fault::Empty));
    }

    #[test]
    fn what_was_found_with_nothing_under_way_stays() {
        let mut ledger = written_twice(&[false, true]);
        assert_eq!(ledger.holds(), None);
        ledger.settle(2, &answer(200, "b", &of(2)));
        assert_eq!(ledger.holds(), Some(true));
        assert_eq!(fault(ledger, 404, "", b""), Some(Fault::Missing));
    }
}
