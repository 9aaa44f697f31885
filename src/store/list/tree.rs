//! The keys and folders of the directory, sorted in memory, and kept current by inotify events.
//!
//! A folder is watched before it is read, so that no change between the two is missed. An event says only that a name
//! has changed. The tree looks up what the name stands for now, once for all events of the name.
//!
//! Three kinds of events need no look-up of a name that a bound counts, so what the publisher creates and removes is
//! not looked up a second time:
//! - The last event removed the name, and the account does not have the name: it is free.
//! - Files that were open for writing were closed under the name, nothing else happened, and the account does not have
//!   the name: it is free, because a file of the publisher has another name by then.
//! - The name was created, nothing else happened, the account has the name, and every folder was read before these
//!   events: the account counted the value after its name was created.
//!
//! When a folder is created, removed or renamed, the tree forgets the folder with everything below it, and reads it
//! again if it exists. When only the folder's attributes have changed, the tree looks at the folder alone. Blocks.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;

use rustix::io::Errno;

use super::events::{Events, Mounts, Told, Watch, may_be_mount};
use super::folder::{Entries, open};
use super::progress::{Progress, Reader};
use super::walk::{Go, Met, Order, Walk};
use crate::store::bounds::Account;
use crate::store::directory_fd::ValuesDir;
use crate::store::implicit::is_implicit;
use crate::value::{Error, Key, Page, may_have_keys};

/// Memory that a folder takes beside its path.
const FOLDER_OVERHEAD: usize = 128;

/// The names of the whole directory, kept in memory and followed by events.
#[derive(Debug)]
pub struct Tree {
    dir: Arc<ValuesDir>,
    /// Memory limit, in bytes.
    most: u64,
    /// The names, and what the values of those take that a bound counts.
    account: Arc<Account>,
    pub events: Arc<Events>,
    root: Watch,
    mounts: Mounts,
    folders: Folders,
    /// Paths of folders that are to be read.
    unread: BTreeSet<String>,
    /// Mounts that could not be read: no event reports when they become readable.
    closed: BTreeSet<String>,
    /// True while every folder was read before the last events.
    is_read: bool,
}

/// Why a tree cannot be used.
pub enum TreeError {
    /// A listing would take long: the tree is as good as before, and catches up later.
    Behind,
    /// Events were lost.
    EventsLost,
    /// The folder of this path is also there under another: it was renamed just now, or is mounted twice.
    Twice(String),
    TooLarge,
    /// A folder lies where others change it unseen.
    Remote,
    Unwatched(Errno),
    Failed(Error),
}

impl From<Error> for TreeError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Tree {
    /// Reads the whole directory into `account`.
    pub fn read(dir: &Arc<ValuesDir>, most: u64, account: Arc<Account>) -> Result<Self, TreeError> {
        let events = Events::new().map_err(TreeError::Unwatched)?;
        let root = events.watch(&dir.root).map_err(TreeError::Unwatched)?;
        let mounts = events.mounts_below(&dir.root);
        let count = account.begin_count(true);
        let mut tree = Self {
            dir: Arc::clone(dir),
            most,
            account,
            events: Arc::new(events),
            root: root.ok_or(TreeError::Remote)?,
            mounts: mounts.ok_or(TreeError::EventsLost)?,
            folders: Folders::default(),
            unread: BTreeSet::from([String::new()]),
            closed: BTreeSet::new(),
            is_read: false,
        };
        tree.catch_up(Reader::Maker)?;
        tree.catch_up(Reader::Maker)?;
        tree.account.end_count(count);
        Ok(tree)
    }

    /// How many keys there are, and the memory that it takes.
    pub fn size(&self) -> (usize, usize) {
        let (keys, bytes) = self.account.size();
        (keys, bytes + self.folders.bytes)
    }

    /// Applies every change that was complete when this is called, for `reader`.
    pub fn catch_up(&mut self, reader: Reader<'_>) -> Result<(), TreeError> {
        let mut progress = Progress::new(reader);
        let root = &self.dir.root;
        if self.events.mounts_changed()
            && self.events.mounts_below(root).as_ref() != Some(&self.mounts)
        {
            return Err(TreeError::EventsLost);
        }
        self.take_events()?;
        self.unread.append(&mut self.closed);
        self.is_read = self.unread.is_empty();
        while let Some(path) = self.unread.pop_last() {
            let read = self.read_folder(&path, &mut progress);
            if matches!(read, Err(TreeError::Behind)) {
                self.unread.insert(path);
            }
            read?;
        }
        self.account.forget_unseen();
        self.check()
    }

    fn check(&self) -> Result<(), TreeError> {
        let unread = self.unread.len() * FOLDER_OVERHEAD;
        if (self.size().1 + unread) as u64 > self.most {
            return Err(TreeError::TooLarge);
        }
        Ok(())
    }

    /// Reads the folder `path`, and those below it.
    fn read_folder(&mut self, path: &str, progress: &mut Progress<'_>) -> Result<(), TreeError> {
        let dir = Arc::clone(&self.dir);
        if !path.is_empty() {
            // It may have been read before, under this path or another.
            self.forget(path);
        }
        let mut walk = Walk::below(path, Order::AsRead);
        walk.go_on(&dir, usize::MAX, |met| {
            progress.names += 1;
            match met {
                Met::Opened(folder, path) => {
                    let watch = self.events.watch(folder).map_err(TreeError::Unwatched)?;
                    // Its mark is read after that: a mark that comes later is an event of the folder.
                    let is_lasting = !path.is_empty() && !is_implicit(folder);
                    let watch = watch.ok_or(TreeError::Remote)?;
                    self.folders.insert(path, watch, is_lasting)?;
                }
                // The names read so far have been added, so the events on them apply after that.
                Met::Pause => {
                    if !progress.may_go_on() {
                        return Err(TreeError::Behind);
                    }
                    self.take_events()?;
                    self.check()?;
                }
                Met::Value(key) if self.account.counts(key.as_str()) => {
                    self.account.look(&self.dir, key.as_str());
                }
                Met::Value(key) => self.account.set_name(key.as_str(), true),
                Met::Unreadable(path, _) if may_be_mount(&self.mounts, path) => {
                    self.closed.insert(path.to_owned());
                }
                _ => {}
            }
            Ok::<_, TreeError>(Go::On)
        })?;
        Ok(())
    }

    fn take_events(&mut self) -> Result<(), TreeError> {
        let dir = Arc::clone(&self.dir);
        let mut entries = Entries::new(&dir);
        let events = self.events.take(self.root).ok_or(TreeError::EventsLost)?;
        for (event, told) in events {
            // Events of a folder that was forgotten: if it is there, it is read.
            let Some(folder) = self.folders.path(event.folder) else {
                continue;
            };
            if event.name.is_empty() {
                let folder = folder.to_owned();
                self.look_at_folder(&folder);
                continue;
            }
            let Ok(name) = std::str::from_utf8(&event.name) else {
                dir.unserved.name(folder, &event.name);
                continue;
            };
            let path = match folder {
                "" => name.to_owned(),
                folder => format!("{folder}/{name}"),
            };
            let Ok(key) = Key::new(path.as_str()) else {
                continue;
            };
            if told == Told::Attributes {
                if event.is_folder && may_have_keys(&path) {
                    self.look_at_folder(&path);
                } else if self.account.counts(key.as_str()) {
                    // Attributes take blocks too, such as a digest that was kept.
                    self.account.look(&self.dir, key.as_str());
                }
                continue;
            }
            if self.account.counts(key.as_str()) {
                if !self.is_known(key.as_str(), told) {
                    self.account.look(&self.dir, key.as_str());
                }
            } else if told != Told::Written {
                let found = entries.meta(&key)?;
                let is_value = matches!(found, Ok(Some(_)));
                self.account.set_name(key.as_str(), is_value);
            }
            if event.is_folder && may_have_keys(&path) {
                self.forget(&path);
                self.unread.insert(path);
            }
        }
        Ok(())
    }

    /// Returns true if the account is right about `key` without a look-up: the three kinds of events above.
    fn is_known(&self, key: &str, told: Told) -> bool {
        match told {
            Told::Made => self.is_read && self.account.has(key) == Some(true),
            Told::Gone | Told::Written => self.account.has(key).is_none(),
            Told::Changed | Told::Attributes => false,
        }
    }

    /// Updates the folder `path`, whose attributes have changed: whether it stays without values. A folder that became
    /// readable or unreadable is read again.
    fn look_at_folder(&mut self, path: &str) {
        match open(&self.dir, path) {
            Ok(_) if path.is_empty() => {}
            Ok(folder) if self.folders.by_path.contains_key(path) => {
                self.folders.set_lasting(path, !is_implicit(folder));
            }
            _ => {
                self.unread.insert(path.to_owned());
            }
        }
    }

    /// Forgets the folder `path` and all that lies below it.
    fn forget(&mut self, path: &str) {
        for watch in self.folders.remove(path) {
            self.events.forget(watch);
        }
        self.account.unsee(&format!("{path}/"));
    }

    /// The `limit + 1` smallest items of `page`.
    pub fn smallest(&self, page: &Page) -> Vec<String> {
        smallest(page, |from| {
            let key = self.account.first_from(from);
            let folder = self.folders.first_lasting(from, page);
            key.map(Box::from).into_iter().chain(folder).min()
        })
    }
}

/// The `limit + 1` smallest items of `page`, where `first_from` has the first name from one on.
fn smallest(page: &Page, first_from: impl Fn(&str) -> Option<Box<str>>) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    let mut from = page.prefix.as_str().max(&page.after).to_owned();
    while items.len() <= page.limit {
        let Some(name) = first_from(&from).filter(|name| name.starts_with(&page.prefix)) else {
            break;
        };
        let item = page.item(&name);
        if page.has(item) {
            items.push(item.to_owned());
        }
        // A folder stands for the keys below it, which are passed over.
        from = if page.by_folder && item.ends_with('/') {
            behind(item)
        } else {
            name.into_string() + "\0"
        };
    }
    items
}

/// The text that all names beginning with `folder`, which ends with `/`, come before, with nothing between.
fn behind(folder: &str) -> String {
    let mut behind = folder.trim_end_matches('/').to_owned();
    behind.push(char::from(b'/' + 1));
    behind
}

/// The watched folders.
#[derive(Debug, Default)]
struct Folders {
    by_path: BTreeMap<Box<str>, Watch>,
    by_watch: HashMap<Watch, Box<str>>,
    /// Those that stay without a value, each with a `/` behind it.
    lasting: BTreeSet<Box<str>>,
    bytes: usize,
}

impl Folders {
    fn path(&self, watch: Watch) -> Option<&str> {
        self.by_watch.get(&watch).map(|path| &**path)
    }

    /// Adds `path`, unless the same directory is there under another.
    fn insert(&mut self, path: &str, watch: Watch, is_lasting: bool) -> Result<(), TreeError> {
        if self.by_watch.insert(watch, path.into()).is_some() {
            return Err(TreeError::Twice(path.to_owned()));
        }
        self.by_path.insert(path.into(), watch);
        self.bytes += 2 * path.len() + FOLDER_OVERHEAD;
        self.set_lasting(path, is_lasting);
        Ok(())
    }

    /// Notes whether the folder `path` stays without a value.
    fn set_lasting(&mut self, path: &str, is_lasting: bool) {
        let name = format!("{path}/");
        let bytes = path.len() + FOLDER_OVERHEAD / 2;
        if is_lasting && self.lasting.insert(name.as_str().into()) {
            self.bytes += bytes;
        } else if !is_lasting && self.lasting.remove(name.as_str()) {
            self.bytes -= bytes;
        }
    }

    /// The first folder from `from` on that stays and is an item of `page`, with a `/` behind it.
    fn first_lasting(&self, from: &str, page: &Page) -> Option<Box<str>> {
        if !page.folders {
            return None;
        }
        let mut lasting = self.lasting.range::<str, _>((Included(from), Unbounded));
        // The folder of the page itself may come first, and is none.
        let first = lasting.find(|name| ***name != *page.prefix || !page.by_folder)?;
        Some(first.clone())
    }

    /// Removes `path` and the folders below it; returns their watches.
    fn remove(&mut self, path: &str) -> Vec<Watch> {
        let below = format!("{path}/");
        let there = self.by_path.range::<str, _>((Included(&*below), Unbounded));
        let there = there.map(|(path, _)| path);
        let there = there.take_while(|path| path.starts_with(&below));
        let mut gone: Vec<Box<str>> = there.cloned().collect();
        gone.push(path.into());
        let removed = gone.iter().filter_map(|path| {
            let watch = self.by_path.remove(path)?;
            self.by_watch.remove(&watch);
            self.set_lasting(path, false);
            self.bytes -= 2 * path.len() + FOLDER_OVERHEAD;
            Some(watch)
        });
        removed.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::bounds::{Ask, Bound, Full, Known, MIN_AGE, Prefix, Uses};
    use crate::store::location::Location;
    use crate::transfer::BlockingPool;
    use crate::value::Prefixes;
    use data_server_testing::scaled;
    use proptest::prelude::*;
    use rustix::fs::{CWD, Mode, OFlags, RenameFlags, renameat_with};
    use std::cell::Cell;
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;
    use std::path::{Path, PathBuf};
    use std::sync::LazyLock;
    use tempfile::TempDir;

    static DISK: LazyLock<BlockingPool> = LazyLock::new(|| BlockingPool::disk(None).unwrap());

    const KEYS: [&str; 6] = ["a/0", "a/1", "b/0", "b/1", "c", "d"];

    /// A deed of another program; what cannot be done is not.
    #[derive(Clone, Copy, Debug)]
    enum Hand {
        /// A file of so many blocks, which is there in one step.
        Place(usize, usize),
        /// So many blocks in the file that is there, or in a new one.
        Write(usize, usize),
        Move(usize, usize),
        Exchange(usize, usize),
        Remove(usize),
        /// The folder of one key gets the name of that of the other.
        MoveFolder(usize, usize),
    }

    #[derive(Clone, Debug)]
    enum Step {
        Hand(Hand),
        CatchUp,
        /// The publisher puts a value of so many blocks, or removes one; meanwhile these are done: before it has
        /// changed the file, and after.
        Publish(usize, Option<usize>, Vec<Step>, Vec<Step>),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let (key, blocks) = (0..KEYS.len(), 1_usize..6);
        let hand = prop_oneof![
            3 => (key.clone(), blocks.clone()).prop_map(|(key, blocks)| Hand::Place(key, blocks)),
            2 => (key.clone(), blocks.clone()).prop_map(|(key, blocks)| Hand::Write(key, blocks)),
            1 => (key.clone(), key.clone()).prop_map(|(from, to)| Hand::Move(from, to)),
            1 => (key.clone(), key.clone()).prop_map(|(from, to)| Hand::Exchange(from, to)),
            2 => key.clone().prop_map(Hand::Remove),
            1 => (key.clone(), key.clone()).prop_map(|(from, to)| Hand::MoveFolder(from, to)),
        ];
        let simple = prop_oneof![3 => hand.prop_map(Step::Hand), 2 => Just(Step::CatchUp)];
        let meanwhile = prop::collection::vec(simple.clone(), 0..3);
        let value = prop::option::weighted(0.6, blocks);
        let publish = (key, value, meanwhile.clone(), meanwhile);
        let publish = publish
            .prop_map(|(key, value, before, after)| Step::Publish(key, value, before, after));
        prop::collection::vec(prop_oneof![simple, publish], 1..40)
    }

    struct World {
        path: PathBuf,
        /// Where files lie before they are placed.
        staging: TempDir,
        dir: Arc<ValuesDir>,
        account: Arc<Account>,
        tree: Tree,
    }

    impl World {
        fn new(path: &Path) -> Self {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let root = rustix::fs::open(path, flags, Mode::empty()).unwrap();
            let location = Location::new(path, &root, None).unwrap();
            let dir = Arc::new(ValuesDir::new(root, location, DISK.clone()));
            let bound = Bound {
                prefix: Prefix::new("").unwrap(),
                max_size: None,
                max_keys: Some(1000),
                max_age: None,
                full: Full::Refuse,
                min_age: MIN_AGE,
            };
            let account = Account::new(vec![bound], None, Uses::default());
            account.set_whole();
            let tree = Tree::read(&dir, u64::MAX, Arc::clone(&account));
            Self {
                path: path.to_owned(),
                staging: TempDir::new_in(path.parent().unwrap()).unwrap(),
                dir,
                account,
                tree: tree.unwrap_or_else(|_| panic!("no tree")),
            }
        }

        fn new_file(&self, blocks: usize) -> PathBuf {
            let file = self.staging.path().join("new");
            fs::write(&file, vec![1; blocks * 4096]).unwrap();
            file
        }

        fn step(&mut self, step: &Step) {
            match *step {
                Step::Hand(hand) => {
                    let _ = self.hand(hand);
                }
                Step::CatchUp => self.catch_up(),
                Step::Publish(key, blocks, ref before, ref after) => {
                    self.publish(KEYS[key], blocks, before, after);
                }
            }
        }

        fn hand(&self, hand: Hand) -> std::io::Result<()> {
            let at = |key: usize| self.path.join(KEYS[key]);
            let folder = |key| at(key).parent().unwrap().to_owned();
            match hand {
                Hand::Place(key, blocks) => {
                    fs::create_dir_all(folder(key))?;
                    fs::rename(self.new_file(blocks), at(key))
                }
                Hand::Write(key, blocks) => {
                    fs::create_dir_all(folder(key))?;
                    fs::write(at(key), vec![1; blocks * 4096])
                }
                Hand::Move(from, to) => fs::rename(at(from), at(to)),
                Hand::Exchange(one, other) => {
                    let flags = RenameFlags::EXCHANGE;
                    Ok(renameat_with(CWD, at(one), CWD, at(other), flags)?)
                }
                Hand::Remove(key) => fs::remove_file(at(key)),
                Hand::MoveFolder(from, to) => fs::rename(folder(from), folder(to)),
            }
        }

        /// As the publisher does.
        fn publish(&mut self, key: &str, blocks: Option<usize>, before: &[Step], after: &[Step]) {
            let at = self.path.join(key);
            let named = self.staging.path().join("named");
            let (new, mut held) = (blocks.map(|blocks| self.new_file(blocks)), None);
            let looks = self.account.looks();
            if let (Some(new), Some(blocks)) = (&new, blocks) {
                fs::rename(new, &named).unwrap();
                let bytes = blocks as u64 * 4096;
                let ask = Ask {
                    key,
                    bytes,
                    source: None,
                    staged: 0,
                };
                self.account.admit(&mut held, &ask).unwrap();
            }
            let file = fs::metadata(&named).ok().filter(|_| new.is_some());
            let file = file.map(|_| Known::new(&rustix::fs::stat(&named).unwrap(), None, None));
            let found = at.exists();
            for step in before {
                self.step(step);
            }
            let made = match &new {
                Some(_) if found => fs::rename(&named, &at),
                Some(_) => fs::create_dir_all(at.parent().unwrap())
                    .and_then(|()| fs::hard_link(&named, &at))
                    .and_then(|()| fs::remove_file(&named)),
                None => fs::remove_file(&at),
            };
            for step in after {
                self.step(step);
            }
            if made.is_ok() {
                self.account
                    .made(&self.dir, key, (held.as_deref_mut(), looks), file);
            } else {
                self.account.look(&self.dir, key);
            }
        }

        fn catch_up(&mut self) {
            let caught_up = self.tree.catch_up(Reader::Maker);
            caught_up.unwrap_or_else(|_| panic!("the tree is lost"));
        }

        /// The values and the bytes that each takes, as they are counted and as they are there.
        fn seen(&mut self) -> [BTreeMap<String, u64>; 2] {
            self.catch_up();
            let mut counted = BTreeMap::new();
            self.account.visit("", |name, value| {
                counted.insert(name.to_owned(), value.bytes());
            });
            let there = KEYS.iter().filter_map(|key| {
                let found = fs::metadata(self.path.join(key)).ok()?;
                found.is_file().then(|| (key.to_string(), found.size()))
            });
            [counted, there.collect()]
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(u32::try_from(scaled(200, 4_000)).unwrap()))]

        #[test]
        fn what_is_counted_is_there_whatever_the_publisher_and_other_programs_do(steps in steps()) {
            let place = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
            let path = place.path().join("values");
            fs::create_dir(&path).unwrap();
            let mut world = World::new(&path);
            for step in &steps {
                world.step(step);
                if matches!(step, Step::CatchUp) {
                    let [counted, there] = world.seen();
                    prop_assert_eq!(counted, there);
                }
            }
            let [counted, there] = world.seen();
            prop_assert_eq!(counted, there);
        }
    }

    #[test]
    fn a_file_that_has_no_name_yet_is_not_looked_at() {
        let place = TempDir::new_in("/dev/shm")
            .or_else(|_| TempDir::new())
            .unwrap();
        let path = place.path().join("values");
        fs::create_dir(&path).unwrap();
        let mut world = World::new(&path);
        let looks = world.account.looks();
        let (flags, mode) = (OFlags::TMPFILE | OFlags::WRONLY, Mode::RUSR | Mode::WUSR);
        let file = fs::File::from(rustix::fs::open(&path, flags, mode).unwrap());
        file.set_modified(std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
        drop(file);
        world.catch_up();
        assert_eq!(world.account.looks(), looks);
        // A file may have such a name.
        fs::write(path.join("#12"), "value").unwrap();
        world.catch_up();
        assert_eq!(world.account.has("#12"), Some(true));
    }

    /// The items of `page` that may be seen, for how many pages the tree was asked, and at how many names it looked.
    fn seen(keys: &Account, page: &Page) -> (Vec<String>, usize, usize) {
        let (asked, looked_at) = (Cell::new(0), Cell::new(0));
        let mut found = page.visible();
        while let Some(part) = found.next() {
            asked.update(|count| count + 1);
            let first = |from: &str| {
                let name = keys.first_from(from);
                name.inspect(|_| looked_at.update(|count| count + 1))
                    .map(Box::from)
            };
            found.add(smallest(&part, first));
        }
        (found.found, asked.get(), looked_at.get())
    }

    #[test]
    fn a_page_of_few_keys_among_many_looks_at_few_names() {
        const HIDDEN: usize = 50_000;
        let keys = Account::new(Vec::new(), None, Uses::default());
        for n in 0..HIDDEN {
            keys.set_name(&format!("hidden{}/{n:05}", n % 100), true);
            keys.set_name(&format!("x{n:05}"), true);
        }
        let visible = [
            "a/1",
            "hidden50/own/1",
            "hidden50/own/2",
            "hidden7-mine",
            "x25000-a",
            "z",
        ];
        for key in visible {
            keys.set_name(key, true);
        }
        let prefixes = ["a/", "b/none", "hidden50/own/", "hidden7-", "x25000-", "z"];
        let (mut pages, mut most) = (0, 0);
        for by_folder in [false, true] {
            for limit in 1..8 {
                for after in ["", "a/1", "hidden50/", "hidden50/own/1", "x25000-a"] {
                    let page = Page {
                        prefix: String::new(),
                        after: after.to_owned(),
                        limit,
                        by_folder,
                        folders: false,
                        within: Prefixes::new(prefixes),
                    };
                    let (found, asked, looked_at) = seen(&keys, &page);
                    let case = format!("{page:?}: {asked} asked, {looked_at} looked at");
                    let is_seen = |item: &String| visible.iter().any(|key| key.starts_with(item));
                    assert!(found.iter().all(is_seen), "{case}: {found:?}");
                    assert!(asked <= prefixes.len(), "{case}");
                    // Beside what is found, one behind each end.
                    assert!(looked_at <= found.len() + 2 * asked, "{case}");
                    (pages, most) = (pages + 1, most.max(looked_at));
                }
            }
        }
        eprintln!(
            "{pages} pages of {} names: at most {most} looked at",
            keys.size().0
        );
        let whole = Page {
            prefix: String::new(),
            after: String::new(),
            limit: 4 * HIDDEN,
            by_folder: false,
            folders: false,
            within: Prefixes::all(),
        };
        let all = keys.size().0;
        assert_eq!(seen(&keys, &whole).2, all, "each name is counted");
    }

    #[test]
    fn keys_that_are_removed_give_their_memory_back() {
        let keys = Account::new(Vec::new(), None, Uses::default());
        for key in ["a", "a/1", "a/2", "a0", "b/1", "a/1"] {
            keys.set_name(key, true);
        }
        let names = || {
            let mut names = Vec::new();
            let mut from = String::new();
            while let Some(name) = keys.first_from(&from) {
                from = format!("{name}\0");
                names.push(name);
            }
            names
        };
        let (count, bytes) = keys.size();
        assert_eq!(count, 5);
        keys.unsee("a/");
        assert_eq!(names(), ["a", "a0", "b/1"]);
        assert!(keys.size().1 < bytes);
        keys.set_name("a/1", false);
        keys.unsee("");
        assert_eq!(keys.size(), (0, 0));
    }
}
