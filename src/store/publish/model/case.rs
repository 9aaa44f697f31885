//! One case of the model: writers that ask, what happens beside them, and what each key may stand for after a cut of power.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt;

use super::super::super::batch_reply;
use super::super::super::changes::Changes;
use super::super::super::upload::NewValue;
use super::super::acknowledge::Acknowledger;
use super::super::decide::{Change, PublishResult};
use super::super::pipeline::Pipeline;
use super::cut::{Disk, Replay, disks, time};
use super::world::{Frames, KEYS, LARGE, Planted, State, Value, World, nanos, version};
use crate::value::{Error, Key, Version};

/// What a writer asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) key: usize,
    pub(super) is_put: bool,
    pub(super) is_large: bool,
    pub(super) condition: Condition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    None,
    /// `If-Match` of what was there at the beginning.
    First,
    /// `If-None-Match: *`.
    Absent,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// So many writers ask, and are appended together.
    Ask(usize),
    Sync,
    FailSync,
    Checkpoint,
    /// The next call that makes a change fails.
    FailCall,
    /// A hand writes this key.
    Hand(usize),
    /// A hand removes it.
    Remove(usize),
}

/// A change that was asked for, and what its writer has heard.
struct Writer {
    ask: Ask,
    reply: Option<batch_reply::Receiver<PublishResult>>,
    outcome: Option<PublishResult>,
}

impl Writer {
    /// Its answer, once.
    fn hear(&mut self) -> Option<&PublishResult> {
        let reply = pin!(self.reply.as_mut()?);
        match reply.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => return None,
            Poll::Ready(outcome) => self.outcome = outcome,
        }
        self.reply = None;
        self.outcome.as_ref()
    }

    /// Whether its change was made or not is not known.
    fn is_unknown(&self) -> bool {
        match &self.outcome {
            None | Some(Err(Error::Failed { .. })) => true,
            Some(_) => false,
        }
    }
}

/// One case: what is played, and what each key may stand for after a cut of power, but for what is not answered.
struct Case<'a> {
    first: State,
    asks: std::slice::Iter<'a, Ask>,
    world: &'a World,
    writers: Vec<Writer>,
    may_be: [BTreeSet<Value>; KEYS.len()],
}

/// Plays one case; what went wrong.
pub(super) fn play(
    first: State,
    asks: &[Ask],
    steps: &[Step],
    planted: Planted,
) -> Result<(), String> {
    let world = World::new(first, planted);
    let mut log = Frames {
        planted,
        ..Frames::default()
    };
    let acknowledger = Acknowledger::at_once(Arc::new(Changes::after(version(0))));
    let mut pipeline = Pipeline::new(&world, &mut log, &acknowledger);
    let mut case = Case {
        first,
        asks: asks.iter(),
        world: &world,
        writers: Vec::new(),
        may_be: first.map(|value| BTreeSet::from([value])),
    };
    // In the end all syncs go well.
    for step in steps.iter().chain([&Step::Sync; 6]) {
        case.step(&mut pipeline, *step);
        case.cut(pipeline.log)
            .map_err(|why| format!("{why}\nafter {step:?}"))?;
    }
    match case.writers.iter().find(|writer| writer.reply.is_some()) {
        Some(writer) => Err(format!("{:?} is not answered", writer.ask)),
        None => Ok(()),
    }
}

/// As [`Pipeline::run`] does, for what is `asked`, as long as nothing is to be waited for; `with` sees the log before.
fn play_to_end(
    pipeline: &mut Pipeline<'_, World, Frames>,
    asked: Vec<Change>,
    with: impl FnOnce(&mut Frames),
) {
    with(pipeline.log);
    let mut asked = asked.into_iter();
    loop {
        let step = pipeline.run_batch(|| asked.next()).now_or_never();
        assert!(step.is_some(), "the model's log is not waited for");
        if !pipeline.is_left() {
            return;
        }
    }
}

impl Case<'_> {
    fn step(&mut self, pipeline: &mut Pipeline<'_, World, Frames>, step: Step) {
        let asked = match step {
            Step::Ask(count) => self.ask(count),
            _ => Vec::new(),
        };
        match step {
            Step::FailCall => self.world.fails.set(true),
            Step::Hand(key) if !self.world.is_occupied(key) => {
                let value = Some(self.world.next_version());
                self.world.set(key, value);
                // Its name is on the disk, or not.
                self.may_be[key].insert(value);
            }
            // What a hand makes and removes while a change of that key is on its way is not told from what it makes later.
            Step::Remove(key) if self.writers.iter().all(|w| w.reply.is_none()) => {
                self.world.set(key, None);
                // What a hand removes may come back; where it is a large value, the one before it.
                let planned = self.world.planned.borrow();
                let of_key = planned.iter().filter(|(_, of, ..)| *of == key);
                self.may_be[key].extend(of_key.map(|(.., result)| *result));
                self.may_be[key].insert(None);
            }
            _ => {}
        }
        let world = self.world;
        let now = time(world.now.get());
        play_to_end(pipeline, asked, |log| {
            log.time = now;
            match step {
                Step::Sync => log.synced = log.all.len(),
                Step::FailSync => log.fail(),
                Step::Checkpoint => {
                    log.settled = log.made;
                    world.settle();
                }
                _ => {}
            }
        });
        for writer in &mut self.writers {
            let ask = writer.ask;
            if let Some(Ok(version)) = writer.hear()
                && (ask.is_put || version.is_some())
            {
                let made = version.filter(|_| ask.is_put).map(Version::nanos);
                self.may_be[ask.key] = BTreeSet::from([made]);
            }
        }
    }

    fn ask(&mut self, count: usize) -> Vec<Change> {
        let asks: Vec<_> = self.asks.by_ref().take(count).copied().collect();
        asks.into_iter().map(|ask| self.change(ask)).collect()
    }

    fn change(&mut self, ask: Ask) -> Change {
        let (reply_to, reply) = batch_reply::channel();
        let (writer, asking) = (self.writers.len(), Arc::clone(&self.world.asking));
        self.writers.push(Writer {
            ask,
            reply: Some(reply),
            outcome: None,
        });
        let first = self.first[ask.key];
        let len = if ask.is_large { LARGE } else { 1 };
        Change {
            key: Key::new(KEYS[ask.key]).expect("a key").to_owned(),
            value: ask.is_put.then(|| NewValue::of_length(len)),
            condition: Some(Box::new(move |current| {
                asking.store(writer, Relaxed);
                match ask.condition {
                    Condition::None => true,
                    Condition::First => nanos(current) == first,
                    Condition::Absent => current.is_none(),
                }
            })),
            tries: 0,
            cancels: None,
            reply_to,
        }
    }

    /// Cuts the power in every way, and looks at what replays leave.
    fn cut(&self, log: &Frames) -> Result<(), String> {
        let may_be = self.may_be();
        let durable = self.world.durable.borrow();
        let torn = self.world.torn.borrow();
        for whole in log.synced..=log.all.len() {
            let replay = Replay {
                frames: &log.all[..whole],
                settled: log.settled,
                planted: self.world.planted,
            };
            for names in disks(&durable) {
                let disk = Disk {
                    names,
                    torn: torn.clone(),
                };
                // A replay may be cut off, and is begun again.
                for made in [usize::MAX, 0, 1] {
                    let left = replay.run(replay.run(disk.clone(), made), usize::MAX);
                    left.check(&may_be).map_err(|why| {
                        let frames = log.all.len();
                        format!("{why}: the disk had {names:?}, {whole} of {frames} frames, the replay was cut off after {made}")
                    })?;
                }
            }
        }
        Ok(())
    }

    /// What each key may stand for, with what unanswered changes may make of it.
    fn may_be(&self) -> [BTreeSet<Value>; KEYS.len()] {
        let mut may_be = self.may_be.clone();
        let planned = self.world.planned.borrow();
        loop {
            let mut is_more = false;
            for &(writer, key, base, result) in planned.iter() {
                if self.writers[writer].is_unknown() && may_be[key].contains(&base) {
                    is_more |= may_be[key].insert(result);
                }
            }
            if !is_more {
                return may_be;
            }
        }
    }
}
