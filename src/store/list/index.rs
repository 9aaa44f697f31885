//! The names of a large directory, sorted and kept in memory, so that a page of them costs no walk.
//!
//! Never stale: each use first reads what has happened to the directory and its folders, by this server or another
//! program, and brings the [`Tree`] of its keys up to date. Lost events cost a new walk. Bounded in bytes; given up
//! after a while without listings. It belongs to one directory. Blocks, and may take as long as a walk: it is used on
//! listing threads alone.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::events::Events;
use super::progress::Reader;
use super::tree::{Tree, TreeError};
use crate::metrics::Listings;
use crate::store::bounds::{Account, Uses};
use crate::store::directory_fd::ValuesDir;
use crate::value::Page;

/// The time after which an unused index is dropped.
const UNUSED: Duration = Duration::from_secs(300);

/// The time after which an index is tried again where it was impossible.
const AGAIN: Duration = Duration::from_secs(300);

/// How long events gather before they are read without a listing: far shorter than the kernel's queue of 16,384 lasts.
const GATHER: Duration = Duration::from_millis(20);

/// How often a listing looks again whether it may use the index.
const SOON: Duration = Duration::from_millis(1);

/// How often an index without events is checked for use.
const IDLE: Duration = Duration::from_secs(10);

/// Walks for one index, where changes come faster than they are read.
const TRIES: usize = 3;

/// The index of one directory.
#[derive(Debug)]
pub struct Index {
    dir: Arc<ValuesDir>,
    /// Memory that it may take, in bytes.
    most: u64,
    /// With bounds: it then has the names also while there is no index, and the index is always kept.
    account: Option<Arc<Account>>,
    state: Mutex<State>,
    /// True while the index is read for long between listings, or as bounds need it: listings do not wait for it.
    is_counting: AtomicBool,
    counters: Arc<Listings>,
    /// True once the log says that a folder is mounted twice.
    twice_told: OnceLock<()>,
}

#[derive(Debug)]
enum State {
    /// No index has been needed so far.
    Absent,
    Live(Box<Live>),
    /// An index was impossible at that time.
    Impossible(Instant),
}

impl State {
    /// False while it was impossible a moment ago.
    fn may_be_live(&self) -> bool {
        !matches!(self, Self::Impossible(since) if since.elapsed() < AGAIN)
    }
}

#[derive(Debug)]
struct Live {
    tree: Tree,
    used: Instant,
}

impl Index {
    /// An index that takes at most `most` bytes, unless bounds need it for their `account`.
    pub fn new(
        dir: Arc<ValuesDir>,
        most: u64,
        account: Option<Arc<Account>>,
        counters: Arc<Listings>,
    ) -> Arc<Self> {
        Arc::new(Self {
            dir,
            most: account.as_ref().map_or(most, |_| u64::MAX),
            account,
            is_counting: AtomicBool::new(false),
            state: Mutex::new(State::Absent),
            counters,
            twice_told: OnceLock::new(),
        })
    }

    /// The `limit + 1` smallest items of `page`; `None` while there is no index.
    pub fn smallest(&self, page: &Page) -> Option<Vec<String>> {
        self.smallest_of(&mut *self.unless_read()?, page)
    }

    /// The state, for a listing; `None` while the index is read for long.
    fn unless_read(&self) -> Option<MutexGuard<'_, State>> {
        while !self.is_counting.load(Relaxed) {
            match self.state.try_lock() {
                Ok(state) => return Some(state),
                Err(TryLockError::Poisoned(_)) => return Some(self.lock()),
                // It is read, for long or not: that is told soon.
                Err(TryLockError::WouldBlock) => std::thread::sleep(SOON),
            }
        }
        None
    }

    /// As [`Index::smallest`]. An index that cannot be brought up to date is dropped; of one that is behind for long
    /// there is no answer.
    fn smallest_of(&self, state: &mut State, page: &Page) -> Option<Vec<String>> {
        let State::Live(live) = state else {
            return None;
        };
        let caught_up = self.catch_up(&mut live.tree, Reader::Listing);
        live.used = Instant::now();
        match caught_up {
            Ok(()) => return Some(live.tree.smallest(page)),
            Err(TreeError::Behind) => {}
            Err(_) => self.enter(state, State::Absent),
        }
        None
    }

    /// True if an index may be made.
    pub fn is_possible(&self) -> bool {
        self.most > 0 && self.unless_read().is_some_and(|state| state.may_be_live())
    }

    /// As [`Index::smallest`], but makes the index if there is none. `None` if an index is impossible.
    ///
    /// Other calls wait meanwhile for the same walk.
    pub fn smallest_at_last(self: &Arc<Self>, page: &Page) -> Option<Vec<String>> {
        let mut state = self.unless_read()?;
        if let Some(smallest) = self.smallest_of(&mut state, page) {
            return Some(smallest);
        }
        if matches!(*state, State::Live(_)) {
            return None;
        }
        self.make(&mut state);
        match &*state {
            State::Live(live) => Some(live.tree.smallest(page)),
            State::Absent | State::Impossible(_) => None,
        }
    }

    /// Makes the index if there is none, and is it possible; true if it has counted the values of the account anew.
    pub fn keep(self: &Arc<Self>) -> bool {
        let mut state = self.lock();
        if matches!(*state, State::Live(_)) || !state.may_be_live() {
            return false;
        }
        self.is_counting.store(true, Relaxed);
        self.make(&mut state);
        self.is_counting.store(false, Relaxed);
        matches!(*state, State::Live(_))
    }

    fn make(self: &Arc<Self>, state: &mut State) {
        let next = match self.read() {
            Some(live) => State::Live(Box::new(live)),
            None => State::Impossible(Instant::now()),
        };
        self.enter(state, next);
    }

    /// Reads the directory; logs why an index is impossible.
    fn read(self: &Arc<Self>) -> Option<Live> {
        let mut twice = None;
        for _ in 0..TRIES {
            self.counters.walks.add(1);
            let account = self.account.clone();
            let account =
                account.unwrap_or_else(|| Account::new(Vec::new(), None, Uses::default()));
            match Tree::read(&self.dir, self.most, account) {
                Ok(tree) => {
                    let used = Instant::now();
                    let is_kept_up = self.keep_up(&tree.events).is_ok();
                    return is_kept_up.then_some(Live { tree, used });
                }
                Err(TreeError::EventsLost | TreeError::Behind) => twice = None,
                Err(TreeError::Twice(folder)) => twice = Some(folder),
                Err(TreeError::Remote) => {
                    tracing::info!(
                        "the file system may be changed from elsewhere: each listing walks the directory"
                    );
                    return None;
                }
                Err(TreeError::Unwatched(error)) => {
                    // The kernel's own words for it are "No space left on device".
                    let limit = match error {
                        Errno::NOSPC => "fs.inotify.max_user_watches",
                        Errno::MFILE => "fs.inotify.max_user_instances, or descriptors",
                        _ => "none known",
                    };
                    tracing::warn!(%error, limit, "changes of the directory and its folders cannot be watched: each listing walks them");
                    return None;
                }
                Err(TreeError::TooLarge) => {
                    tracing::warn!(
                        most = self.most,
                        "the keys take more memory than --listing-index: each listing walks the directory"
                    );
                    return None;
                }
                Err(TreeError::Failed(error)) => {
                    let cause = std::error::Error::source(&error);
                    tracing::error!(%error, ?cause, "the names of the directory cannot be read: each listing walks it");
                    return None;
                }
            }
        }
        match twice {
            None => tracing::warn!(
                "the directory changes faster than it can be indexed: each listing walks it"
            ),
            Some(folder) => *self.twice_told.get_or_init(|| {
                tracing::warn!(
                    folder,
                    "a folder lies at two places below the directory (mount --bind), so changes of its names cannot be told apart: each listing walks the directory"
                );
            }),
        }
        None
    }

    fn catch_up(&self, tree: &mut Tree, reader: Reader<'_>) -> Result<(), TreeError> {
        let caught_up = tree.catch_up(reader);
        self.count(Some(tree));
        caught_up
    }

    fn count(&self, tree: Option<&Tree>) {
        let (keys, bytes) = tree.map_or((0, 0), Tree::size);
        self.counters.index_keys.store(keys as u64, Relaxed);
        self.counters.index_bytes.store(bytes as u64, Relaxed);
    }

    /// Starts a thread that reads the events between listings, so that their queue does not overflow.
    fn keep_up(self: &Arc<Self>, events: &Arc<Events>) -> std::io::Result<()> {
        let (index, events) = (Arc::downgrade(self), Arc::clone(events));
        let catch_up = move || {
            events.wait(IDLE);
            std::thread::sleep(GATHER);
            let index = index.upgrade();
            index.is_some_and(|index| index.catch_up_idly(&events))
        };
        let thread = std::thread::Builder::new().name("disk-list-events".into());
        let started = thread.spawn(move || while catch_up() {});
        started.map(drop).inspect_err(|error| {
            tracing::warn!(%error, "no thread for the changes of the directory: each listing walks it");
        })
    }

    /// Reads the events of the index with these `events`; returns false when that index is gone.
    fn catch_up_idly(&self, events: &Arc<Events>) -> bool {
        let mut state = self.lock();
        let live = match &mut *state {
            State::Live(live) if Arc::ptr_eq(&live.tree.events, events) => live,
            _ => return false,
        };
        let is_used = self.account.is_some() || live.used.elapsed() < UNUSED;
        let reader = Reader::Background(&self.is_counting);
        let is_kept = is_used && self.catch_up(&mut live.tree, reader).is_ok();
        self.is_counting.store(false, Relaxed);
        if !is_kept {
            self.enter(&mut state, State::Absent);
        }
        is_kept
    }

    fn enter(&self, state: &mut State, next: State) {
        self.count(match &next {
            State::Live(live) => Some(&live.tree),
            State::Absent | State::Impossible(_) => None,
        });
        *state = next;
    }

    /// Locks the state; drops an index that a panic may have left wrong.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| {
            let mut state = poisoned.into_inner();
            self.enter(&mut state, State::Absent);
            self.state.clear_poison();
            state
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::directory_fd::ValuesDir;
    use crate::store::implicit::{is_implicit, mark_implicit, unmark_implicit};
    use crate::store::list::page as by_walk;
    use crate::store::location::Location;
    use crate::transfer::BlockingPool;
    use crate::value::Prefixes;
    use data_server_testing::scaled;
    use proptest::prelude::*;
    use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    fn index(dir: &Path, most: u64) -> Arc<Index> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(dir, flags, Mode::empty()).unwrap();
        let location = Location::new(dir, &root, None).unwrap();
        let dir = ValuesDir::new(root, location, BlockingPool::disk(None).unwrap());
        Index::new(Arc::new(dir), most, None, Arc::default())
    }

    fn page(after: &str, limit: usize) -> Page {
        Page {
            prefix: String::new(),
            after: after.to_owned(),
            limit,
            by_folder: false,
            folders: false,
            within: Prefixes::all(),
        }
    }

    fn found(index: &Arc<Index>, page: &Page) -> Vec<String> {
        index.smallest_at_last(page).expect("an index")
    }

    /// A deed of one of several programs to one of some paths.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Write,
        Link,
        Publish,
        Rename,
        Exchange,
        Remove,
        RemoveAll,
        Directory,
        Directories,
        Symlink,
        Look,
    }

    impl Step {
        /// Does what may fail, as it depends on what is there.
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
                Self::RemoveAll => fs::remove_dir_all(at).ok(),
                Self::Directory => fs::create_dir(at).ok(),
                Self::Directories => fs::create_dir_all(at).ok(),
                Self::Symlink => std::os::unix::fs::symlink("a", at).ok(),
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

    /// The keys in `dir` and below, found in the plainest way.
    fn values(dir: &Path) -> BTreeSet<String> {
        let mut values = BTreeSet::new();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(dir.join(&folder)).unwrap() {
                let entry = entry.unwrap();
                let path = folder.clone() + entry.file_name().to_str().unwrap();
                let kind = entry.file_type().unwrap();
                if kind.is_file() {
                    values.insert(path);
                } else if kind.is_dir() {
                    folders.push(path + "/");
                }
            }
        }
        values
    }

    /// The items to be on `page`, and one more, found in the plainest way.
    fn expected(values: &BTreeSet<String>, page: &Page) -> Vec<String> {
        let keys = values.iter().filter(|key| key.starts_with(&page.prefix));
        let items = keys.map(|key| match key[page.prefix.len()..].find('/') {
            Some(slash) if page.by_folder => key[..=page.prefix.len() + slash].to_owned(),
            _ => key.clone(),
        });
        let items: BTreeSet<String> = items.filter(|item| *item > page.after).collect();
        items.into_iter().take(page.limit + 1).collect()
    }

    /// Segments whose order differs from that of the keys that they are in: `a-` comes before `a/`, and that before
    /// `a0`.
    const SEGMENTS: [&str; 5] = ["a", "a-", "a0", "b", "é"];

    fn path() -> impl Strategy<Value = String> {
        let segments = prop::collection::vec(prop::sample::select(&SEGMENTS[..]), 1..4);
        segments.prop_map(|segments| segments.join("/"))
    }

    fn some_page() -> impl Strategy<Value = Page> {
        let text = prop_oneof![
            Just(String::new()),
            path(),
            path().prop_map(|path| path + "/"),
            Just("..".to_owned()),
            Just("a/..".to_owned()),
        ];
        let page = (text.clone(), text, 1..8_usize, any::<bool>());
        page.prop_map(|(prefix, after, limit, by_folder)| Page {
            prefix,
            after,
            limit,
            by_folder,
            folders: false,
            within: Prefixes::all(),
        })
    }

    fn steps() -> impl Strategy<Value = Vec<(Step, String, String)>> {
        let step = prop::sample::select(vec![
            Step::Write,
            Step::Write,
            Step::Write,
            Step::Link,
            Step::Publish,
            Step::Rename,
            Step::Rename,
            Step::Exchange,
            Step::Remove,
            Step::Remove,
            Step::RemoveAll,
            Step::Directory,
            Step::Directories,
            Step::Directories,
            Step::Symlink,
            Step::Look,
        ]);
        prop::collection::vec((step, path(), path()), 1..80)
    }

    fn walked(index: &Index, page: &Page) -> Vec<String> {
        let items = by_walk::smallest(&index.dir, page, usize::MAX, &|| Ok(()));
        items
            .ok()
            .flatten()
            .unwrap_or_else(|| panic!("a walk of {page:?}"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(scaled(24, 128)))]
        #[test]
        fn it_has_what_the_directory_has_whatever_is_done_to_it(
            steps in steps(), in_memory in any::<bool>(), pages in prop::collection::vec(some_page(), 4),
        ) {
            let place = if in_memory { Path::new("/dev/shm") } else { Path::new("/tmp") };
            let dir = tempfile::tempdir_in(place).or_else(|_| tempfile::tempdir()).unwrap();
            let index = index(dir.path(), 1 << 20);
            found(&index, &page("", 1));
            let look = || {
                let model = values(dir.path());
                prop_assert!(found(&index, &page("", 100)).iter().eq(&model));
                for page in &pages {
                    let expected = expected(&model, page);
                    prop_assert_eq!(&found(&index, page), &expected, "{:?} of {:?}", page, model);
                    prop_assert_eq!(&walked(&index, page), &expected, "{:?} of {:?}", page, model);
                }
                Ok(())
            };
            for (step, at, other) in steps {
                step.take(&dir.path().join(at), &dir.path().join(other), dir.path());
                if matches!(step, Step::Look) {
                    look()?;
                }
            }
            look()?;
            prop_assert_eq!(index.counters.walks.get(), 1);
        }
    }

    #[test]
    fn a_walk_remembers_few_folders_at_once_and_passes_over_none() {
        let dir = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        for n in 0..2_500 {
            let folder = dir.path().join(format!("f{:04}", n * 7 % 2_500));
            fs::create_dir(&folder).unwrap();
            // Folders without a key take the places of those that have one.
            if n % 100 == 0 {
                fs::write(folder.join("k"), "").unwrap();
            }
        }
        let index = index(dir.path(), 1 << 20);
        let model = values(dir.path());
        assert_eq!(model.len(), 25);
        for by_folder in [false, true] {
            for limit in [3, 100] {
                let page = Page {
                    by_folder,
                    folders: false,
                    ..page("f0500", limit)
                };
                assert_eq!(walked(&index, &page), expected(&model, &page));
            }
        }
    }

    #[test]
    fn a_folder_of_many_empty_folders_is_read_a_few_times() {
        const MANY: usize = 20_000;
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let dir = dir.unwrap();
        for n in 0..MANY {
            fs::create_dir(dir.path().join(n.to_string())).unwrap();
        }
        let index = index(dir.path(), 1 << 20);
        let smallest = by_walk::smallest(&index.dir, &page("", 10), 5 * MANY, &|| Ok(()));
        assert_eq!(smallest.unwrap(), Some(Vec::new()));
    }

    #[test]
    fn a_walk_reads_nothing_before_the_folder_of_the_prefix_nor_behind_the_page() {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["a", "b", "c"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
            for n in 0..50 {
                fs::write(dir.path().join(format!("{folder}/{n:02}")), "").unwrap();
            }
        }
        let index = index(dir.path(), 1 << 20);
        let met = |prefix: &str, after: &str, by_folder| {
            let page = Page {
                prefix: prefix.to_owned(),
                by_folder,
                folders: false,
                ..page(after, 10)
            };
            let smallest = |most| by_walk::smallest(&index.dir, &page, most, &|| Ok(()));
            (0..1_000)
                .find(|&most| smallest(most).unwrap().is_some())
                .unwrap()
        };
        // Folders count when they are met, and when it is their turn.
        assert_eq!(met("", "", false), 56);
        assert_eq!(met("", "b/", false), 55);
        assert_eq!(met("b/", "", false), 50);
        assert_eq!(met("b/4", "", false), 50);
        assert_eq!(met("d/", "", false), 0);
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
            for _ in 0..scaled(4, 20) {
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

    /// The subtree of a folder of rights or of a mark was read again.
    #[test]
    fn a_folder_whose_attributes_change_is_looked_at_itself() {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let dir = dir.unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        fs::write(dir.path().join("a/b/k"), "").unwrap();
        let account = Account::new(Vec::new(), None, Uses::default());
        let index = Index {
            account: Some(Arc::clone(&account)),
            ..Arc::into_inner(index(dir.path(), 1 << 20)).unwrap()
        };
        let index = Arc::new(index);
        let page = Page {
            folders: true,
            ..page("", 10)
        };
        let all = ["a/", "a/b/", "a/b/k"];
        assert_eq!(found(&index, &page), all);
        // What is read again is forgotten first.
        let mark = |name: &str| account.set_name(name, true);
        mark("a/b/unseen");
        let all = [&all[..], &["a/b/unseen"]].concat();
        let [a, root] = [dir.path().join("a"), dir.path().to_owned()];
        for path in [&a, &root] {
            let rights = fs::metadata(path).unwrap().permissions();
            fs::set_permissions(path, rights).unwrap();
            assert_eq!(found(&index, &page), all);
        }
        let folder = fs::File::open(&a).unwrap();
        mark_implicit(&folder);
        let is_marked = is_implicit(&folder);
        assert_eq!(found(&index, &page), all[usize::from(is_marked)..]);
        unmark_implicit(&folder).unwrap();
        assert_eq!(found(&index, &page), all);
        fs::rename(&a, dir.path().join("c")).unwrap();
        assert_eq!(found(&index, &page), ["c/", "c/b/", "c/b/k"]);
    }

    #[test]
    fn what_is_lost_of_the_events_costs_a_walk_and_no_name() {
        let queue = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let queue: usize = queue.trim().parse().unwrap();
        if queue > 100_000 {
            data_server_testing::left_out("a queue of events that overflows", "it is long here");
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

    /// A folder of many values that moves is read between listings: they neither wait for it nor miss a name, and the
    /// index is kept.
    #[test]
    fn an_index_that_is_behind_is_kept_and_catches_up() {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let dir = dir.unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        for n in 0..30_000 {
            fs::write(dir.path().join(format!("a/{n:05}")), "").unwrap();
        }
        let index = index(dir.path(), 64 << 20);
        let first = page("", 2);
        assert_eq!(found(&index, &first)[0], "a/00000");
        let walks = index.counters.walks.get();
        for (from, to) in [("a", "b"), ("b", "a"), ("a", "c")] {
            fs::rename(dir.path().join(from), dir.path().join(to)).unwrap();
            let names = loop {
                if let Some(names) = index.smallest(&first) {
                    break names;
                }
                std::thread::yield_now();
            };
            let expected = ["00000", "00001", "00002"].map(|name| format!("{to}/{name}"));
            assert_eq!(names, expected);
        }
        assert_eq!(index.counters.walks.get(), walks, "it was not made anew");
    }

    #[test]
    fn names_beyond_its_memory_are_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..2_000 {
            fs::write(dir.path().join(format!("k{n:05}")), "").unwrap();
        }
        let small = index(dir.path(), 8 << 10);
        assert!(small.smallest_at_last(&page("", 1)).is_none());
        assert!(!small.is_possible());
        assert_eq!(small.counters.index_bytes.load(Relaxed), 0);
        let large = index(dir.path(), 1 << 20);
        assert_eq!(found(&large, &page("", 2_000)).len(), 2_000);
        let bytes = large.counters.index_bytes.load(Relaxed);
        assert!((12_000..130_000).contains(&bytes), "{bytes} bytes");
        assert_eq!(large.counters.index_keys.load(Relaxed), 2_000);
    }
}
