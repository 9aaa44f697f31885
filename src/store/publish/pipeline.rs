//! How changes pass through the journal: what comes is appended at once, and made when its sync has ended.
//!
//! Promises that groups are made in the order in which they are appended, each only after a sync that began after it was
//! appended. The device is always given the next sync as soon as one ends, with all that was appended by then; the publisher
//! writes files meanwhile, and makes the groups before.

use std::collections::VecDeque;

use tokio::sync::mpsc::Receiver;

use super::super::error::Error;
use super::super::journal::{FrameBuilder, Journal};
use super::acknowledge::Acknowledger;
use super::change::Change;
use super::commit::Committer;
use super::group::Group;

/// The most changes that are appended and not made: each has a file open.
const MOST: usize = 256;

/// The publisher's loop, with a journal.
pub(super) struct Pipeline<'a> {
    committer: &'a Committer,
    journal: &'a mut Journal,
    acknowledger: &'a Acknowledger,
    /// Appended and not made, in this order.
    groups: VecDeque<Group>,
}

/// What the publisher has waited for.
enum Event {
    Change(Change),
    /// More is synced, or what is not yet will not be.
    Synced(Result<(), Error>),
    /// Nothing more can come, and all is made.
    End,
}

impl<'a> Pipeline<'a> {
    pub(super) fn new(
        committer: &'a Committer,
        journal: &'a mut Journal,
        acknowledger: &'a Acknowledger,
    ) -> Self {
        Self {
            committer,
            journal,
            acknowledger,
            groups: VecDeque::new(),
        }
    }

    /// Makes what comes, until nothing more can come. Blocks its thread while it writes.
    pub(super) async fn run(mut self, changes: &mut Receiver<Change>) {
        loop {
            let first = match self.next(changes).await {
                Event::Change(change) => Some(change),
                Event::Synced(synced) => {
                    self.hear(synced);
                    None
                }
                Event::End => return,
            };
            self.append(first, changes).await;
            while let Some(synced) = self.journal.poll() {
                self.hear(synced);
            }
            self.make_ready();
            for group in self.groups.iter_mut().filter(|group| !group.is_staged()) {
                group.stage(self.committer);
            }
            // What need not be waited for.
            self.make_ready();
        }
    }

    /// How many changes may be taken.
    fn places(&self) -> usize {
        let taken: usize = self.groups.iter().map(Group::taken).sum();
        MOST.saturating_sub(taken)
    }

    async fn next(&mut self, changes: &mut Receiver<Change>) -> Event {
        if self.groups.is_empty() {
            return changes.recv().await.map_or(Event::End, Event::Change);
        }
        let may_take = self.places() > 0;
        tokio::select! {
            biased;
            Some(change) = changes.recv(), if may_take => Event::Change(change),
            synced = self.journal.wait() => Event::Synced(synced),
        }
    }

    /// Appends `first` and what else waits as one group, and begins its sync. Where the segment has no room for it, all groups
    /// before it are made first: the next segment is free only when all is made that was appended long before.
    async fn append(&mut self, first: Option<Change>, changes: &mut Receiver<Change>) {
        let waiting = std::iter::from_fn(|| changes.try_recv().ok());
        let mut frame = FrameBuilder::new();
        let mut group = Group::gather(
            self.committer,
            &mut first.into_iter().chain(waiting),
            self.places(),
            &mut frame,
        );
        if group.taken() == 0 {
            return;
        }
        let batches = &self.committer.counters().batches;
        batches.observe(group.taken() as u64);
        self.journal.names().move_to(&mut frame);
        self.make_ready_for(&frame).await;
        match self.journal.append(frame) {
            Ok((end, bytes)) => group.appended(end, bytes),
            Err(error) => group.refuse(&error),
        }
        self.groups.push_back(group);
    }

    /// Waits until `frame` goes to the segment of the one before it, or all groups are made.
    async fn make_ready_for(&mut self, frame: &FrameBuilder) {
        while !frame.is_empty() && !self.journal.has_room(frame) {
            // Of these no report is to come any more.
            self.make_ready();
            if self.groups.is_empty() {
                return;
            }
            let synced = self.journal.wait().await;
            self.hear(synced);
        }
    }

    fn hear(&mut self, synced: Result<(), Error>) {
        let Err(error) = synced else { return };
        let lost = |group: &&mut Group| !group.is_synced(self.journal);
        for group in self.groups.iter_mut().filter(lost) {
            group.refuse(&error);
        }
    }

    fn make_ready(&mut self) {
        while let Some(front) = self.groups.front()
            && front.is_ready(self.journal)
            && let Some(group) = self.groups.pop_front()
        {
            let mut cancel = None;
            self.acknowledger.batch(|| {
                let (taken, made, to_cancel) = group.make(self.committer, self.journal);
                cancel = to_cancel;
                (taken, made)
            });
            self.groups.extend(cancel);
        }
    }
}
