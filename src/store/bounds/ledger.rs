//! The ledger: what each key takes, and the sums of each bound over its keys.
//!
//! A key takes what its file does, or what a change brings that is admitted and not made yet, whichever is more: a change that fails or
//! is given up leaves nothing behind. Each change of a key goes through [`State::update`], which has the sums follow, so nothing drifts.
//! Beside what is taken, a sum knows what is about to go ([`Sums::leaving`]), what changes wait for ([`Sums::waiting`]), and what can
//! never go. Chooses nothing.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::names::Names;
use super::rule::{Bound, Total};
use super::uses::Uses;
use super::value::{Known, Value};

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
    /// The keys that a change is about to give a value, or to take it from.
    in_flight: HashMap<Box<str>, InFlight>,
    /// The changes that are admitted, and the evictions, that are neither made nor given up.
    pub under_way: usize,
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

/// Times of use and keys, in this order.
pub type Oldest = VecDeque<(i64, Box<str>)>;

#[derive(Debug, Default)]
struct InFlight {
    /// Bytes of the values that are admitted.
    arriving: Vec<u64>,
    /// Changes that move the value to another key.
    moving: u32,
    /// Its eviction is under way.
    is_evicted: bool,
}

/// What one key adds to the sums.
#[derive(Debug, Default, PartialEq, Eq)]
struct Charge {
    total: Total,
    leaving: Total,
    stuck: Total,
    frees_nothing: u64,
}

impl Sums {
    fn replace(&mut self, before: &Charge, after: &Charge) {
        self.total = self.total.replaced(before.total, after.total);
        self.leaving = self.leaving.replaced(before.leaving, after.leaving);
        self.stuck = self.stuck.replaced(before.stuck, after.stuck);
        let frees_nothing = self.frees_nothing + after.frees_nothing;
        self.frees_nothing = frees_nothing.saturating_sub(before.frees_nothing);
    }

    /// What is taken, or waited for, beside what goes.
    pub fn to_go(&self) -> Total {
        self.total.plus(self.waiting).minus(self.leaving)
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
        let is_stuck = value.is_some_and(Value::is_stuck);
        let frees_nothing = is_stuck || value.is_some_and(|value| value.known().frees_nothing());
        let stuck = if is_stuck { file } else { Total::default() };
        let frees_nothing = if frees_nothing { file.bytes } else { 0 };
        let Some(in_flight) = self.in_flight.get(key) else {
            return Charge {
                total: file,
                leaving: Total::default(),
                stuck,
                frees_nothing,
            };
        };
        let new = in_flight
            .arriving
            .iter()
            .max()
            .map(|&bytes| Total { bytes, keys: 1 });
        let new = new.unwrap_or_default();
        let file = if in_flight.moving > 0 {
            Total::default()
        } else {
            file
        };
        let is_evicted = in_flight.is_evicted;
        Charge {
            total: file.max(new),
            leaving: if is_evicted {
                file.max(new).replaced(new, Total::default())
            } else {
                Total::default()
            },
            stuck,
            frees_nothing,
        }
    }

    /// Has `change` change what is known of `key`, which has this value, and the sums of `bounds` follow. It answers the value from then on.
    pub fn update(
        &mut self,
        bounds: &[Bound],
        key: &str,
        change: impl FnOnce(&mut Self, Option<Arc<Value>>) -> Option<Arc<Value>>,
    ) {
        let value = self.names.value(key).cloned();
        let before = self.charge(key, value.as_deref());
        let value = change(self, value);
        let after = self.charge(key, value.as_deref());
        if before != after {
            for (at, scope) in scopes(bounds, key) {
                self.sum(at, scope, |sums| sums.replace(&before, &after));
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

    /// Notes what the file of `key` is, if there is one; `used` is its last use, where it is later than what is known of it.
    pub fn note(&mut self, bounds: &[Bound], key: &str, file: Option<Known>, used: i64) {
        self.update(bounds, key, |state, before| {
            let end_before = before.as_deref().and_then(Value::end);
            // Its other names take another part by now.
            state.recount |=
                before.as_deref().is_some_and(|it| it.known().is_linked) && file.is_none();
            let end = file.and_then(|file| file.end);
            if end != end_before {
                let entry = |end| (end, Box::<str>::from(key));
                end_before.map(|end| state.ends.remove(&entry(end)));
                state.ends.extend(end.map(entry));
            }
            let Some(file) = file else {
                state.names.remove(key).inspect(|value| value.forget());
                return None;
            };
            let value = before.unwrap_or_else(|| {
                let value = Arc::new(Value::new(file, used));
                state.names.insert(key, Some(Arc::clone(&value)));
                value
            });
            value.set_known(file);
            value.set_used(value.used().max(used));
            value.count.store(state.count, Relaxed);
            state.order(bounds, key, &value);
            Some(value)
        });
    }

    /// A change is admitted that brings `key` so many bytes, and takes the value of `source`, if it moves.
    pub fn arrive(&mut self, bounds: &[Bound], key: &str, bytes: u64, source: Option<&str>) {
        self.under_way += 1;
        self.fly(bounds, key, |it| it.arriving.push(bytes));
        source.inspect(|source| self.fly(bounds, source, |it| it.moving += 1));
    }

    /// That change is made, or given up.
    pub fn land(&mut self, bounds: &[Bound], key: &str, bytes: u64, source: Option<&str>) {
        self.under_way -= 1;
        self.fly(bounds, key, |it| {
            let at = it.arriving.iter().position(|&other| other == bytes);
            at.map(|at| it.arriving.swap_remove(at));
        });
        source.inspect(|source| self.fly(bounds, source, |it| it.moving -= 1));
    }

    /// The eviction of `key` begins or is over.
    pub fn evict(&mut self, bounds: &[Bound], key: &str, is_evicted: bool) {
        self.under_way = self.under_way + usize::from(is_evicted) - usize::from(!is_evicted);
        self.fly(bounds, key, |it| it.is_evicted = is_evicted);
    }

    /// True if the eviction of `key` is under way.
    pub fn is_evicted(&self, key: &str) -> bool {
        self.in_flight.get(key).is_some_and(|it| it.is_evicted)
    }

    /// True if a change of `key` is admitted, or its eviction is under way: its file may not be what is known of it.
    pub fn is_in_flight(&self, key: &str) -> bool {
        self.in_flight.contains_key(key)
    }

    /// Has `change` change what is under way of `key`.
    fn fly(&mut self, bounds: &[Bound], key: &str, change: impl FnOnce(&mut InFlight)) {
        self.update(bounds, key, |state, value| {
            let Some(there) = state.in_flight.get_mut(key) else {
                let mut new = InFlight::default();
                change(&mut new);
                state.in_flight.insert(key.into(), new);
                return value;
            };
            change(there);
            if there.arriving.is_empty() && there.moving == 0 && !there.is_evicted {
                state.in_flight.remove(key);
            }
            value
        });
    }
}
