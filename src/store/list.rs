//! Listing: one page of the keys, in byte order.
//!
//! Owns the few threads that listings run on, so that reads and writes never wait behind a listing. A small directory
//! is walked for each page, from the folder of its prefix on. The names of a large one are kept in an [`Index`]. Where
//! there can be no index, a walk takes memory for the page alone. Requests for the same page share the answer if no
//! thread has begun with it, and a page that no request waits for any more is not finished.

mod events;
mod folder;
mod index;
mod page;
mod progress;
mod reading;
mod tree;
mod unlisted;
mod values;
mod walk;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::io::Errno;
use tokio::sync::watch::{self, Receiver, Sender};

use super::bounds::Account;
use super::directory_fd::ValuesDir;
use crate::metrics::Listings;
use crate::transfer::BlockingPool;
use crate::value::{Error, Key, Listing, Page, Prefixes};
use folder::Entries;
use index::Index;
pub use unlisted::Unlisted;
pub use values::{FoundValues, SLICE, ValueWalk};
pub use walk::{Go, Met, Order, SPARE, Walk};

/// A directory of more names is large: walking it costs more than the rest of a page.
const LARGE: usize = 1024;

/// Values looked up between two checks that a request still waits for them.
const STRIDE: usize = 64;

type Answer = Result<Arc<Listing>, Error>;

/// Fails once no request waits for the page any more.
type IsWanted<'a> = &'a dyn Fn() -> Result<(), Error>;

/// Lists one directory.
#[derive(Debug)]
pub struct Lister {
    dir: Arc<ValuesDir>,
    /// The threads that list.
    pub threads: BlockingPool,
    /// The names, where the directory is large or has bounds.
    pub index: Arc<Index>,
    /// The pages that no thread has begun with, and where the answer goes; unset until then.
    asked: Mutex<HashMap<Page, Sender<Option<Answer>>>>,
    counters: Arc<Listings>,
}

impl Lister {
    /// Returns a lister with an index of at most `most` bytes; 0 is no index. With bounds, the index is kept whatever
    /// it takes.
    pub fn new(
        dir: Arc<ValuesDir>,
        threads: BlockingPool,
        most: u64,
        account: Option<Arc<Account>>,
        counters: Arc<Listings>,
    ) -> Arc<Self> {
        let index = Index::new(Arc::clone(&dir), most, account, Arc::clone(&counters));
        Arc::new(Self {
            dir,
            threads,
            index,
            asked: Mutex::default(),
            counters,
        })
    }

    /// Counts all values for the bounds of `account`: by the index where there is none yet, else by a walk. Blocks, as
    /// long as a walk takes.
    pub fn count(&self, account: &Account) -> Result<(), Error> {
        if self.index.keep() {
            return Ok(());
        }
        count_all(&self.dir, account)
    }

    /// Lists `page` of the directory.
    pub async fn list(self: &Arc<Self>, page: Page) -> Result<Arc<Listing>, Error> {
        let mut answer = self.ask(page);
        let answered = answer.wait_for(Option::is_some).await;
        let answer = answered.ok().and_then(|answer| answer.clone());
        answer.unwrap_or_else(|| {
            let ended = std::io::Error::other("the thread that listed has ended");
            Err(Error::failed("list")(ended))
        })
    }

    /// What the folder of this prefix has beside what is listed.
    pub async fn unlisted(&self, prefix: &str, follows: bool) -> Result<Unlisted, Error> {
        let (dir, path) = (
            Arc::clone(&self.dir),
            prefix.trim_end_matches('/').to_owned(),
        );
        let look = move || Ok(unlisted::unlisted(&dir, &path, follows));
        self.threads.spawn(look).await
    }

    fn ask(self: &Arc<Self>, page: Page) -> Receiver<Option<Answer>> {
        let mut asked = self.asked.lock();
        if let Some(same) = asked.get(&page) {
            return same.subscribe();
        }
        let (sender, answer) = watch::channel(None);
        asked.insert(page.clone(), sender);
        drop(asked);
        let lister = Arc::clone(self);
        self.threads.spawn_detached(move || lister.answer(&page));
        answer
    }

    fn answer(&self, page: &Page) {
        // Later requests start a new walk: this answer might lack what was published before they came.
        let Some(asker) = self.asked.lock().remove(page) else {
            return;
        };
        let is_wanted = || {
            let waits = (!asker.is_closed()).then_some(());
            waits.ok_or_else(|| Error::new("list", Errno::CANCELED))
        };
        let answer = self.page(page, &is_wanted);
        asker.send_replace(Some(answer.map(Arc::new)));
    }

    fn page(&self, page: &Page, is_wanted: IsWanted<'_>) -> Result<Listing, Error> {
        is_wanted()?;
        self.dir.ends.look_again(&self.dir.root);
        self.dir.dates.look_again(&self.dir.root);
        let mut visible = page.visible();
        while let Some(part) = visible.next() {
            visible.add(if self.dir.ends.is_possible() {
                self.smallest_left(&part, is_wanted)?
            } else {
                self.smallest(&part, is_wanted)?
            });
        }
        let mut smallest: Vec<String> = visible.found;
        let more = smallest.len() > page.limit;
        smallest.truncate(page.limit);
        let next = smallest.last().filter(|_| more).cloned();
        let (mut keys, mut folders) = (Vec::with_capacity(smallest.len()), Vec::new());
        let mut entries = Entries::new(&self.dir);
        for (at, item) in smallest.into_iter().enumerate() {
            if at % STRIDE == 0 {
                is_wanted()?;
            }
            if item.ends_with('/') {
                folders.push(item);
                continue;
            }
            let Ok(key) = Key::new(item) else { continue };
            if let Some(value) = entries.listed(&key)? {
                keys.push((key, value));
            }
        }
        Ok(Listing {
            keys,
            folders,
            next,
        })
    }

    /// As [`Lister::smallest`], of what has not ended: each item is looked up, and a folder is one as long as it has
    /// such a value.
    fn smallest_left(&self, page: &Page, is_wanted: IsWanted<'_>) -> Result<Vec<String>, Error> {
        let mut entries = Entries::new(&self.dir);
        let mut is_left = |item: &String| {
            is_wanted()?;
            // A folder that stays, as itself: no other item without a delimiter ends so.
            if item.ends_with('/') && !page.by_folder {
                return Ok(true);
            }
            if !item.ends_with('/') {
                let key = Key::new(item.as_str());
                return key.map_or(Ok(false), |key| Ok(entries.value(&key)?.is_some()));
            }
            let below = Page {
                prefix: item.clone(),
                folders: page.folders,
                within: Prefixes::all(),
                ..Page::default()
            };
            let left = self.smallest_left(&below, is_wanted)?;
            Ok::<_, Error>(!left.is_empty())
        };
        // Which one does not matter: as a rule the first that is met is enough.
        if page.limit == 0 {
            let any = self.smallest(page, is_wanted)?;
            match any.first() {
                Some(item) if !is_left(item)? => {}
                _ => return Ok(any),
            }
        }
        let mut part = Page {
            limit: page.limit.max(STRIDE),
            ..page.clone()
        };
        let mut left = Vec::new();
        loop {
            let items = self.smallest(&part, is_wanted)?;
            let is_last = items.len() <= part.limit;
            if let Some(last) = items.last() {
                part.after.clone_from(last);
            }
            for item in items {
                if is_left(&item)? {
                    left.push(item);
                }
                if left.len() > page.limit {
                    return Ok(left);
                }
            }
            if is_last {
                return Ok(left);
            }
            // Each part may cost a walk: of many values that have ended it takes few.
            part.limit = part.limit.saturating_mul(2);
        }
    }

    /// The `limit + 1` smallest items of the page, or any one with a limit of 0, also what has ended.
    fn smallest(&self, page: &Page, is_wanted: IsWanted<'_>) -> Result<Vec<String>, Error> {
        if let Some(smallest) = self.index.smallest(page) {
            return Ok(smallest);
        }
        let walk = |most| {
            self.counters.walks.add(1);
            page::smallest(&self.dir, page, most, is_wanted)
        };
        if self.index.is_possible() {
            if let Some(smallest) = walk(LARGE)? {
                return Ok(smallest);
            }
            if let Some(smallest) = self.index.smallest_at_last(page) {
                return Ok(smallest);
            }
        }
        walk(usize::MAX)?.ok_or_else(|| Error::new("list", Errno::OVERFLOW))
    }
}

/// Counts the values of `dir` that bounds hold for, by a walk. Blocks.
pub fn count_all(dir: &ValuesDir, account: &Account) -> Result<(), Error> {
    let count = account.begin_count(false);
    let mut walk = Walk::below("", Order::AsRead);
    walk.go_on(dir, usize::MAX, |met| {
        if let Met::Value(key) = met
            && account.counts(key.as_str())
        {
            account.look(dir, key.as_str());
        }
        Ok::<_, Error>(Go::On)
    })?;
    account.end_count(count);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::{Context, Poll, Waker};

    use super::super::implicit::{is_implicit, mark_implicit};
    use super::super::location::Location;
    use data_server_testing::scaled;
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;
    use rustix::fs::{Mode, OFlags};
    use std::collections::BTreeSet;

    /// With an index of at most `most` bytes.
    fn lister(dir: &Path, most: u64) -> Arc<Lister> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(dir, flags, Mode::empty()).unwrap();
        let location = Location::new(dir, &root, None).unwrap();
        let dir = ValuesDir::new(root, location, BlockingPool::disk(None).unwrap());
        let threads = BlockingPool::listing(None).unwrap();
        Lister::new(Arc::new(dir), threads, most, None, Arc::default())
    }

    /// A lister without an index, all of whose threads wait until what is returned is dropped.
    fn held(dir: &Path) -> (Arc<Lister>, mpsc::Sender<()>) {
        let lister = lister(dir, 0);
        let (hold, waiting) = mpsc::channel::<()>();
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..100 {
            let waiting = Arc::clone(&waiting);
            let job = move || assert!(waiting.lock().recv().is_err());
            lister.threads.spawn_detached(job);
        }
        (lister, hold)
    }

    fn page(limit: usize) -> Page {
        Page {
            prefix: String::new(),
            after: String::new(),
            limit,
            by_folder: false,
            folders: false,
            within: Prefixes::all(),
        }
    }

    fn answer(answer: &mut Receiver<Option<Answer>>) -> Arc<Listing> {
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            let told = pin!(answer.wait_for(Option::is_some)).poll(&mut cx);
            if let Poll::Ready(told) = told {
                return told.unwrap().clone().unwrap().unwrap();
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn requests_for_a_page_share_a_walk_until_it_begins() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("first"), "").unwrap();
        let (lister, hold) = held(dir.path());
        let mut same: Vec<_> = (0..40).map(|_| lister.ask(page(7))).collect();
        let mut other = lister.ask(page(8));
        assert_eq!(lister.asked.lock().len(), 2);
        drop(hold);
        let shared = answer(&mut same[0]);
        for same in &mut same {
            assert!(Arc::ptr_eq(&answer(same), &shared));
        }
        assert_eq!(answer(&mut other).keys.len(), 1);
        assert_eq!(lister.counters.walks.get(), 2);
        std::fs::write(dir.path().join("second"), "").unwrap();
        assert_eq!(answer(&mut lister.ask(page(7))).keys.len(), 2);
        assert!(lister.asked.lock().is_empty());
    }

    #[test]
    fn a_page_that_no_request_waits_for_is_not_begun() {
        let dir = tempfile::tempdir().unwrap();
        let (lister, hold) = held(dir.path());
        drop(lister.ask(page(1)));
        let left = lister.ask(page(2));
        let mut stays = lister.ask(page(2));
        drop(left);
        let mut last = lister.ask(page(3));
        drop(hold);
        answer(&mut stays);
        answer(&mut last);
        while lister.threads.jobs().busy() + lister.threads.jobs().waiting() > 0 {
            std::thread::yield_now();
        }
        assert_eq!(lister.counters.walks.get(), 2);
        assert!(lister.asked.lock().is_empty());
    }

    /// Stores the `keys` that can exist together, and returns them.
    fn place(dir: &Path, keys: BTreeSet<String>) -> BTreeSet<String> {
        let place = |key: &String| {
            let path = dir.join(key);
            Key::new(key.as_str()).is_ok()
                && std::fs::create_dir_all(path.parent().unwrap()).is_ok()
                && std::fs::write(path, "").is_ok()
        };
        keys.into_iter().filter(place).collect()
    }

    /// Has those of `keys` end that are `ended`, where the file system keeps that; returns the others.
    fn end(
        lister: &Lister,
        dir: &Path,
        keys: BTreeSet<String>,
        ended: &[bool],
    ) -> BTreeSet<String> {
        let ends = |key: &str| {
            lister.dir.ends.met();
            let fields = (c"user.data-server.fields", b"x-delete-at: 1\n");
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(dir.join(key), fields.0, fields.1, flags).is_ok()
        };
        let ended = ended.iter().copied();
        let left = keys
            .into_iter()
            .zip(ended)
            .filter(|(key, ended)| !(*ended && ends(key)));
        left.map(|(key, _)| key).collect()
    }

    /// Makes `folders` where they can be, and has those of all that are `marked` go with their last value; returns the
    /// others, each with a `/` behind it.
    fn folders(dir: &Path, folders: &[String], marked: &[bool]) -> BTreeSet<String> {
        for folder in folders {
            let _ = std::fs::create_dir_all(dir.join(folder));
        }
        let (mut left, mut found) = (vec![dir.to_owned()], BTreeSet::new());
        while let Some(folder) = left.pop() {
            let below = std::fs::read_dir(folder).unwrap();
            let below = below.map(|entry| entry.unwrap().path());
            for folder in below.filter(|path| path.is_dir()) {
                found.insert(
                    folder
                        .strip_prefix(dir)
                        .unwrap()
                        .to_str()
                        .unwrap()
                        .to_owned()
                        + "/",
                );
                left.push(folder);
            }
        }
        let mut marked = marked.iter();
        found.retain(|folder| {
            let folder = std::fs::File::open(dir.join(folder)).unwrap();
            if marked.next() == Some(&true) {
                mark_implicit(&folder);
            }
            !is_implicit(&folder)
        });
        found.retain(|folder| Key::new(format!("{folder}k")).is_ok());
        found
    }

    /// The items of `keys` below `prefix`, said in the plainest way; a folder that ends so is none.
    fn items(keys: &BTreeSet<String>, prefix: &str, by_folder: bool) -> Vec<String> {
        let below = keys.iter().filter_map(|key| key.strip_prefix(prefix));
        let below = below.filter(|rest| !(by_folder && rest.is_empty() && prefix.ends_with('/')));
        let items = below.map(|rest| match rest.split_once('/') {
            Some((folder, _)) if by_folder => format!("{prefix}{folder}/"),
            _ => format!("{prefix}{rest}"),
        });
        items.collect::<BTreeSet<_>>().into_iter().collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(scaled(24, 128)))]
        /// Page by page, and no page and no `next` says more.
        #[test]
        fn pages_have_what_may_be_seen_and_nothing_else(
            keys in btree_set("[ab0-](/?[ab0-]){0,4}", 0..20),
            prefixes in vec("[ab0/-]{0,4}", 0..4),
            prefix in "[ab0/-]{0,3}",
            (limit, by_folder, has_index) in (1_usize..4, any::<bool>(), any::<bool>()),
            ended in vec(any::<bool>(), 20),
            (empty, marked, has_folders) in (vec("[ab0-](/[ab0-]){0,3}", 0..6), vec(any::<bool>(), 20), any::<bool>()),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let keys = place(dir.path(), keys);
            let lister = lister(dir.path(), if has_index { 1 << 20 } else { 0 });
            if has_index {
                lister.index.smallest_at_last(&page(1)).expect("an index");
            }
            let mut keys = end(&lister, dir.path(), keys, &ended);
            let lasting = folders(dir.path(), &empty, &marked);
            keys.extend(lasting.into_iter().filter(|_| has_folders));
            let within = Prefixes::new(prefixes.iter().map(String::as_str));
            let seen = keys.into_iter().filter(|key| within.has(key)).collect();
            let whole = items(&seen, &prefix, by_folder);
            let mut page = Page { prefix, after: String::new(), limit, by_folder, folders: has_folders, within };
            let mut pages = whole.chunks(limit).peekable();
            while let Some(expected) = pages.next() {
                let listing = lister.page(&page, &|| Ok(())).unwrap();
                let keys = listing.keys.iter().map(|(key, _)| key.to_string());
                let mut found: Vec<_> = keys.chain(listing.folders).collect();
                found.sort();
                prop_assert_eq!(&found, expected, "{:?}", page);
                let next = pages.peek().and(expected.last());
                prop_assert_eq!(listing.next.as_ref(), next, "{:?}", page);
                page.after.clone_from(expected.last().unwrap());
            }
            let listing = lister.page(&page, &|| Ok(())).unwrap();
            prop_assert!(listing.keys.is_empty() && listing.folders.is_empty(), "{:?}", listing);
            prop_assert_eq!(listing.next, None);
        }
    }
}
