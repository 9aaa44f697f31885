//! The names of a large directory, sorted and kept in memory, so that a page of them costs no walk.
//!
//! Never stale: each use first reads what has happened to the directory ([`Events`]), by this server or another
//! program, and looks at each of those names again. Lost events cost a new walk. Bounded in bytes; given up after a while
//! without listings. It belongs to one directory. Blocks, and may take as long as a walk: it is used on listing threads alone.

use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use rustix::fs::FileType;

use super::super::directory_fd::Dir;
use super::events::{Events, Lost};
use super::page::{Failure, Page};
use super::sorted::Sorted;
use super::walk::{self, Met};
use crate::metrics::Listings;

/// How long the index is kept without being used.
const UNUSED: Duration = Duration::from_secs(300);

/// After how long an index is tried again where there could be none.
const AGAIN: Duration = Duration::from_secs(300);

/// How long events gather before they are read without a listing: far shorter than the kernel's queue of 16,384 lasts.
const GATHER: Duration = Duration::from_millis(20);

/// How often an index without events is checked for use.
const IDLE: Duration = Duration::from_secs(10);

/// Walks for one index, where changes come faster than they are read.
const TRIES: usize = 3;

/// The index of one directory.
#[derive(Debug)]
pub(super) struct Index {
    dir: Arc<Dir>,
    /// Memory that it may take, in bytes.
    most: u64,
    state: Mutex<State>,
    counters: Arc<Listings>,
}

#[derive(Debug)]
enum State {
    /// None is needed so far.
    Absent,
    Live(Live),
    /// There could be none at that time.
    Impossible(Instant),
}

#[derive(Debug)]
struct Live {
    keys: Sorted,
    events: Events,
    used: Instant,
}

/// Why an index cannot be used.
enum Unfit {
    Lost,
    TooLarge,
    Failed(Failure),
}

impl From<Lost> for Unfit {
    fn from(Lost: Lost) -> Self {
        Self::Lost
    }
}

impl From<Failure> for Unfit {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Index {
    pub(super) fn new(dir: Arc<Dir>, most: u64, counters: Arc<Listings>) -> Arc<Self> {
        let state = if most == 0 {
            State::Impossible(Instant::now())
        } else {
            State::Absent
        };
        Arc::new(Self {
            dir,
            most,
            state: Mutex::new(state),
            counters,
        })
    }

    /// The `limit + 1` smallest names of `page`; `None` while there is no index.
    pub(super) fn smallest(&self, page: &Page) -> Option<Vec<String>> {
        let mut state = self.lock();
        let State::Live(live) = &mut *state else {
            return None;
        };
        let caught_up = self.catch_up(live);
        live.used = Instant::now();
        let smallest = caught_up.is_ok().then(|| live.smallest(page));
        if smallest.is_none() {
            self.enter(&mut state, State::Absent);
        }
        smallest
    }

    /// Whether there may be one.
    pub(super) fn is_possible(&self) -> bool {
        match &*self.lock() {
            State::Impossible(since) => self.most > 0 && since.elapsed() >= AGAIN,
            State::Absent | State::Live(_) => true,
        }
    }

    /// As [`Index::smallest`], of an index that is made if there is none. `None` where there can be none.
    ///
    /// Other calls wait meanwhile for the same walk.
    pub(super) fn smallest_at_last(
        self: &Arc<Self>,
        page: &Page,
    ) -> Result<Option<Vec<String>>, Failure> {
        let mut state = self.lock();
        if let State::Live(live) = &mut *state
            && self.catch_up(live).is_ok()
        {
            return Ok(Some(live.smallest(page)));
        }
        let made = self.make();
        let (made, smallest) = match made {
            Ok(Some(live)) => {
                let smallest = live.smallest(page);
                (State::Live(live), Ok(Some(smallest)))
            }
            Ok(None) => (State::Impossible(Instant::now()), Ok(None)),
            Err(failure) => (State::Absent, Err(failure)),
        };
        self.enter(&mut state, made);
        smallest
    }

    /// Walks the directory.
    fn make(self: &Arc<Self>) -> Result<Option<Live>, Failure> {
        for _ in 0..TRIES {
            let events = match Events::of(self.dir.root()) {
                Ok(Some(events)) => events,
                Ok(None) => {
                    tracing::info!(
                        "the file system may be changed from elsewhere: each listing walks the directory"
                    );
                    return Ok(None);
                }
                Err(error) => {
                    tracing::warn!(%error, "changes of the directory cannot be watched: each listing walks it");
                    return Ok(None);
                }
            };
            let mut live = Live {
                keys: Sorted::default(),
                events,
                used: Instant::now(),
            };
            match self.fill(&mut live) {
                Ok(()) => return Ok(self.keep_up(&live.events).is_ok().then_some(live)),
                Err(Unfit::Lost) => {}
                Err(Unfit::TooLarge) => {
                    tracing::warn!(
                        most = self.most,
                        "the keys take more memory than --listing-index: each listing walks the directory"
                    );
                    return Ok(None);
                }
                Err(Unfit::Failed(failure)) => return Err(failure),
            }
        }
        tracing::warn!(
            "the directory changes faster than it can be indexed: each listing walks it"
        );
        Ok(None)
    }

    fn fill(&self, live: &mut Live) -> Result<(), Unfit> {
        self.counters.walks.add(1);
        walk::walk(&self.dir, |met| match met {
            // The names read so far have been added, so the events on them apply after that.
            Met::Pause => self.catch_up(live),
            Met::Name(key, kind) => {
                if kind == FileType::RegularFile || walk::is_value(&self.dir, &key)? {
                    live.keys.insert(key.as_str());
                }
                Ok(())
            }
        })?;
        self.catch_up(live)
    }

    /// Looks up each name that has had an event. An event says only that the name has changed: what it stands for now is the
    /// result of all its events.
    fn catch_up(&self, live: &mut Live) -> Result<(), Unfit> {
        for name in live.events.take()? {
            let Some(key) = walk::key(&name) else {
                continue;
            };
            if walk::is_value(&self.dir, &key)? {
                live.keys.insert(key.as_str());
            } else {
                live.keys.remove(key.as_str());
            }
        }
        self.counters.index(live.keys.len(), live.keys.bytes());
        if live.keys.bytes() as u64 > self.most {
            return Err(Unfit::TooLarge);
        }
        Ok(())
    }

    /// Starts a thread that reads the events between listings, so that their queue does not overflow.
    fn keep_up(self: &Arc<Self>, events: &Events) -> std::io::Result<()> {
        let (index, events) = (Arc::downgrade(self), events.clone());
        let thread = std::thread::Builder::new().name("disk-list-events".into());
        let started = thread.spawn(move || while follow(&index, &events) {});
        started.map(drop).inspect_err(|error| {
            tracing::warn!(%error, "no thread for the changes of the directory: each listing walks it");
        })
    }

    /// Reads the events of the index that has these; false when it is no more.
    fn catch_up_idly(&self, events: &Events) -> bool {
        let mut state = self.lock();
        let State::Live(live) = &mut *state else {
            return false;
        };
        if !live.events.is(events) {
            return false;
        }
        let is_kept = live.used.elapsed() < UNUSED && self.catch_up(live).is_ok();
        if !is_kept {
            self.enter(&mut state, State::Absent);
        }
        is_kept
    }

    fn enter(&self, state: &mut State, next: State) {
        if !matches!(next, State::Live(_)) {
            self.counters.index(0, 0);
        }
        *state = next;
    }

    /// A panic has left an index that may be wrong.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| {
            let mut state = poisoned.into_inner();
            self.enter(&mut state, State::Absent);
            self.state.clear_poison();
            state
        })
    }
}

fn follow(index: &Weak<Index>, events: &Events) -> bool {
    events.wait(IDLE);
    std::thread::sleep(GATHER);
    index
        .upgrade()
        .is_some_and(|index| index.catch_up_idly(events))
}

impl Live {
    fn smallest(&self, page: &Page) -> Vec<String> {
        let names = self.keys.from(page.prefix.as_str().max(&page.after));
        let of_page = names
            .skip_while(|&name| name == page.after)
            .take_while(|name| page.has(name));
        of_page.take(page.limit + 1).map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::blocking_pool::BlockingPool;
    use crate::store::location::Location;
    use proptest::prelude::*;
    use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    fn index(dir: &Path, most: u64) -> Arc<Index> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(dir, flags, Mode::empty()).unwrap();
        let location = Location::new(dir, &root, None).unwrap();
        let dir = Dir::new(root, location, BlockingPool::disk(None).unwrap());
        Index::new(Arc::new(dir), most, Arc::default())
    }

    fn page(after: &str, limit: usize) -> Page {
        Page {
            prefix: String::new(),
            after: after.to_owned(),
            limit,
        }
    }

    fn found(index: &Arc<Index>, page: &Page) -> Vec<String> {
        index.smallest_at_last(page).unwrap().expect("an index")
    }

    /// What one of several programs does to one of some names.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Write,
        Link,
        Publish,
        Rename,
        Exchange,
        Remove,
        Directory,
        Symlink,
        Look,
    }

    impl Step {
        /// What may fail, as it depends on what is there, does.
        fn take(self, at: &Path, other: &Path, dir: &Path) {
            let _ = match self {
                Self::Write => fs::write(at, "x").ok(),
                Self::Link => fs::hard_link(other, at).ok(),
                Self::Publish => publish(dir, at),
                Self::Rename => fs::rename(other, at).ok(),
                Self::Exchange => {
                    rustix::fs::renameat_with(CWD, at, CWD, other, RenameFlags::EXCHANGE).ok()
                }
                Self::Remove => fs::remove_file(at).or_else(|_| fs::remove_dir(at)).ok(),
                Self::Directory => fs::create_dir(at).ok(),
                Self::Symlink => std::os::unix::fs::symlink("x", at).ok(),
                Self::Look => None,
            };
        }
    }

    /// As the server makes a name: of a file that had none.
    fn publish(dir: &Path, at: &Path) -> Option<()> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY;
        let file = rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR).unwrap();
        let unnamed = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        rustix::fs::linkat(CWD, unnamed, CWD, at, AtFlags::SYMLINK_FOLLOW).ok()
    }

    fn values(dir: &Path) -> BTreeSet<String> {
        let files = fs::read_dir(dir).unwrap().map(Result::unwrap);
        let files = files.filter(|file| file.file_type().unwrap().is_file());
        files
            .map(|file| file.file_name().into_string().unwrap())
            .collect()
    }

    fn steps() -> impl Strategy<Value = Vec<(Step, usize, usize)>> {
        let step = prop::sample::select(vec![
            Step::Write,
            Step::Link,
            Step::Publish,
            Step::Rename,
            Step::Exchange,
            Step::Remove,
            Step::Remove,
            Step::Directory,
            Step::Symlink,
            Step::Look,
        ]);
        prop::collection::vec((step, 0..12_usize, 0..12_usize), 1..80)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_has_what_the_directory_has_whatever_is_done_to_it(
            steps in steps(), in_memory in any::<bool>(), after in 0..12_usize, limit in 1..8_usize,
        ) {
            let place = if in_memory { Path::new("/dev/shm") } else { Path::new("/tmp") };
            let dir = tempfile::tempdir_in(place).or_else(|_| tempfile::tempdir()).unwrap();
            let at = |n: usize| -> PathBuf { dir.path().join(format!("n{n:02}")) };
            let index = index(dir.path(), 1 << 20);
            found(&index, &page("", 1));
            for (step, name, other) in steps {
                step.take(&at(name), &at(other), dir.path());
                if !matches!(step, Step::Look) {
                    continue;
                }
                let model = values(dir.path());
                prop_assert!(found(&index, &page("", 100)).iter().eq(&model));
                let after = format!("n{after:02}");
                let expected = model.range(after.clone()..).filter(|name| **name != after);
                let expected: Vec<_> = expected.take(limit + 1).cloned().collect();
                prop_assert_eq!(found(&index, &page(&after, limit)), expected);
            }
            prop_assert!(found(&index, &page("", 100)).iter().eq(&values(dir.path())));
            prop_assert_eq!(index.counters.walks.get(), 1);
        }
    }

    #[test]
    fn it_is_right_also_when_names_come_and_go_while_it_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: String| dir.path().join(name);
        for n in 0..6_000 {
            fs::write(place(format!("k{n:05}")), "").unwrap();
        }
        let is_done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (is_done, place) = (&is_done, &place);
            for writer in 0..2 {
                scope.spawn(move || {
                    for n in 0.. {
                        if is_done.load(std::sync::atomic::Ordering::Relaxed) {
                            break;
                        }
                        let one = place(format!("k{:05}", n * 37 % 6_000));
                        let moved = place(format!("moved{writer}"));
                        fs::rename(&one, &moved)
                            .and_then(|()| fs::rename(&moved, &one))
                            .ok();
                    }
                });
            }
            for _ in 0..20 {
                let index = index(dir.path(), 1 << 20);
                // All keys but those that are away just now.
                let keys = found(&index, &page("", 10_000));
                let there = keys.iter().filter(|key| key.starts_with('k')).count();
                assert!((5_998..=6_000).contains(&there), "{there} keys");
            }
            is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let index = index(dir.path(), 1 << 20);
        assert!(
            found(&index, &page("", 10_000))
                .iter()
                .eq(&values(dir.path()))
        );
    }

    #[test]
    fn what_is_lost_of_the_events_costs_a_walk_and_no_name() {
        let queue = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let queue: usize = queue.trim().parse().unwrap();
        if queue > 100_000 {
            eprintln!("left out: a queue of {queue} events that overflows");
            return;
        }
        let dir = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        fs::write(&one, "").unwrap();
        let index = index(dir.path(), 1 << 20);
        assert_eq!(found(&index, &page("", 10)), ["one"]);
        let held = index.lock();
        for _ in 0..=queue / 4 {
            fs::rename(&one, &other).unwrap();
            fs::rename(&other, &one).unwrap();
        }
        fs::rename(&one, &other).unwrap();
        drop(held);
        assert_eq!(found(&index, &page("", 10)), ["other"]);
        assert_eq!(index.counters.walks.get(), 2);
    }

    #[test]
    fn names_beyond_its_memory_are_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..2_000 {
            fs::write(dir.path().join(format!("k{n:05}")), "").unwrap();
        }
        let small = index(dir.path(), 8 << 10);
        assert!(small.smallest_at_last(&page("", 1)).unwrap().is_none());
        assert!(!small.is_possible());
        assert_eq!(small.counters.index_bytes(), 0);
        let large = index(dir.path(), 1 << 20);
        assert_eq!(found(&large, &page("", 2_000)).len(), 2_000);
        let bytes = large.counters.index_bytes();
        assert!((12_000..80_000).contains(&bytes), "{bytes} bytes");
        assert_eq!(large.counters.index_keys(), 2_000);
    }
}
