//! The model of a key, which is a register with compare-and-swap, and of two folders with a key each, between which
//! values and the folders themselves move. It tells what each may hold after what clients, or hands, asked and were told.

use std::fmt;

/// A client that copies folders keeps what it has read in a place of its own.
const COPIES: usize = 8;

/// The tag of a write or move that no client has heard of. It may be any tag from [`UNHEARD`] on.
pub(crate) const UNTOLD: u32 = 0;

/// Tags from this number on were read, and no write or move was heard to have them.
pub(crate) const UNHEARD: u32 = 1 << 31;

/// The number of the write that the bytes are of, and that of the tag: of a value that never moved, the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Version {
    pub(crate) write: u32,
    pub(crate) tag: u32,
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tag = if self.tag >= UNHEARD { "unheard " } else { "" };
        write!(f, "{} {tag}{}", self.write, self.tag % UNHEARD)
    }
}

impl Version {
    pub(crate) fn of(write: u32) -> Self {
        Self { write, tag: write }
    }

    /// True if it may be `other`, as far as its tag is known.
    fn may_be(self, other: Self) -> bool {
        let may_have = self.tag == UNTOLD && other.tag >= UNHEARD;
        self.write == other.write && (self.tag == other.tag || may_have)
    }
}

/// What a register holds.
pub(crate) type Value = Option<Version>;

/// What two registers hold, and each COPY of a folder that has read a value and not yet written it.
pub(super) type Values = [Value; 2 + COPIES];

pub(super) const EMPTY: Values = [None; 2 + COPIES];

/// When a write may be done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Only {
    Always,
    /// `If-Match` with the tag of this version.
    Over(Version),
    /// `If-Match: *`
    Any,
    /// `If-None-Match: *`
    New,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Asked {
    Get,
    Put(Version, Only),
    Delete(Only),
    /// To the other register, where it has this tag, under conditions of both.
    Move(u32, Only, Only),
    /// A COPY, whose ends are looked at one after the other: one that was refused. Another is a read of the one and a
    /// write of the other.
    Copy(Only, Only),
    /// The folder of the register gets the name of the other's, [`Only::New`], or a hand moves the file of the value.
    /// The value keeps its tag.
    Rename(Only),
    /// A try of a MOVE, which is made again because a hand has moved the file: the value has another tag since.
    Retag,
    /// A COPY of a folder by this client reads the value, which it does not tell.
    CopyReads(usize),
    /// The same COPY writes what it has read.
    CopyWrites(usize, Only),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Told {
    Read(Value),
    Done,
    /// 412
    Refused,
    /// DELETE, MOVE: 404
    Absent,
    /// The client never heard: it happened at any time from the call on, or never.
    Unknown,
}

#[derive(Clone, Copy)]
pub(crate) struct Event {
    /// Of which of two registers: 0 where there is one.
    pub(crate) of: usize,
    pub(crate) by_hand: bool,
    /// A hand and a client changed the registers at one moment. The server looks and then changes: a condition may not
    /// hold any more.
    pub(crate) collides: bool,
    /// One of them moved a folder at that moment. The other walks from folder to folder: what it writes may come into the
    /// one that was moved.
    pub(crate) strays: bool,
    pub(crate) asked: Asked,
    pub(crate) told: Told,
    pub(crate) call: u64,
    pub(crate) back: u64,
}

/// What was asked and told between these moments.
pub(crate) fn at(call: u64, back: u64, asked: Asked, told: Told) -> Event {
    Event {
        of: 0,
        by_hand: false,
        collides: false,
        strays: false,
        asked,
        told,
        call,
        back,
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            of,
            call,
            back,
            asked,
            told,
            ..
        } = self;
        let back = if *told == Told::Unknown {
            0
        } else {
            back / 1000
        };
        let by_hand = if self.by_hand { " by hand" } else { "" };
        let collides = match (self.collides, self.strays) {
            (_, true) => " beside a moved folder",
            (true, _) => " beside another",
            _ => "",
        };
        write!(
            f,
            "{}-{back} us, {of}: {asked:?}: {told:?}{by_hand}{collides}",
            call / 1000
        )
    }
}

impl Event {
    /// True if it may change something at another moment where it changes nothing at this one.
    pub(super) fn may_change(&self) -> bool {
        self.collides || matches!((self.asked, self.told), (Asked::Rename(_), Told::Done))
    }

    /// The versions that its client has read, now or before.
    pub(crate) fn known(&mut self) -> impl Iterator<Item = &mut Version> {
        let conditions = match &mut self.asked {
            Asked::Get | Asked::Retag | Asked::CopyReads(_) => [None, None],
            Asked::Put(_, only)
            | Asked::Delete(only)
            | Asked::Rename(only)
            | Asked::CopyWrites(_, only) => [Some(only), None],
            Asked::Move(_, from, to) | Asked::Copy(from, to) => [Some(from), Some(to)],
        };
        let read = match &mut self.told {
            Told::Read(value) => value.as_mut(),
            _ => None,
        };
        let over = conditions.into_iter().flatten();
        let over = over.filter_map(|only| match only {
            Only::Over(version) => Some(version),
            _ => None,
        });
        over.chain(read)
    }
}

impl Only {
    /// True if it may hold, as far as the tag of `value` is known.
    fn may_hold(self, value: Value) -> bool {
        match self {
            Self::Always => true,
            Self::Over(version) => value.is_some_and(|value| value.may_be(version)),
            Self::Any => value.is_some(),
            Self::New => value.is_none(),
        }
    }

    fn may_fail(self, value: Value) -> bool {
        match self {
            Self::Always => false,
            Self::Over(version) => value != Some(version),
            Self::Any => value.is_none(),
            Self::New => value.is_some(),
        }
    }
}

/// What the registers hold after `event`, if they can have told that while they held `values`.
pub(super) fn after(event: &Event, values: Values) -> Option<Values> {
    let (of, value, other) = (event.of, values[event.of], values[1 - event.of]);
    let mut then = values;
    match (event.asked, event.told) {
        (Asked::Get, Told::Read(None))
        | (Asked::Delete(_) | Asked::Move(..) | Asked::Rename(_), Told::Absent)
            if value.is_none() => {}
        (Asked::Get, Told::Read(Some(read))) if value.is_some_and(|it| it.may_be(read)) => {
            then[of] = Some(read);
        }
        (Asked::Put(version, only), Told::Done | Told::Unknown) if only.may_hold(value) => {
            then[of] = Some(version);
        }
        (Asked::Put(_, only), Told::Refused) if only.may_fail(value) => {}
        (Asked::Delete(only), Told::Done | Told::Unknown) if only.may_hold(value) => {
            value?;
            then[of] = None;
        }
        (Asked::Delete(only), Told::Refused) if only.may_fail(value) => drop(value?),
        (Asked::Move(tag, from, to), Told::Done | Told::Unknown)
            if from.may_hold(value) && to.may_hold(other) =>
        {
            then[1 - of] = Some(Version { tag, ..value? });
            then[of] = None;
        }
        (Asked::Move(_, from, to), Told::Refused) if from.may_fail(value) || to.may_fail(other) => {
            value?;
        }
        (Asked::Copy(from, to), Told::Refused) if from.may_fail(value) || to.may_fail(other) => {}
        (Asked::Rename(to), Told::Done | Told::Unknown) if to.may_hold(other) => {
            // A folder may have no value.
            if value.is_some() || to != Only::New {
                then[1 - of] = Some(value?);
            }
            then[of] = None;
        }
        (Asked::Rename(to), Told::Refused) if to.may_fail(other) => drop(value?),
        (Asked::Retag, Told::Unknown) => {
            let tag = UNTOLD;
            then[of] = Some(Version { tag, ..value? });
        }
        (Asked::CopyReads(copy), Told::Done | Told::Unknown) => {
            let tag = UNTOLD;
            then[2 + copy] = Some(Version { tag, ..value? });
        }
        (Asked::CopyWrites(copy, to), Told::Done | Told::Unknown) if to.may_hold(other) => {
            then[1 - of] = Some(values[2 + copy]?);
            then[2 + copy] = None;
        }
        _ => return None,
    }
    Some(then)
}

/// All that the registers may hold after `event`.
pub(super) fn outcomes(event: &Event, values: Values) -> Vec<Values> {
    let mut all: Vec<_> = after(event, values).into_iter().collect();
    if let (Asked::Move(tag, from, _), Told::Unknown) = (event.asked, event.told)
        && let Some(value) = values[event.of]
        && from.may_hold(Some(value))
    {
        // A kill between leaves the old name with the new tag.
        let mut retagged = values;
        retagged[event.of] = Some(Version { tag, ..value });
        all.push(retagged);
    }
    if !event.collides {
        return all;
    }
    match event.told {
        Told::Refused | Told::Absent => all.push(values),
        // A hand took what was there.
        Told::Done if values[event.of].is_none() && !matches!(event.asked, Asked::Put(..)) => {
            all.push(values);
        }
        _ => {}
    }
    for of in [event.of, 1 - event.of]
        .into_iter()
        .take(if event.strays { 2 } else { 1 })
    {
        let asked = match event.asked {
            Asked::Put(version, _) => Asked::Put(version, Only::Always),
            Asked::Delete(_) => Asked::Delete(Only::Always),
            Asked::Move(tag, ..) => Asked::Move(tag, Only::Always, Only::Always),
            Asked::CopyWrites(copy, _) => Asked::CopyWrites(copy, Only::Always),
            other => other,
        };
        all.extend(after(
            &Event {
                of,
                asked,
                ..*event
            },
            values,
        ));
        if let Asked::Move(..) = event.asked {
            // A hand put another file there.
            let asked = Asked::Rename(Only::Always);
            let moves = Event {
                of,
                asked,
                ..*event
            };
            all.extend(after(&moves, values));
        }
    }
    all
}

/// True of a read, or of a COPY that was refused, while one of these `moves` was under way, if it may have met the tag
/// that the value is about to move with: it is given to the file just before the new name.
pub(super) fn is_early(event: &Event, values: Values, moves: &[Event]) -> bool {
    let Some(value) = values[event.of] else {
        return false;
    };
    let meets = |early: Version| match (event.asked, event.told) {
        (Asked::Get, Told::Read(Some(read))) => early.may_be(read),
        (Asked::Copy(from, _), Told::Refused) => from.may_fail(Some(early)),
        _ => false,
    };
    let moves = moves.iter().filter(|it| it.of == event.of);
    let mut meanwhile = moves.filter(|it| it.call <= event.back && event.call <= it.back);
    meanwhile.any(|it| match it.asked {
        Asked::Move(tag, from, _) => from.may_hold(Some(value)) && meets(Version { tag, ..value }),
        _ => false,
    })
}

/// Marks what collides: a change by hand, and one by a client, that were under way at one moment. What a client never
/// heard the end of may be made at any later moment.
pub(super) fn mark_collisions(events: &mut Vec<Event>) {
    let is_change = |event: &&Event| !matches!(event.told, Told::Read(_));
    let changes: Vec<Event> = events.iter().filter(is_change).copied().collect();
    let mut tries = Vec::new();
    for event in events.iter_mut().filter(|event| is_change(&&**event)) {
        let others = changes.iter().filter(|it| it.by_hand != event.by_hand);
        let meanwhile = others.filter(|it| it.call <= event.back && event.call <= it.back);
        for other in meanwhile {
            event.collides = true;
            event.strays |= other.asked == Asked::Rename(Only::New);
        }
        if event.collides && matches!(event.asked, Asked::Move(..)) {
            let (asked, told) = (Asked::Retag, Told::Unknown);
            tries.push(Event {
                asked,
                told,
                ..*event
            });
        }
    }
    events.append(&mut tries);
}
