//! What the histories are judged by, and what is counted of them.

use std::fmt;

use super::client::Rules;
use super::planted::lies;
use crate::support::history::{Asked, By, Event, Only, Told, Verdict, beginning, judge};

/// What was counted over all histories.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) histories: usize,
    pub(super) events: Vec<Event>,
    pub(super) lies: usize,
    /// The most points that a search visited.
    pub(super) points: usize,
    /// Histories that no order explains but one with an eviction.
    pub(super) evicted: usize,
}

impl Counts {
    /// Adds a history: there is an order of it, and none of it with a lie in it.
    pub(super) fn add(&mut self, actors: &[Vec<Event>], evicts: bool) {
        let (verdict, points) = judge(actors, evicts);
        assert!(
            verdict == Verdict::Order,
            "{}",
            report(actors, verdict, evicts)
        );
        self.points = self.points.max(points);
        self.evicted += usize::from(evicts && judge(actors, false).0 == Verdict::NoOrder);
        for (what, told) in lies(actors, evicts) {
            let (verdict, points) = judge(&told, evicts);
            assert!(
                verdict == Verdict::NoOrder,
                "{verdict:?} with {what}: {}",
                show(&told)
            );
            self.points = self.points.max(points);
            self.lies += 1;
        }
        self.histories += 1;
        self.events.extend(actors.iter().flatten());
    }

    /// Adds histories in which nothing is evicted.
    pub(super) fn add_all(&mut self, histories: &[Vec<Vec<Event>>]) {
        for actors in histories {
            self.add(actors, false);
        }
    }

    pub(super) fn count(&self, is_it: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|event| is_it(event)).count()
    }

    pub(super) fn done(&self, is_it: fn(&Asked) -> bool) -> usize {
        let is_done = |told| matches!(told, Told::Done(_) | Told::Count(1..) | Told::Taken);
        self.count(|event| is_done(event.told) && is_it(&event.asked) && !event.by_hand)
    }

    /// Refuses to have proved anything by histories in which little happened.
    pub(super) fn assert_proves(&self, rules: Rules) {
        if rules.s3 {
            self.assert_proves_s3(rules);
        }
        if rules.registers {
            let swapped = self.done(|asked| matches!(asked, Asked::Put(_, _, Only::Over(_))));
            let created = self.done(|asked| matches!(asked, Asked::Put(_, _, Only::New)));
            let refused = self.count(|event| event.told == Told::Refused);
            for number in [swapped, created, refused, self.lies] {
                assert!(
                    number >= self.histories,
                    "too few to prove anything: {self}"
                );
            }
            return;
        }
        let asked: [fn(&Asked) -> bool; 7] = [
            |asked| matches!(asked, Asked::Put(..)),
            |asked| matches!(asked, Asked::Delete(..)),
            |asked| matches!(asked, Asked::Move(..)),
            |asked| matches!(asked, Asked::Make(_)),
            |asked| matches!(asked, Asked::MoveFolder(_)),
            |asked| matches!(asked, Asked::CopyFolder(..)),
            |asked| matches!(asked, Asked::DeleteFolder(_)),
        ];
        for (number, asked) in asked.into_iter().enumerate() {
            let is_left_out = rules.is_cut && number == 5;
            let enough = self.histories / 30;
            assert!(
                is_left_out || self.done(asked) >= enough,
                "{number}: too few to prove anything: {self}"
            );
        }
        let is_enough = self.lies > self.histories && (self.evicted > 0 || !rules.evicts);
        assert!(is_enough, "too few to prove anything: {self}");
        assert!(
            self.count(|event| event.by_hand) > self.histories || !rules.has_hand,
            "{self}"
        );
    }
}

impl Counts {
    fn assert_proves_s3(&self, rules: Rules) {
        let is_done = |event: &Event| matches!(event.told, Told::Done(_));
        let is_swap = |event: &Event| matches!(event.asked, Asked::Put(_, _, Only::Over(_)));
        let is_new = |event: &Event| matches!(event.asked, Asked::Put(_, _, Only::New));
        let in_parts = |event: &Event| event.by == By::Parts;
        let numbers = [
            self.count(|event| in_parts(event) && is_done(event)),
            self.count(|event| in_parts(event) && event.told == Told::Refused),
            self.count(|event| event.by != By::Http && is_swap(event) && is_done(event)),
            self.count(|event| event.by != By::Http && is_new(event) && is_done(event)),
            self.count(|event| event.told == Told::Gone || rules.registers),
        ];
        for (number, count) in numbers.into_iter().enumerate() {
            assert!(
                count >= self.histories / 8,
                "{number}: too few to prove anything: {self}"
            );
        }
    }

    pub(super) fn assert_proves_locks(&self) {
        let locks = self
            .count(|event| matches!(event.asked, Asked::Lock(..)) && event.told != Told::Locked);
        let refused = self.count(|event| event.told == Told::Locked && !event.changed().is_empty());
        let shown = self.count(|event| event.shown != 0 && matches!(event.told, Told::Done(_)));
        let moved = self.done(|asked| matches!(asked, Asked::Move(..)));
        for number in [locks, refused, shown, moved] {
            assert!(
                number >= self.histories / 4,
                "too few to prove anything: {self}"
            );
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            histories,
            lies,
            points,
            evicted,
            ..
        } = self;
        let refused = self.count(|event| event.told == Told::Refused);
        let locked = self.count(|event| event.told == Told::Locked);
        let locks = self
            .count(|event| matches!((event.asked, event.told), (Asked::Lock(..), Told::Count(_))));
        let unknown = self.count(|event| event.told == Told::Unknown);
        let by_hand = self.count(|event| event.by_hand);
        let collisions = self.count(|event| event.collides() && !event.is_pure());
        let moved = self.done(|asked| matches!(asked, Asked::Move(..)));
        let folders = self.done(|asked| matches!(asked, Asked::MoveFolder(_)));
        write!(
            f,
            "{histories} histories, {} operations: {moved} values and {folders} folders moved, {locks} locks, {locked} refused by \
             locks and {refused} by conditions, {unknown} \
             unknown, {by_hand} by hand, {collisions} changes at one moment with a hand's, {evicted} histories with evictions; an \
             order for each, after {points} points at most; {lies} planted lies found",
            self.events.len()
        )?;
        let by_s3 = self.count(|event| event.by != By::Http);
        if by_s3 > 0 {
            let parts = self.count(|event| event.by == By::Parts);
            let gone = self.count(|event| event.told == Told::Gone);
            write!(
                f,
                "; {by_s3} by S3, {parts} of them in parts, {gone} deleted or absent"
            )?;
        }
        Ok(())
    }
}

/// All events, in the order of their beginnings, each with the number of its actor.
fn show(actors: &[Vec<Event>]) -> String {
    let numbered = actors.iter().enumerate();
    let mut events: Vec<_> = numbered
        .flat_map(|(actor, events)| events.iter().map(move |event| (actor, event)))
        .collect();
    events.sort_by_key(|(_, event)| event.call);
    let lines = events
        .iter()
        .map(|(actor, event)| format!("\n{actor}: {event:?}"));
    lines.collect()
}

/// The shortest beginning of a history that no order explains.
fn report(actors: &[Vec<Event>], verdict: Verdict, evicts: bool) -> String {
    let mut ends: Vec<_> = actors.iter().flatten().map(|event| event.back).collect();
    ends.sort_unstable();
    let beginnings = ends
        .iter()
        .map(|end| beginning(actors, end.saturating_add(1)));
    let shortest = beginnings
        .into_iter()
        .find(|it| judge(it, evicts).0 == verdict);
    let shortest = shortest.unwrap_or_else(|| actors.to_vec());
    format!("{verdict:?}:{}\nof:{}", show(&shortest), show(actors))
}
