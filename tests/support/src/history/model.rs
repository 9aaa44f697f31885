//! Two folders with two names each, and what clients and hands ask of them and are told.

use std::fmt;

/// Names of values: two in each of two folders.
pub const PLACES: usize = 4;

/// The tag of a value of which no answer told it. It may be any from [`UNHEARD`] on.
pub const UNTOLD: u16 = 0;

/// Tags from this number on were read, and no answer to a change had them.
pub const UNHEARD: u16 = 1 << 15;

/// The number of the write that the bytes are of, and that of the tag.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version {
    pub write: u16,
    pub tag: u16,
}

impl Version {
    /// True if it may be `other`, as far as their tags are known.
    pub fn may_be(self, other: Self) -> bool {
        let unheard = |a: u16, b: u16| a == UNTOLD && (b == UNTOLD || b >= UNHEARD);
        let is_tag =
            self.tag == other.tag || unheard(self.tag, other.tag) || unheard(other.tag, self.tag);
        self.write == other.write && is_tag
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tag = self.tag % UNHEARD;
        let unheard = if self.tag >= UNHEARD { "unheard " } else { "" };
        write!(f, "{} with tag {unheard}{tag}", self.write)
    }
}

pub type Value = Option<Version>;

/// What there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tree {
    pub values: [Value; PLACES],
    /// The number of the lock of each name; 0 of none.
    pub locks: [u16; PLACES],
    /// The folder is there also without a value, for certain.
    pub stays: [bool; 2],
}

impl Tree {
    pub fn has_values(&self, folder: usize) -> bool {
        self.values[2 * folder..][..2].iter().any(Option::is_some)
    }

    /// True if the folder may be missing. One that has lost its last value, or that a hand made, may be there.
    pub fn may_lack(&self, folder: usize) -> bool {
        !self.has_values(folder) && !self.stays[folder]
    }

    /// True if it is `other` once some values have gone.
    pub fn may_become(&self, other: &Self) -> bool {
        let mut pairs = self.values.iter().zip(&other.values);
        self.stays == other.stays && pairs.all(|(value, then)| then.is_none() || value == then)
    }

    /// The same with this lock.
    pub fn locked(mut self, place: usize, lock: u16) -> Self {
        self.locks[place] = lock;
        self
    }

    pub fn move_folder(&mut self, from: usize) {
        for name in 0..2 {
            self.values[2 * (1 - from) + name] = self.values[2 * from + name].take();
        }
        self.stays[1 - from] = std::mem::take(&mut self.stays[from]);
    }
}

/// When an operation may be done, by what one name has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Only {
    Always,
    /// `If-Match` with the tag of this version.
    Over(Version),
    /// An answer says that there was a value.
    Any,
    /// `If-None-Match: *`, or an answer says that there was none.
    New,
}

impl Only {
    pub fn may_hold(self, value: Value) -> bool {
        match self {
            Self::Always => true,
            Self::Over(version) => value.is_some_and(|value| value.may_be(version)),
            Self::Any => value.is_some(),
            Self::New => value.is_none(),
        }
    }

    pub fn may_fail(self, value: Value) -> bool {
        match self {
            Self::Always => false,
            Self::Over(version) => value != Some(version),
            Self::Any => value.is_none(),
            Self::New => value.is_some(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Asked {
    Get(usize),
    List,
    Put(usize, u16, Only),
    Delete(usize, Only),
    Move([usize; 2], [Only; 2]),
    Copy([usize; 2], [Only; 2]),
    Make(usize),
    MoveFolder(usize),
    /// With whether it replaces.
    CopyFolder(usize, bool),
    DeleteFolder(usize),
    /// With the number of the lock.
    Lock(usize, u16),
    Unlock(usize, u16),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Told {
    Read(Value),
    /// Which places a listing has.
    Listed([bool; PLACES]),
    /// With the tag of what was written, if there is one.
    Done(u16),
    /// So many values of a folder were copied or removed, or made by a LOCK.
    Count(u8),
    /// 412
    Refused,
    /// 404
    Absent,
    /// 204 of a client of S3: there is no value, whether there was one or not.
    Gone,
    /// MKCOL: 405
    Taken,
    /// 423
    Locked,
    /// It may have been done, in part, or not at all.
    Unknown,
}

/// How a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    #[default]
    Http,
    S3,
    /// By S3, in parts.
    Parts,
}

/// What was done at one moment with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Meeting {
    Nobody,
    /// Something that changed nothing, or was asked by one of the same kind, client or hand.
    Someone,
    /// A change by the other kind.
    Change,
    /// The other kind moved a folder.
    MovedFolder,
}

/// What a client or a hand did between two moments.
#[derive(Clone, Copy, PartialEq)]
pub struct Event {
    pub by_hand: bool,
    pub by: By,
    pub meets: Meeting,
    /// A cut of power came: a MOVE that was not answered may have kept the tag.
    pub is_cut: bool,
    pub asked: Asked,
    /// The number of the lock whose token was shown; 0 of none.
    pub shown: u16,
    pub told: Told,
    pub call: u64,
    pub back: u64,
}

/// What was asked and told between these moments.
pub fn at(call: u64, back: u64, asked: Asked, told: Told) -> Event {
    Event {
        by_hand: false,
        by: By::Http,
        meets: Meeting::Nobody,
        is_cut: false,
        asked,
        shown: 0,
        told,
        call,
        back,
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [call, back] = [self.call, self.back].map(|time| time / 1000);
        let by_hand = if self.by_hand { " by hand" } else { "" };
        let (asked, told, shown, by) = (self.asked, self.told, self.shown, self.by);
        write!(
            f,
            "{call}-{back} us: {by:?}: {asked:?} with {shown}: {told:?}{by_hand}"
        )
    }
}

impl Event {
    /// True of a request, if a hand changed something at one moment with it.
    pub fn collides(&self) -> bool {
        !self.by_hand && self.meets >= Meeting::Change
    }

    /// True if what it is about to write may come into a folder that was moved.
    pub fn strays(&self) -> bool {
        self.meets == Meeting::MovedFolder
    }

    /// True if it changes nothing, whenever it happens.
    pub fn is_pure(&self) -> bool {
        let is_move = matches!(self.asked, Asked::Move(..));
        let reads = matches!(self.told, Told::Read(_) | Told::Listed(_));
        let is_lock = matches!(self.asked, Asked::Lock(..));
        let refused = matches!(self.told, Told::Refused | Told::Absent | Told::Locked);
        reads || refused && !(is_lock || is_move && self.collides())
    }

    /// The places whose values it may change.
    pub fn changed(&self) -> Vec<usize> {
        match self.asked {
            Asked::Put(place, ..) | Asked::Delete(place, _) | Asked::Copy([_, place], _) => {
                vec![place]
            }
            Asked::Move(places, _) => places.into(),
            _ => Vec::new(),
        }
    }

    /// The places that it looks at or changes, as bits.
    pub fn touched(&self) -> u8 {
        match self.asked {
            Asked::Get(place) | Asked::Put(place, ..) | Asked::Delete(place, _)
                if !self.strays() =>
            {
                1 << place
            }
            Asked::Move(places, _) | Asked::Copy(places, _) if !self.strays() => {
                1 << places[0] | 1 << places[1]
            }
            _ => 0b1111,
        }
    }

    /// The version that its client has read, now or before.
    pub fn known(&mut self) -> impl Iterator<Item = &mut Version> {
        let conditions = match &mut self.asked {
            Asked::Put(_, _, only) | Asked::Delete(_, only) => vec![only],
            Asked::Move(_, both) | Asked::Copy(_, both) => both.iter_mut().collect(),
            _ => Vec::new(),
        };
        let over = conditions.into_iter().filter_map(|only| match only {
            Only::Over(version) => Some(version),
            _ => None,
        });
        let read = match &mut self.told {
            Told::Read(value) => value.as_mut(),
            _ => None,
        };
        over.chain(read)
    }
}
