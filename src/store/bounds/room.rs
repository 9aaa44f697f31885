//! Room for what is to be stored: who goes for it, in the bounds of its key and on the disk.
//!
//! All that needs room asks here. Room is made until nothing lacks, or until no value is left that can be evicted: no
//! count ends it. Only what lacks is evicted. A snapshot keeps the blocks of what is removed: where evictions have
//! given the disk nothing, no value is evicted for it until its free space has changed. Removes nothing: the caller has
//! the publisher remove the victims, and asks again.

use std::sync::Arc;

use super::account::Account;
use super::admission::{Ask, RoomReservation};
use super::ledger::From;
use super::ledger::Round;
use super::rule::Total;
use super::victim::Victim;
use crate::store::space::Free;
use crate::value::Error;

/// The part of what was evicted that is to be free after that, so that it has helped.
const GAIN: u64 = 8;

/// Rounds of evictions in a row that have given the disk nothing, after which others would not either. Of one that is
/// not known: others may have taken what it gave, and the blocks of a large file are freed a little later.
pub(super) const IN_VAIN: u32 = 8;

/// Who goes.
pub enum Choice {
    /// These, and then it is to be asked again.
    Evict(Vec<Victim>),
    /// Changes or evictions are under way: once one of them is over, it is to be asked again.
    Wait,
    /// No value is left that can be evicted; the refusal of the bound, where one lacks room.
    Nobody(Option<Error>),
}

impl Total {
    /// What lacks, where so much is `free`, for `bytes` of the disk and the inodes of so many `files`.
    pub fn lacking(free: Option<Free>, bytes: u64, files: u64) -> Self {
        let inodes = free.and_then(|free| free.inodes);
        Self {
            bytes: bytes.saturating_sub(free.map_or(0, Free::beyond_floor)),
            keys: inodes.map_or(0, |free| files.saturating_sub(free)),
        }
    }
}

impl Account {
    /// Who goes for the value of `ask`, which has not been admitted by `held`; `None` where it has.
    pub fn for_change(self: &Arc<Self>, held: &RoomReservation, ask: &Ask<'_>) -> Option<Choice> {
        let except = [ask.key, ask.source.unwrap_or(ask.key)];
        let waits_for = held.waits_for.as_ref()?;
        if waits_for.is_empty() {
            return Some(Choice::Nobody(None));
        }
        let look = || {
            let (state, mut lacks) = (self.state.lock(), Vec::new());
            for (at, scope, needs) in waits_for {
                let Some(sums) = state.scopes[*at].get(scope) else {
                    continue;
                };
                let beyond = sums.to_go().beyond(&self.bounds[*at]);
                let is_let_in = self.evicts(*at) && sums.lets_in(*needs, beyond);
                if !beyond.is_zero() && !is_let_in {
                    lacks.push((*at, scope, beyond));
                }
            }
            (lacks, state.under_way > 0)
        };
        let (lacks, is_under_way) = look();
        for (at, scope, beyond) in &lacks {
            let is_in = |key: &str| self.bounds[*at].prefix.scope(key) == Some(scope);
            let mut victims = self.victims_of_end(is_in);
            if victims.is_empty() && self.evicts(*at) {
                victims = self.oldest(From::Bound, (*at, scope), *beyond, i64::MAX, &except);
            }
            if !victims.is_empty() {
                return Some(Choice::Evict(victims));
            }
        }
        Some(match lacks.first() {
            // Others may have chosen those that were left meanwhile.
            Some((at, scope, _)) if !is_under_way && look() == (lacks.clone(), false) => {
                Choice::Nobody(Some(self.refusal(*at, scope)))
            }
            _ => Choice::Wait,
        })
    }

    /// Who goes so that the disk, of which so much is `free` now, has as much more as it `lacks`; never the values of
    /// `except`.
    pub fn for_disk(self: &Arc<Self>, free: Option<Free>, lacks: Total, except: &[&str]) -> Choice {
        let mut last = self.last_round.lock();
        let free = free.unwrap_or_default();
        if let Some(round) = &*last {
            if round.under_way.strong_count() > 0 {
                return Choice::Wait;
            }
            let is_same = |then: Free| {
                free.bytes.abs_diff(then.bytes) < round.expected / GAIN
                    && free.inodes == then.inodes
            };
            if round.in_vain.is_some_and(is_same) {
                return Choice::Nobody(None);
            }
        }
        let mut victims = self.ended();
        if victims.is_empty() {
            victims = self.victims_of_disk(lacks, except);
        }
        if victims.is_empty() && self.state.lock().leaving > 0 {
            return Choice::Wait;
        }
        if victims.is_empty() {
            *last = None;
            return Choice::Nobody(None);
        }
        let kept = Arc::new(());
        let before = last
            .as_ref()
            .filter(|it| it.is_judged && it.in_vain.is_none());
        let fruitless = before.map_or(0, |it| it.fruitless);
        *last = Some(Round {
            free,
            expected: victims.iter().map(|victim| victim.bytes).sum(),
            under_way: Arc::downgrade(&kept),
            is_judged: false,
            fruitless,
            in_vain: None,
        });
        for victim in &mut victims {
            victim.keep(Arc::clone(&kept));
        }
        Choice::Evict(victims)
    }

    /// Evictions are over; where they were for the disk, `free` tells what it has now.
    pub fn gone(&self, free: impl FnOnce() -> Option<Free>) {
        let mut last = self.last_round.lock();
        let round = last
            .as_mut()
            .filter(|it| it.under_way.strong_count() == 0 && !it.is_judged);
        if let Some(round) = round
            && let Some(free) = free()
        {
            let has_gained = free.bytes >= round.free.bytes + round.expected / GAIN
                || free.inodes > round.free.inodes;
            round.is_judged = true;
            round.fruitless = if has_gained { 0 } else { round.fruitless + 1 };
            round.in_vain = (round.fruitless >= IN_VAIN).then_some(free);
        }
    }
}
