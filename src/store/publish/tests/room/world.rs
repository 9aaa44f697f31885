//! The model's kernel: files whose removal may fail or gain nothing, beside the account and the room of the server
//! itself.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rustix::io::Errno;

use super::super::super::super::bounds::{self, Account, Choice, Total, Victim};
use super::super::super::super::new_value::Source;
use super::super::super::change::{ChangeRequest, FolderChange, Plan};
use super::super::super::decide::{Files, Made, plan};
use crate::store::space::Free;
use crate::value::{Error, Key, Meta, Version};

const BLOCK: u64 = 4096;

/// What comes of the removal of an old value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Goes,
    /// It fails: the value lies in a snapshot, or is a mount.
    Fails,
    /// It fails once.
    FailsOnce,
    /// It goes, and its blocks stay taken on the disk: they have another name.
    GainsNothing,
    /// It is used once, after the removal was decided.
    Used,
}

pub(super) const FATES: [Fate; 5] = [
    Fate::Goes,
    Fate::Fails,
    Fate::FailsOnce,
    Fate::GainsNothing,
    Fate::Used,
];

/// Where room lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    Bound,
    /// The disk, as it is known before a value is written.
    Floor,
    /// The disk, as a write tells.
    Kernel,
}

/// What a writer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) key: &'static str,
    pub(super) blocks: u64,
    pub(super) allows: bool,
}

pub(super) const MENU: [Ask; 5] = [
    Ask {
        key: "a",
        blocks: 1,
        allows: true,
    },
    Ask {
        key: "b",
        blocks: 2,
        allows: true,
    },
    Ask {
        key: "c",
        blocks: 5,
        allows: true,
    },
    // It is a folder.
    Ask {
        key: "d",
        blocks: 2,
        allows: true,
    },
    Ask {
        key: "e",
        blocks: 2,
        allows: false,
    },
];

/// A fault of [`World`], to see it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Planted {
    Nothing,
    /// A value whose removal failed is chosen again.
    NotStuck,
    /// Values are removed for a change before it is known that nothing else refuses it.
    RoomFirst,
    /// After the first removals no more are made for the change.
    GivesUp,
}

/// The kernel's view of the files, and the account and the room of them.
pub(super) struct World {
    pub(super) full: Full,
    pub(super) planted: Planted,
    /// Blocks, by key.
    pub(super) files: RefCell<BTreeMap<String, u64>>,
    pub(super) account: Arc<Account>,
    /// Blocks that are free on the disk, and that the bound has.
    pub(super) free: Cell<u64>,
    pub(super) max: u64,
    pub(super) fates: RefCell<BTreeMap<String, (Fate, Arc<AtomicUsize>)>>,
    /// How many values each key had removed, and whether none could be at last.
    pub(super) evicted: RefCell<BTreeMap<String, (usize, bool)>>,
    pub(super) blocks: BTreeMap<&'static str, u64>,
}

fn lack() -> Error {
    Error::NoSpace("full".into())
}

impl World {
    /// Full of one value for each of the `fates`, each second of them of three blocks.
    pub(super) fn new(full: Full, fates: &[Fate], planted: Planted) -> Self {
        let name = |n: usize| format!("old{n:05}");
        let old = (0..fates.len()).map(|n| (name(n), 1 + n as u64 % 2 * 2));
        let old: BTreeMap<_, _> = old.collect();
        let fates = (0..).zip(fates);
        let fates = fates.map(|(n, fate)| (name(n), (*fate, Arc::default())));
        let is_bound = full == Full::Bound;
        let blocks: u64 = old.values().sum();
        let max = if is_bound { blocks } else { 1 << 20 };
        let account = Account::of_blocks(max);
        for (key, blocks) in &old {
            account.place(key, Some(blocks * BLOCK));
        }
        Self {
            full,
            planted,
            account,
            free: Cell::new(if is_bound { 1 << 20 } else { 0 }),
            max,
            files: RefCell::new(old),
            fates: RefCell::new(fates.collect()),
            evicted: RefCell::default(),
            blocks: MENU.iter().map(|ask| (ask.key, ask.blocks)).collect(),
        }
    }

    fn blocks(&self, key: &Key<'_>) -> u64 {
        self.blocks.get(key.as_str()).copied().unwrap_or(1)
    }

    /// What comes of the removal of `key`; what a writer has stored goes.
    fn fate(&self, key: &str) -> (Fate, Arc<AtomicUsize>) {
        let fate = self.fates.borrow().get(key).cloned();
        fate.unwrap_or((Fate::Goes, Arc::default()))
    }

    fn free(&self) -> Free {
        Free {
            bytes: self.free.get() * BLOCK,
            ..Free::default()
        }
    }

    /// Admits the value of `change`, where it has room.
    fn admit(&self, change: &mut ChangeRequest) -> Result<(), Error> {
        let mut room = change.room.take();
        let ask = self.ask(&change.key);
        let admitted = self.account.admit(&mut room, &ask);
        change.room = room;
        admitted?;
        let is_full = self.full == Full::Floor && self.blocks(&change.key) > self.free.get();
        if is_full { Err(lack()) } else { Ok(()) }
    }

    fn ask<'a>(&self, key: &'a Key<'_>) -> bounds::Ask<'a> {
        bounds::Ask {
            key: key.as_str(),
            bytes: self.blocks(key) * BLOCK,
            source: None,
            staged: 0,
        }
    }

    /// Who goes for `change`.
    fn choose(&self, change: &ChangeRequest) -> Choice {
        let held = change.room.as_ref();
        let ask = self.ask(&change.key);
        let in_bounds = held.and_then(|held| self.account.for_change(held, &ask));
        in_bounds.unwrap_or_else(|| {
            let lacks = self
                .blocks(&change.key)
                .saturating_sub(self.free.get())
                .max(1);
            let lacks = Total {
                bytes: lacks * BLOCK,
                keys: 0,
            };
            self.account
                .for_disk(Some(self.free()), lacks, &[change.key.as_str()])
        })
    }
}

impl Files for World {
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    fn find(&self, change: &ChangeRequest) -> Result<Option<Meta>, Error> {
        if self.planted == Planted::RoomFirst
            && change.value().is_some()
            && self.blocks(&change.key) > self.free.get()
        {
            return Err(lack());
        }
        if change.key.as_str() == "d" {
            return Err(Error::Occupied(String::new()));
        }
        let is_there = self.files.borrow().contains_key(change.key.as_str());
        Ok(is_there.then(|| Meta::new(1, Version::from_nanos(1))))
    }

    fn find_source(&self, _: &Source, _: &Key<'_>) -> Result<Option<Meta>, Error> {
        Ok(None)
    }

    fn result(&self, change: &mut ChangeRequest, _: Option<Meta>) -> Result<Option<Meta>, Error> {
        if change.value().is_none() {
            return Ok(None);
        }
        self.admit(change)?;
        Ok(Some(Meta::new(1, Version::from_nanos(1))))
    }

    fn change_folder(&self, _: &Key<'_>, _: &FolderChange) -> Result<(), Error> {
        Ok(())
    }

    fn stage(&self, change: &mut ChangeRequest, _: Plan) -> Result<(), Error> {
        if change.value().is_some() && self.blocks(&change.key) > self.free.get() {
            return Err(Error::new("write", Errno::NOSPC));
        }
        Ok(())
    }

    fn make(&self, change: &mut ChangeRequest, _: Plan) -> Result<bool, Error> {
        let key = change.key.as_str().to_owned();
        let blocks = self.blocks(&change.key);
        if change.value().is_some() {
            self.free
                .set(self.free.get().checked_sub(blocks).ok_or_else(lack)?);
            let before = self.files.borrow_mut().insert(key, blocks);
            self.free.set(self.free.get() + before.unwrap_or(0));
            self.account
                .place(change.key.as_str(), Some(blocks * BLOCK));
            return Ok(true);
        }
        match self.fate(&key).0 {
            Fate::FailsOnce => {}
            Fate::Fails => return Err(Error::ReadOnly),
            fate => {
                let went = self.files.borrow_mut().remove(&key).expect("a value");
                let is_free = fate != Fate::GainsNothing;
                self.free
                    .set(self.free.get() + if is_free { went } else { 0 });
                self.account.place(&key, None);
                return Ok(true);
            }
        }
        self.fates.borrow_mut().get_mut(&key).expect("it").0 = Fate::Goes;
        Err(Error::Exhausted("memory"))
    }

    fn make_at_once(&self, change: &mut ChangeRequest) -> Made {
        let current = self.find(change)?;
        let Some(plan) = plan(self, change, current)? else {
            return Ok(None);
        };
        self.stage(change, plan)?;
        Ok(Some((plan, self.make(change, plan)?)))
    }

    fn evictions(&self, change: &ChangeRequest, error: Error) -> Result<Vec<ChangeRequest>, Error> {
        let mut evicted = self.evicted.borrow_mut();
        let (count, none_left) = evicted.entry(change.key.as_str().to_owned()).or_default();
        if self.planted == Planted::GivesUp && *count > 0 {
            return Err(error);
        }
        let victims = match self.choose(change) {
            Choice::Evict(victims) => victims,
            Choice::Wait => Vec::new(),
            Choice::Nobody(why) => {
                *none_left = true;
                return Err(why.unwrap_or(error));
            }
        };
        *count += victims.len();
        let evict = |victim: Victim| {
            let (fate, asked) = self.fate(victim.key.as_str());
            let (account, key) = (Arc::clone(&self.account), victim.key.clone());
            let mut eviction = ChangeRequest::eviction(victim);
            let allows = eviction.condition.take().expect("a condition");
            eviction.condition = Some(Box::new(move |current| {
                if fate == Fate::Used && asked.fetch_add(1, Relaxed) == 1 {
                    account.use_again(key.as_str());
                }
                allows(current)
            }));
            eviction
        };
        Ok(victims.into_iter().map(evict).collect())
    }

    fn evicted(&self) {
        self.account.gone(|| Some(self.free()));
    }

    fn withdraw(&self, change: &mut ChangeRequest, error: Option<&Error>) {
        change.room = None;
        let is_stuck = error.is_some_and(|error| !matches!(error, Error::Precondition));
        if change.removal().is_some() && is_stuck && self.planted != Planted::NotStuck {
            self.account.set_stuck(change.key.as_str(), true);
        }
    }
}
