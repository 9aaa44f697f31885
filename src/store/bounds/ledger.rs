//! The ledger: what each key takes, and the sums of each bound over its keys.
//!
//! A key takes what its file does, or what a change brings that is admitted and not made yet, whichever is more: a
//! change that fails or is given up leaves nothing behind. Each change of a key goes through [`State::update`], which
//! has the sums follow, so nothing drifts. Beside what is taken, a sum knows what is about to go ([`Sums::leaving`]),
//! what changes wait for ([`Sums::waiting`]), and what can never go. Chooses nothing.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::names::Names;
use super::rule::{Bound, Total};
use super::uses::Uses;
use super::value::{Known, Value};
use crate::store::space::Free;

/// The bounds that hold for `key`, by their numbers, and what each counts it by.
pub fn scopes<'k>(bounds: &[Bound], key: &'k str) -> impl Iterator<Item = (usize, &'k str)> {
    let bounds = bounds.iter().enumerate();
    bounds.filter_map(move |(at, bound)| Some((at, bound.prefix.scope(key)?)))
}

/// What is known of all names, under the lock of the account.
#[derive(Debug, Default)]
pub struct State {
    pub names: Names,
    /// For each bound, the sums by what it counts by.
    pub scopes: Vec<BTreeMap<Box<str>, Sums>>,
    /// The keys that a change is about to give a value, by the bytes of each, or to take it from (`None`).
    in_flight: BTreeMap<Box<str>, Vec<Option<u64>>>,
    /// The changes that are admitted, and the evictions, that are neither made nor given up.
    pub under_way: usize,
    /// The evictions among them.
    pub leaving: usize,
    /// The values that end, in that order.
    pub ends: BTreeSet<(u64, Box<str>)>,
    /// Prefixes of names that the index reads again, and since which count; those that it does not meet are gone.
    pub unseen: Vec<(Box<str>, u32)>,
    /// How often the index has looked at a name.
    pub looks: u64,
    /// The number of this count: higher each time that names are read again.
    pub count: u32,
    /// The uses that an earlier process has noted, until the first count ends.
    pub remembered: Uses,
    /// Names of files that were new when they were looked at, and when to look again.
    pub young: VecDeque<(i64, Box<str>)>,
    /// What is known is not what the files are, and only a count of all tells.
    pub recount: bool,
    /// The pass that chooses who goes, while one is under way.
    pub pass: Option<Pass>,
}

/// The sums of a bound, or of one name of it.
#[derive(Debug, Default)]
pub struct Sums {
    /// What is taken, and what the changes bring that are admitted.
    pub total: Total,
    /// The part of it whose eviction is under way.
    pub leaving: Total,
    /// What changes need that wait for room.
    pub waiting: Total,
    /// What uploads have on the disk that are to be published there.
    pub staged: u64,
    /// The part of the total that could not be evicted.
    pub stuck: Total,
    /// Bytes of the total whose eviction gives the disk nothing.
    pub frees_nothing: u64,
    /// While the total is above the bound: what has gone since, less twice what has come. Changes that bring half of it
    /// have room, so they do not wait until all of the rest has gone.
    pub credit: Total,
    /// The values used longest ago, when they were chosen last, in this order.
    pub oldest: Oldest,
    /// The same of those whose eviction gives the disk room.
    pub oldest_of_disk: Oldest,
}

/// The scopes that evictions for the disk take from, the largest first, as they were when all were compared.
#[derive(Debug, Default)]
pub struct Largest {
    pub scopes: BinaryHeap<(u64, usize, Box<str>)>,
    pub compared: Option<Instant>,
    /// None of them had a value that could go.
    pub is_exhausted: bool,
}

/// The last evictions for the disk.
#[derive(Debug)]
pub struct Round {
    /// The free space before.
    pub free: Free,
    /// Bytes that they were to give.
    pub expected: u64,
    /// Kept by each of them.
    pub under_way: Weak<()>,
    pub is_judged: bool,
    /// The rounds in a row up to this one that have given nothing.
    pub fruitless: u32,
    /// The free space when they were over, if there were so many of those that this is meant.
    pub in_vain: Option<Free>,
}

/// Which values are chosen from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// All that a bound counts.
    Bound,
    /// Those whose removal gives the disk room.
    Disk,
}

impl From {
    /// Those of them that were chosen last.
    pub fn order(self, sums: &mut Sums) -> &mut Oldest {
        let [oldest, oldest_of_disk] = sums.orders();
        match self {
            Self::Bound => oldest,
            Self::Disk => oldest_of_disk,
        }
    }

    /// True if `value` is one of them, and may go.
    pub fn has(self, value: &Value) -> bool {
        value.may_go() && (self == Self::Bound || !value.known().frees_nothing())
    }
}

/// A pass that is under way over the values of a scope.
#[derive(Debug)]
pub struct Pass {
    pub from: From,
    pub bound: usize,
    pub scope: Box<str>,
    /// Values that the scope has got meanwhile and that it may have passed by.
    pub late: Vec<(i64, Box<str>)>,
}

/// Times of use and keys, in this order.
pub type Oldest = VecDeque<(i64, Box<str>)>;

/// What one key adds to the sums.
#[derive(Debug, Default, PartialEq, Eq)]
struct Charge {
    total: Total,
    leaving: Total,
    stuck: Total,
    frees_nothing: u64,
}

impl Sums {
    fn replace(&mut self, bound: &Bound, before: &Charge, after: &Charge) {
        let had = self.total;
        self.total = had.replaced(before.total, after.total);
        self.credit = if self.total.beyond(bound).is_zero() {
            Total::default()
        } else {
            let (gone, come) = (had.minus(self.total), self.total.minus(had));
            self.credit.plus(gone).minus(come.plus(come))
        };
        self.leaving = self.leaving.replaced(before.leaving, after.leaving);
        self.stuck = self.stuck.replaced(before.stuck, after.stuck);
        let frees_nothing = self.frees_nothing + after.frees_nothing;
        self.frees_nothing = frees_nothing.saturating_sub(before.frees_nothing);
    }

    /// What is taken, or waited for, beside what goes.
    pub fn to_go(&self) -> Total {
        self.total.plus(self.waiting).minus(self.leaving)
    }

    /// True if a change that `needs` so much, and exceeds the bound by what is `beyond`, has room by what has gone.
    pub fn lets_in(&self, needs: Total, beyond: Total) -> bool {
        let lacks = needs.plus(needs).minus(self.credit);
        (beyond.bytes == 0 || lacks.bytes == 0) && (beyond.keys == 0 || lacks.keys == 0)
    }

    /// Bytes that evictions can give the disk.
    pub fn evictable(&self) -> u64 {
        let stays = self.leaving.bytes.saturating_add(self.frees_nothing);
        self.total.bytes.saturating_sub(stays)
    }

    /// The values that were chosen, in both orders.
    pub fn orders(&mut self) -> [&mut Oldest; 2] {
        [&mut self.oldest, &mut self.oldest_of_disk]
    }

    fn is_empty(&self) -> bool {
        self.total.keys == 0 && self.waiting.is_zero() && self.staged == 0
    }
}

impl State {
    /// Of nothing yet, for so many bounds.
    pub fn new(bounds: usize, remembered: Uses) -> Self {
        Self {
            scopes: (0..bounds).map(|_| BTreeMap::new()).collect(),
            count: 1,
            remembered,
            ..Self::default()
        }
    }

    /// The sum of one scope.
    pub fn total(&self, bound: usize, scope: &str) -> Total {
        let sums = self.scopes[bound].get(scope);
        sums.map_or(Total::default(), |sums| sums.total)
    }

    /// What is known of the file of `key`.
    pub fn known(&self, key: &str) -> Option<Known> {
        Some(self.names.value(key)?.known())
    }

    /// What `key` takes.
    pub fn taken(&self, key: &str) -> Total {
        let value = self.names.value(key).map(|value| &**value);
        self.charge(key, value).total
    }

    /// What `key` adds to the sums, whose file is that of `value`.
    fn charge(&self, key: &str, value: Option<&Value>) -> Charge {
        let file = value.map_or(Total::default(), Value::total);
        let in_flight = self.in_flight.get(key).map_or(&[][..], Vec::as_slice);
        let new = in_flight.iter().flatten().max();
        let new = new.map_or(Total::default(), |&bytes| Total::one(bytes));
        let moves = in_flight.contains(&None);
        let total = new.max(if moves { Total::default() } else { file });
        let file_if = |is: fn(&Value) -> bool| match value {
            Some(value) if is(value) => file,
            _ => Total::default(),
        };
        Charge {
            total,
            leaving: match value {
                Some(value) if value.is_leaving() => total.minus(new),
                _ => Total::default(),
            },
            stuck: file_if(Value::is_stuck),
            frees_nothing: file_if(|it| it.is_stuck() || it.known().frees_nothing()).bytes,
        }
    }

    /// Has `change` change what `key` adds to the sums of `bounds`, whose file is that of the first value before, and
    /// of the second then.
    pub fn recharge(
        &mut self,
        bounds: &[Bound],
        key: &str,
        [before, after]: [Option<&Value>; 2],
        change: impl FnOnce(&mut Self),
    ) {
        let before = self.charge(key, before);
        change(self);
        let after = self.charge(key, after);
        if before != after {
            for (at, scope) in scopes(bounds, key) {
                self.sum(at, scope, |sums| sums.replace(&bounds[at], &before, &after));
            }
        }
    }

    /// Has `change` change the sums of one scope.
    pub fn sum(&mut self, bound: usize, scope: &str, change: impl FnOnce(&mut Sums)) {
        let scopes = &mut self.scopes[bound];
        let Some(sums) = scopes.get_mut(scope) else {
            let mut sums = Sums::default();
            change(&mut sums);
            if !sums.is_empty() {
                scopes.insert(scope.into(), sums);
            }
            return;
        };
        change(sums);
        if sums.is_empty() {
            scopes.remove(scope);
        }
    }

    /// Notes what the file of `key` is, if there is one; `used` is its last use, where it is later than what is known
    /// of it. With `made`, the change that was to bring so many bytes has made it.
    pub fn note(
        &mut self,
        bounds: &[Bound],
        key: &str,
        (file, used): (Option<Known>, i64),
        made: Option<u64>,
    ) {
        let before = match file {
            Some(_) => self.names.value(key).cloned(),
            None => self.names.remove(key),
        };
        let end_before = before.as_deref().and_then(Value::end);
        let end = file.and_then(|file| file.end);
        if end != end_before {
            let entry = |end| (end, Box::<str>::from(key));
            end_before.map(|end| self.ends.remove(&entry(end)));
            self.ends.extend(end.map(entry));
        }
        let Some(file) = file else {
            // Its other names take another part by now.
            self.recount |= before.as_deref().is_some_and(|it| it.known().is_linked);
            self.recharge(bounds, key, [before.as_deref(), None], |_| {});
            before.inspect(|value| value.forget());
            return;
        };
        let value = before.clone().unwrap_or_else(|| {
            let value = Arc::new(Value::new(file, used));
            self.names.insert(key, Some(Arc::clone(&value)));
            value
        });
        self.recharge(bounds, key, [before.as_deref(), Some(&value)], |state| {
            made.inspect(|bytes| state.fly(key, Some(*bytes), false));
            value.set_known(file);
        });
        value.set_used(value.used().max(used));
        value.count.store(self.count, Relaxed);
        self.order(bounds, key, &value);
    }

    /// A change that is to bring `key` so many bytes, and takes the value of `source`, if it moves, is admitted, or is
    /// over.
    pub fn admit(
        &mut self,
        bounds: &[Bound],
        key: &str,
        bytes: u64,
        source: Option<&str>,
        begins: bool,
    ) {
        let source = source.map(|source| (source, None));
        for (key, what) in [(key, Some(bytes))].into_iter().chain(source) {
            let value = self.names.value(key).cloned();
            self.recharge(bounds, key, [value.as_deref(); 2], |state| {
                state.fly(key, what, begins);
            });
        }
    }

    /// The removal of the `value` of `key` by the server begins, or is over.
    pub fn leave(&mut self, bounds: &[Bound], key: &str, value: &Value, begins: bool) {
        for count in [&mut self.under_way, &mut self.leaving] {
            *count = *count + usize::from(begins) - usize::from(!begins);
        }
        if value.is_forgotten() {
            return;
        }
        self.recharge(bounds, key, [Some(value); 2], |_| {
            value.is_leaving.store(begins, Relaxed);
        });
        if !begins {
            // It stays: it may again be one of those used longest ago.
            self.order(bounds, key, value);
        }
    }

    /// True if a change of `key` is admitted: its file may not be what is known of it.
    pub fn is_in_flight(&self, key: &str) -> bool {
        self.in_flight.contains_key(key)
    }

    /// A change is about to do so with `key`, or that is over; a change that brings a value is one that is under way.
    fn fly(&mut self, key: &str, what: Option<u64>, begins: bool) {
        if begins {
            self.under_way += usize::from(what.is_some());
            return self.in_flight.entry(key.into()).or_default().push(what);
        }
        self.under_way -= usize::from(what.is_some());
        if let Some(there) = self.in_flight.get_mut(key) {
            let at = there.iter().position(|other| *other == what);
            at.map(|at| there.swap_remove(at));
            if there.is_empty() {
                self.in_flight.remove(key);
            }
        }
    }
}
