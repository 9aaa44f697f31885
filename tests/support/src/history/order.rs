//! The search: is there an order of steps that explains all that clients and hands saw? It remembers where it has been,
//! by what is done and what there is then, and gives up after a number of points.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::model::{Asked, Event, Meeting, Told, Tree};
use super::steps::{Progress, Step};

/// Points that a search may visit: a history that needs more is too long to be judged, and none of these tests has one.
const MOST_POINTS: usize = 2_000_000;

/// Clients, the hand, and each request that nobody heard the end of and that may be done at any time.
pub const MOST_ACTORS: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Order,
    NoOrder,
    /// Too many points to visit them all.
    Undecided,
}

/// What one actor has done: its events before `next`, and some steps of that.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Cursor {
    next: u8,
    progress: Progress,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Point {
    cursors: [Cursor; MOST_ACTORS],
    tree: Tree,
}

/// Whether these events, those of one actor after the other, have an order, from no folder on. Values may go at any
/// moment if it `evicts`. With the number of points that were visited.
pub fn judge(actors: &[Vec<Event>], evicts: bool) -> (Verdict, usize) {
    assert!(actors.len() <= MOST_ACTORS);
    let start = Point {
        cursors: <_>::default(),
        tree: Tree::default(),
    };
    // Most of a search is to hash where it is.
    let mut been = HashMap::<_, Vec<Tree>, RandomState>::default();
    let mut points = 0;
    let mut stack = vec![start];
    while let Some(mut point) = stack.pop() {
        point.settle(actors);
        if point.next_of(actors).next().is_none() {
            return (Verdict::Order, points);
        }
        let trees = been.entry(point.cursors).or_default();
        let may_become =
            |tree: &Tree| *tree == point.tree || evicts && tree.may_become(&point.tree);
        if trees.iter().any(may_become) {
            continue;
        }
        trees.push(point.tree);
        points += 1;
        if points > MOST_POINTS {
            return (Verdict::Undecided, points);
        }
        point.push_next(actors, evicts, &mut stack);
    }
    (Verdict::NoOrder, points)
}

impl Point {
    /// The actors that have not done everything, each with its next event.
    fn next_of<'a>(&self, actors: &'a [Vec<Event>]) -> impl Iterator<Item = (usize, &'a Event)> {
        let cursors = self.cursors;
        let next = move |(actor, events): (usize, &'a Vec<Event>)| {
            Some((actor, events.get(usize::from(cursors[actor].next))?))
        };
        actors.iter().enumerate().filter_map(next)
    }

    /// Those that may make a step now: nothing that ended before was asked is still to be explained. First those that
    /// ended late.
    fn current<'a>(&self, actors: &'a [Vec<Event>]) -> Vec<(usize, &'a Event)> {
        let until = self.next_of(actors).map(|(_, event)| event.back).min();
        let until = until.unwrap_or(u64::MAX);
        let next = self.next_of(actors);
        let mut current: Vec<_> = next.filter(|(_, event)| event.call <= until).collect();
        current.sort_by_key(|(_, event)| std::cmp::Reverse(event.back));
        current
    }

    /// Takes each step that changes nothing and never would: no order is lost by that.
    fn settle(&mut self, actors: &[Vec<Event>]) {
        let mut steps = Vec::new();
        while let Some((actor, progress)) =
            self.current(actors).into_iter().find_map(|(actor, event)| {
                steps.clear();
                event.steps(self.cursors[actor].progress, self.tree, &mut steps);
                let mut steps = steps.iter().filter(|_| event.is_pure());
                let still = steps.find(|(_, tree)| *tree == self.tree);
                still.map(|(progress, _)| (actor, *progress))
            })
        {
            self.go_on(actor, progress);
        }
    }

    fn go_on(&mut self, actor: usize, progress: Option<Progress>) {
        let cursor = &mut self.cursors[actor];
        cursor.next += u8::from(progress.is_none());
        cursor.progress = progress.unwrap_or_default();
    }

    /// Pushes all points that are one step further. What has not gone yet may still go: only what must have gone has.
    fn push_next(&self, actors: &[Vec<Event>], evicts: bool, stack: &mut Vec<Self>) {
        for (actor, event) in self.current(actors) {
            let touched = if evicts { event.touched() } else { 0 };
            let mut gone: Vec<u8> = (0..=touched).filter(|gone| gone & !touched == 0).collect();
            gone.sort_by_key(|gone| gone.count_ones());
            let mut steps: Vec<Step> = Vec::new();
            for tree in gone.into_iter().filter_map(|gone| self.without(gone)) {
                let mut those = Vec::new();
                event.steps(self.cursors[actor].progress, tree, &mut those);
                for (progress, tree) in those {
                    let is_less = |it: &Step| evicts && it.0 == progress && it.1.may_become(&tree);
                    if !steps.iter().any(is_less) {
                        steps.push((progress, tree));
                    }
                }
            }
            for (progress, tree) in steps.into_iter().rev() {
                let mut next = Self { tree, ..*self };
                next.go_on(actor, progress);
                if let Asked::MoveFolder(folder) = event.asked
                    && matches!(event.told, Told::Done(_) | Told::Unknown)
                {
                    let cursors = next.cursors.iter_mut();
                    cursors.for_each(|cursor| cursor.progress.follow(folder));
                }
                stack.push(next);
            }
        }
    }

    /// What there is once the values with these bits have gone, if all were there.
    fn without(&self, gone: u8) -> Option<Tree> {
        let mut tree = self.tree;
        for (place, value) in tree.values.iter_mut().enumerate() {
            if gone >> place & 1 == 1 {
                value.take()?;
            }
        }
        Some(tree)
    }
}

/// What had been asked before this moment, and what was not answered by then as never heard of.
pub fn beginning(actors: &[Vec<Event>], end: u64) -> Vec<Vec<Event>> {
    let cut = |events: &Vec<Event>| {
        let asked = events.iter().filter(|event| event.call < end);
        let known = asked.filter(|event| event.back < end || !event.is_pure());
        let cut = known.map(|event| {
            if event.back < end {
                return *event;
            }
            Event {
                told: Told::Unknown,
                back: u64::MAX,
                ..*event
            }
        });
        cut.collect()
    };
    actors.iter().map(cut).collect()
}

/// Finds, for each event, what was done at one moment with it.
pub fn mark_meetings(actors: &mut [Vec<Event>]) {
    let all: Vec<_> = actors.iter().flatten().copied().collect();
    for event in actors.iter_mut().flatten() {
        let meets = |it: &&Event| it.call <= event.back && event.call <= it.back;
        let met: Vec<_> = all.iter().filter(meets).copied().collect();
        let others = met.iter().filter(|it| it.by_hand != event.by_hand);
        let changes = others.filter(|it| !it.is_pure());
        let change = |it: &Event| match it.asked {
            Asked::MoveFolder(_) => Meeting::MovedFolder,
            _ => Meeting::Change,
        };
        let anyone = if met.len() > 1 {
            Meeting::Someone
        } else {
            Meeting::Nobody
        };
        event.meets = changes.map(change).max().unwrap_or(anyone);
    }
}
