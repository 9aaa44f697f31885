//! What may come of an operation, step by step.
//!
//! Most operations are one step. A MOVE of a value may show its new entity tag just before its new name. A COPY reads
//! and then writes, and a COPY or DELETE of a folder treats each value by itself. Beside a hand the server looks, and
//! changes what is there by then; a folder that moves takes along what is about to be written into it.
//!
//! While a name is locked, what shows no token of the lock changes nothing there. A value that goes takes its lock
//! along.

use super::model::{Asked, Event, Meeting, Only, PLACES, Told, Tree, UNTOLD, Value, Version};

/// How far an operation has come that takes several steps.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Progress {
    phases: [u8; 2],
    /// Where it will write, if it has looked for that.
    places: [u8; 2],
    held: [Value; 2],
    count: u8,
}

impl Progress {
    /// A folder was moved, and what was found in it goes with it.
    pub fn follow(&mut self, folder: usize) {
        for place in &mut self.places {
            *place ^= if usize::from(*place) / 2 == folder {
                2
            } else {
                0
            };
        }
    }
}

const LOOKS: u8 = 0;
const RESOLVED: u8 = 1;
const CHECKED: u8 = 2;
const HAS_READ: u8 = 3;
const ENDED: u8 = 4;
const GOES: u8 = 5;

/// What may come of a step: how far the operation is then, `None` at its end, and what there is.
pub type Step = (Option<Progress>, Tree);

fn byte(place: usize) -> u8 {
    u8::try_from(place).expect("few places")
}

impl Event {
    /// All that may come of its next step.
    pub fn steps(&self, at: Progress, tree: Tree, steps: &mut Vec<Step>) {
        let is_locked = |place: usize| ![0, self.shown].contains(&tree.locks[place]);
        match (self.asked, self.told) {
            (Asked::Lock(place, lock), _) => return self.lock(at, place, lock, tree, steps),
            (Asked::Unlock(place, lock), _) => {
                let is_done = self.told == Told::Done(UNTOLD) && tree.locks[place] == lock;
                return steps.extend(is_done.then(|| (None, tree.locked(place, 0))));
            }
            (_, Told::Locked) => {
                let refuses = self.changed().into_iter().any(is_locked);
                return steps.extend(refuses.then_some((None, tree)));
            }
            (Asked::Delete(place, _) | Asked::Move([place, _], _), _) if at.phases[0] == GOES => {
                return steps.push((None, tree.locked(place, 0)));
            }
            _ => {}
        }
        self.steps_of_values(at, tree, steps);
        let is_kept = |place, then: &Tree| then.values[place] == tree.values[place];
        // A read may tell the tag of what is there.
        let reads = matches!(self.asked, Asked::Get(_));
        steps
            .retain(|(_, then)| reads || (0..PLACES).all(|it| is_kept(it, then) || !is_locked(it)));
        if let Asked::Delete(place, _) | Asked::Move([place, _], _) = self.asked
            && tree.locks[place] != 0
        {
            for (progress, then) in steps {
                if progress.is_none() && then.values[place].is_none() && !is_kept(place, then) {
                    *progress = Some(Progress {
                        phases: [GOES, 0],
                        ..at
                    });
                }
            }
        }
    }

    /// A LOCK that is granted, and then stores an empty value where there was none: if one has come meanwhile it ends.
    fn lock(&self, at: Progress, place: usize, lock: u16, tree: Tree, steps: &mut Vec<Step>) {
        let is_free = tree.locks[place] == 0;
        let (write, tag) = (0, UNTOLD);
        match self.told {
            // What is being changed is not locked.
            Told::Locked if !is_free || self.meets > Meeting::Nobody => steps.push((None, tree)),
            Told::Count(0) if is_free => steps.push((None, tree.locked(place, lock))),
            Told::Count(_) | Told::Refused if at.phases[0] == LOOKS && is_free => {
                let phases = [CHECKED, 0];
                let then = tree.locked(place, lock);
                steps.push((Some(Progress { phases, ..at }), then));
            }
            Told::Count(1) if at.phases[0] == CHECKED && tree.values[place].is_none() => {
                let mut then = tree;
                then.values[place] = Some(Version { write, tag });
                steps.push((None, then));
            }
            Told::Refused if at.phases[0] == CHECKED && tree.values[place].is_some() => {
                steps.push((None, tree.locked(place, 0)));
            }
            _ => {}
        }
    }

    fn steps_of_values(&self, at: Progress, tree: Tree, steps: &mut Vec<Step>) {
        if self.told == Told::Unknown {
            steps.push((None, tree));
        }
        let is_done = matches!(self.told, Told::Done(_) | Told::Unknown);
        match (self.asked, self.told) {
            (Asked::Get(place), Told::Read(read)) => steps.extend(saw(tree, place, read)),
            (Asked::List, Told::Listed(listed)) => list(at, tree, listed, steps),
            (Asked::Put(place, _, only), Told::Refused) if only.may_fail(tree.values[place]) => {
                steps.push((None, tree));
            }
            // By S3 a version that is expected where there is none is no such key.
            (Asked::Put(place, _, Only::Over(_)), Told::Absent) if tree.values[place].is_none() => {
                steps.push((None, tree));
            }
            (Asked::Put(place, write, only), _) if is_done => {
                let tag = self.tag();
                self.change(at, place, only, tree, steps, Some(Version { write, tag }));
            }
            (Asked::Delete(place, only), Told::Refused) => {
                let is_right = tree.values[place].is_some() && only.may_fail(tree.values[place]);
                steps.extend(is_right.then_some((None, tree)));
            }
            (Asked::Delete(place, _), Told::Absent | Told::Gone)
                if tree.values[place].is_none() =>
            {
                steps.push((None, tree));
            }
            (Asked::Delete(place, only), told) if is_done || told == Told::Gone => {
                self.change(at, place, only, tree, steps, None);
            }
            (Asked::Move(places, onlys), _) => self.move_value(at, places, onlys, tree, steps),
            (Asked::Copy(places, onlys), _) => self.copy(at, places, onlys, tree, steps),
            (Asked::Make(folder), _) => self.make(folder, tree, steps),
            (Asked::MoveFolder(folder), _) => self.move_folder(folder, tree, steps),
            (Asked::CopyFolder(folder, _) | Asked::DeleteFolder(folder), Told::Absent)
                if tree.may_lack(folder) =>
            {
                steps.push((None, tree));
            }
            (Asked::CopyFolder(folder, replaces), Told::Count(_) | Told::Unknown) => {
                self.of_each(at, folder, tree, steps, Some(replaces));
            }
            (Asked::DeleteFolder(folder), Told::Count(_) | Told::Unknown) => {
                self.of_each(at, folder, tree, steps, None);
            }
            _ => {}
        }
    }

    /// The tag of what it wrote.
    fn tag(&self) -> u16 {
        match self.told {
            Told::Done(tag) => tag,
            _ => UNTOLD,
        }
    }

    /// Writes `new` under one name, or removes what has it, if a condition holds.
    fn change(
        &self,
        at: Progress,
        place: usize,
        only: Only,
        tree: Tree,
        steps: &mut Vec<Step>,
        new: Value,
    ) {
        let [phase, _] = at.phases;
        let place = if matches!(phase, RESOLVED | CHECKED) {
            at.places[0].into()
        } else {
            place
        };
        let go_on = |phase| Progress {
            phases: [phase, 0],
            places: [byte(place), 0],
            ..at
        };
        if self.strays() && matches!(phase, LOOKS | HAS_READ) {
            steps.push((Some(go_on(RESOLVED)), tree));
        }
        let old = tree.values[place];
        if phase != CHECKED && !only.may_hold(old) || new.is_none() && old.is_none() {
            return;
        }
        if self.collides() && phase != CHECKED {
            steps.push((Some(go_on(CHECKED)), tree));
        }
        let mut then = tree;
        then.values[place] = new;
        steps.push((None, then));
    }

    fn move_value(
        &self,
        at: Progress,
        places: [usize; 2],
        onlys: [Only; 2],
        tree: Tree,
        steps: &mut Vec<Step>,
    ) {
        let [phase, _] = at.phases;
        let [from, to] = if phase == LOOKS {
            places
        } else {
            at.places.map(usize::from)
        };
        let go_on = |phase| Progress {
            phases: [phase, 0],
            places: [byte(from), byte(to)],
            ..at
        };
        if self.strays() && phase == LOOKS {
            steps.push((Some(go_on(RESOLVED)), tree));
        }
        let Some(source) = tree.values[from] else {
            steps.extend((self.told == Told::Absent).then_some((None, tree)));
            return;
        };
        if self.collides() && phase != CHECKED {
            Self::try_move(go_on(phase.max(RESOLVED)), tree, steps);
        }
        let moved = |value| {
            let mut then = tree;
            then.values[from] = None;
            then.values[to] = Some(value);
            (None, then)
        };
        let fails = onlys[0].may_fail(Some(source)) || onlys[1].may_fail(tree.values[to]);
        let holds = onlys[0].may_hold(Some(source)) && onlys[1].may_hold(tree.values[to]);
        match self.told {
            Told::Refused if fails => steps.push((None, tree)),
            Told::Done(_) | Told::Unknown if self.by_hand => steps.push(moved(source)),
            Told::Done(_) | Told::Unknown if phase == CHECKED => {
                let is_it = self.collides() || at.held[0].is_some_and(|held| held.may_be(source));
                steps.extend(is_it.then(|| moved(source)));
            }
            Told::Done(_) | Told::Unknown if holds => {
                let retagged = Version {
                    tag: self.tag(),
                    ..source
                };
                steps.push(moved(retagged));
                if self.is_cut && self.told == Told::Unknown {
                    steps.push(moved(source));
                }
                if self.meets > Meeting::Nobody || self.told == Told::Unknown {
                    let mut then = tree;
                    then.values[from] = Some(retagged);
                    let held = [Some(retagged), None];
                    steps.push((
                        Some(Progress {
                            held,
                            ..go_on(CHECKED)
                        }),
                        then,
                    ));
                }
            }
            _ => {}
        }
    }

    /// Beside a hand a MOVE gives the value a tag, may find another file or folder there, and gives it the old one
    /// back.
    fn try_move(at: Progress, tree: Tree, steps: &mut Vec<Step>) {
        let from = usize::from(at.places[0]);
        let Some(source) = tree.values[from] else {
            return;
        };
        let mut then = tree;
        let mut step = |version, held, count| {
            then.values[from] = Some(version);
            steps.push((Some(Progress { held, count, ..at }), then));
        };
        match at.held[1] {
            _ if at.count == 0 => step(
                Version {
                    tag: UNTOLD,
                    ..source
                },
                [None, Some(source)],
                1,
            ),
            Some(before) if at.count == 1 && before.write == source.write => {
                step(before, [None; 2], 2);
            }
            _ => {}
        }
    }

    fn copy(
        &self,
        at: Progress,
        [from, to]: [usize; 2],
        onlys: [Only; 2],
        tree: Tree,
        steps: &mut Vec<Step>,
    ) {
        let source = tree.values[from];
        let fails = onlys[0].may_fail(source) || onlys[1].may_fail(tree.values[to]);
        // As for a PUT.
        let is_missing = matches!(onlys[1], Only::Over(_)) && tree.values[to].is_none();
        match self.told {
            Told::Absent if source.is_none() || is_missing => steps.push((None, tree)),
            Told::Refused if fails => steps.push((None, tree)),
            Told::Done(_) | Told::Unknown if at.phases[0] == LOOKS => {
                let reads = source.is_some() && onlys[0].may_hold(source);
                let phases = [HAS_READ, 0];
                let held = [source, None];
                steps.extend(reads.then_some((Some(Progress { phases, held, ..at }), tree)));
            }
            Told::Done(_) | Told::Unknown => {
                let tag = self.tag();
                let new = at.held[0].map(|read| Version { tag, ..read });
                self.change(at, to, onlys[1], tree, steps, new);
            }
            _ => {}
        }
    }

    fn make(&self, folder: usize, tree: Tree, steps: &mut Vec<Step>) {
        let is_right = match self.told {
            Told::Done(_) => tree.may_lack(folder),
            told => matches!(told, Told::Taken | Told::Unknown),
        };
        let mut then = tree;
        then.stays[folder] = true;
        steps.extend(is_right.then_some((None, then)));
    }

    fn move_folder(&self, folder: usize, tree: Tree, steps: &mut Vec<Step>) {
        let is_free = !tree.has_values(1 - folder) && (self.by_hand || !tree.stays[1 - folder]);
        let mut then = tree;
        match self.told {
            Told::Absent if tree.may_lack(folder) => {}
            // Also a folder without a value.
            Told::Done(_) | Told::Unknown if is_free => then.move_folder(folder),
            _ => return,
        }
        steps.push((None, then));
    }

    /// Copies each value of a folder, if it is told whether it `replaces`, or removes it.
    fn of_each(
        &self,
        at: Progress,
        folder: usize,
        tree: Tree,
        steps: &mut Vec<Step>,
        replaces: Option<bool>,
    ) {
        for name in 0..2 {
            let from = 2 * folder + name;
            let to = if replaces.is_some() { from ^ 2 } else { from };
            let step = |phase, held, place, counts: bool, tree| {
                let mut then = at;
                (then.phases[name], then.held[name], then.places[name]) =
                    (phase, held, byte(place));
                then.count += u8::from(counts);
                (Some(then), tree)
            };
            let place = usize::from(at.places[name]);
            match (at.phases[name], at.held[name]) {
                (LOOKS, _) => {
                    let held = tree.values[from];
                    let phase = if held.is_some() { RESOLVED } else { ENDED };
                    steps.push(step(phase, held, to, false, tree));
                }
                (RESOLVED, Some(held)) => {
                    let (there, mut then) = (tree.values[place], tree);
                    let does = match replaces {
                        Some(replaces) => replaces || there.is_none(),
                        None => there.is_some_and(|it| self.collides() || it.may_be(held)),
                    };
                    if does {
                        let tag = UNTOLD;
                        then.values[place] = replaces.map(|_| Version { tag, ..held });
                        steps.push(step(ENDED, None, 0, true, then));
                    }
                    // The tags of two copies of one value were not told: they may be one copy, or the later one stays.
                    let may_differ = replaces.is_none()
                        && held.tag == UNTOLD
                        && there.is_some_and(|it| it.tag == UNTOLD);
                    if !does || may_differ || self.collides() {
                        steps.push(step(ENDED, None, 0, false, tree));
                    }
                }
                _ => {}
            }
        }
        let is_over = at.phases == [ENDED; 2] && self.told == Told::Count(at.count);
        if is_over || self.told == Told::Unknown {
            let mut then = tree;
            then.stays[folder] &= replaces.is_some();
            steps.push((None, then));
        }
    }
}

/// A read, after which the tag is known.
fn saw(mut tree: Tree, place: usize, read: Value) -> Option<Step> {
    let is_it = match (tree.values[place], read) {
        (None, None) => true,
        (Some(value), Some(read)) => value.may_be(read),
        _ => false,
    };
    tree.values[place] = read;
    is_it.then_some((None, tree))
}

/// Each name of a listing may have been met at another moment.
fn list(at: Progress, tree: Tree, listed: [bool; PLACES], steps: &mut Vec<Step>) {
    for (place, is_listed) in listed.into_iter().enumerate() {
        let (bit, mut then) = (1 << place, at);
        if at.count & bit == 0 && tree.values[place].is_some() == is_listed {
            then.count |= bit;
            let is_over = then.count == 0b1111;
            steps.push(((!is_over).then_some(then), tree));
        }
    }
}
