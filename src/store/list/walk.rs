//! The one walk of the folders: it goes on where it stopped, in memory of a bounded number of names, and leaves out
//! what cannot be read ([`folder`](super::folder)).
//!
//! The folders in a folder come in the order of their names, once each. The values in a folder come as they are read,
//! before the folders in it, or [in the order of keys](Order::Keys), between the folders. The walk remembers the names
//! of folders, and in the order of keys of values, up to [`LEAST`] bytes of each folder on the way and [`SPARE`] beside
//! those. A folder that has more of these names is read again for the next ones. So a walk takes time in proportion to
//! the values that come as they are read; that of a folder of millions of other names grows with the square of their
//! number. One descriptor is open, while a folder is read. Names that no key can be, and what is neither a regular file
//! nor a directory, are passed over.
//!
//! Names that come, go or are replaced while their folder is read are met as a [`Reading`] has them. A value may so be
//! met twice, but for the order of keys.

use std::os::fd::OwnedFd;

use rustix::fs::{FileType, RawDirEntry};
use rustix::io::Errno;

use super::folder::{is_absent, leave_out, open};
use super::reading::{Reading, kind_of};
use crate::store::directory_fd::ValuesDir;
use crate::value::{Error, Key, may_have_keys};

/// Memory for the names that a walk remembers of each folder that it is in, in bytes.
pub const LEAST: usize = 64 << 10;

/// Memory that the names may take beside that, in all, in bytes.
pub const SPARE: usize = 8 << 20;

/// Memory that a name takes beside its bytes.
const NAME_OVERHEAD: usize = 48;

/// The order of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Those in a folder as they are read, before the folders in it.
    #[default]
    AsRead,
    /// The order of their keys, beside the folders.
    Keys,
}

/// What a walk meets.
pub enum Met<'a> {
    /// The path of a folder: its name is read, or the folder is to be opened now.
    Folder(&'a str),
    /// A folder that was opened, and its path, before what lies in it.
    Opened(&'a OwnedFd, &'a str),
    /// A value.
    Value(Key<'a>),
    /// What is left out, by its path, and why.
    Unreadable(&'a str, Error),
    /// A folder, also one that cannot be read, behind all that lies in it.
    Left(&'a str),
    /// The next names are read only after this.
    Pause,
}

/// How a walk goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Go {
    On,
    /// Without this folder, or without the rest of the one that the value lies in.
    Past,
}

/// A walk under way.
#[derive(Debug, Default)]
pub struct Walk {
    /// The folders on the way to the next one, each in the one before it; none once all is over.
    levels: Vec<Level>,
    /// Memory that names may still take beside [`LEAST`] of each.
    pub(super) spare: usize,
    order: Order,
}

/// A folder on the way.
#[derive(Debug)]
struct Level {
    /// Its path with a `/` behind it, but for the directory itself.
    path: String,
    names: Names,
    /// It is being read for the next names.
    reading: Option<Reading>,
}

/// The next names in a folder, those of folders with a `/` behind them.
#[derive(Debug)]
struct Names {
    /// While the folder is read in any order, then with the next name last.
    next: Vec<Box<str>>,
    /// Memory that they take.
    bytes: usize,
    /// Memory that they take of what is spare.
    lent: usize,
    /// Names from this one on are to be read; `None` once all are.
    from: Option<Box<str>>,
    /// Names from this one on are read only after the next ones.
    until: Option<Box<str>>,
}

/// Why the reading of a folder ended.
enum Stop<E> {
    Past,
    Failed(E),
}

impl<E: From<Error>> From<Error> for Stop<E> {
    fn from(error: Error) -> Self {
        Self::Failed(E::from(error))
    }
}

impl Walk {
    /// The walk of what lies below the folder `path`.
    pub fn below(path: &str, order: Order) -> Self {
        let mut walk = Self {
            spare: SPARE,
            order,
            ..Self::default()
        };
        walk.enter(path.to_owned() + if path.is_empty() { "" } else { "/" });
        walk
    }

    /// True if nothing is left.
    pub fn is_over(&self) -> bool {
        self.levels.is_empty()
    }

    /// Takes the next steps, this many at most; true if none is left. A step opens a folder, reads names or visits a
    /// value in the order of keys. Blocks.
    pub fn go_on<E: From<Error>>(
        &mut self,
        dir: &ValuesDir,
        steps: usize,
        mut visit: impl FnMut(Met<'_>) -> Result<Go, E>,
    ) -> Result<bool, E> {
        for _ in 0..steps {
            if self.is_over() {
                break;
            }
            self.step(dir, &mut visit)?;
        }
        Ok(self.is_over())
    }

    fn step<E: From<Error>>(
        &mut self,
        dir: &ValuesDir,
        visit: &mut impl FnMut(Met<'_>) -> Result<Go, E>,
    ) -> Result<(), E> {
        let Some(level) = self.levels.last_mut() else {
            return Ok(());
        };
        if level.reading.is_none()
            && let Some(name) = level.names.next.pop()
        {
            let path = [&*level.path, &*name].concat();
            if let Some(folder) = path.strip_suffix('/') {
                if may_have_keys(folder) && visit(Met::Folder(folder))? == Go::On {
                    self.enter(path);
                }
            } else if let Ok(key) = Key::new(path)
                && visit(Met::Value(key))? == Go::Past
            {
                level.clear();
            }
        } else if level.names.from.is_some() {
            match level.read(dir, &mut self.spare, self.order, visit) {
                Ok(()) => {}
                Err(Stop::Past) => level.clear(),
                Err(Stop::Failed(error)) => return Err(error),
            }
        } else if let Some(level) = self.levels.pop() {
            self.spare += level.names.lent;
            if !self.is_over() {
                visit(Met::Left(folder_of(&level.path)))?;
            }
        }
        Ok(())
    }

    /// Goes on with what lies in the folder of this path, which is read next.
    fn enter(&mut self, path: String) {
        let names = Names {
            next: Vec::new(),
            bytes: 0,
            lent: 0,
            from: Some("".into()),
            until: None,
        };
        self.levels.push(Level {
            path,
            names,
            reading: None,
        });
    }
}

impl Level {
    /// Passes over what is left.
    fn clear(&mut self) {
        self.names.next.clear();
        self.names.from = None;
        self.reading = None;
    }

    /// Reads some of the next names in it.
    fn read<E: From<Error>>(
        &mut self,
        dir: &ValuesDir,
        spare: &mut usize,
        order: Order,
        visit: &mut impl FnMut(Met<'_>) -> Result<Go, E>,
    ) -> Result<(), Stop<E>> {
        let mut visit = |met: Met<'_>| match visit(met).map_err(Stop::Failed)? {
            Go::On => Ok(()),
            Go::Past => Err(Stop::Past),
        };
        let is_first = self.names.from.as_deref() == Some("");
        let path = folder_of(&self.path).to_owned();
        let mut reading = match self.reading.take() {
            Some(reading) => reading,
            None => match open(dir, &path).and_then(Reading::of) {
                Ok(reading) => {
                    self.names.begin(spare);
                    if is_first {
                        visit(Met::Opened(&reading.folder, &path))?;
                    }
                    reading
                }
                Err(errno) => {
                    self.clear();
                    if is_absent(&path, errno) {
                        return Ok(());
                    }
                    let why = leave_out(dir, &path, "open the folder", errno)?;
                    return visit(Met::Unreadable(&path, why));
                }
            },
        };
        visit(Met::Pause)?;
        let is_left = reading
            .read(|folder, entry| self.meet(dir, folder, entry, order, is_first, &mut visit))?;
        match is_left {
            Ok(true) => {
                self.reading = Some(reading);
                return Ok(());
            }
            Ok(false) => dir.unserved.can_be_read(&path),
            // It was removed meanwhile.
            Err(Errno::NOENT) if !path.is_empty() => {}
            Err(errno) => {
                let why = leave_out(dir, &path, "list", errno)?;
                if is_first {
                    visit(Met::Unreadable(&path, why))?;
                }
            }
        }
        self.names.end(spare);
        Ok(())
    }

    /// Visits or adds a name that was read in the `folder`.
    fn meet<E: From<Error>>(
        &mut self,
        dir: &ValuesDir,
        folder: &OwnedFd,
        entry: &RawDirEntry<'_>,
        order: Order,
        is_first: bool,
        visit: &mut impl FnMut(Met<'_>) -> Result<(), Stop<E>>,
    ) -> Result<(), Stop<E>> {
        let Self { path, names, .. } = self;
        let Ok(name) = entry.file_name().to_str() else {
            let name = entry.file_name().to_bytes();
            dir.unserved.name(folder_of(path), name);
            return Ok(());
        };
        let item = |end| [&**path, name, end].concat();
        match kind_of(folder, entry, name) {
            Ok(FileType::RegularFile) if order == Order::Keys && names.takes(name) => {
                names.add(name);
            }
            Ok(FileType::RegularFile) if order == Order::AsRead && is_first => {
                if let Ok(key) = Key::new(item("")) {
                    visit(Met::Value(key))?;
                }
            }
            Ok(FileType::Directory) if name != "." && name != ".." => {
                let item = item("/");
                let name = &item[path.len()..];
                if names.takes(name) {
                    match visit(Met::Folder(folder_of(&item))) {
                        Ok(()) => names.add(name),
                        Err(Stop::Past) => {}
                        failed => return failed,
                    }
                }
            }
            Ok(FileType::Symlink) => dir.unserved.link(&item("")),
            Err(errno) if is_first => {
                let path = item("");
                let why = leave_out(dir, &path, "look up", errno)?;
                visit(Met::Unreadable(&path, why))?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// The path of a folder without the `/` behind it.
fn folder_of(path: &str) -> &str {
    path.strip_suffix('/').unwrap_or_default()
}

impl Names {
    /// Has the next names take what is `spare`.
    fn begin(&mut self, spare: &mut usize) {
        self.lent += std::mem::take(spare);
        self.bytes = 0;
    }

    /// Sorts the names that were read, and gives back what is `spare` beside them.
    fn end(&mut self, spare: &mut usize) {
        self.sort();
        self.next.reverse();
        let lent = self.bytes.saturating_sub(LEAST);
        *spare += self.lent - lent;
        self.lent = lent;
        self.from = self.until.take();
    }

    fn sort(&mut self) {
        self.next.sort_unstable();
        self.next.dedup();
        self.bytes = self.next.iter().map(|name| memory_of(name)).sum();
    }

    /// True if `name` is to be read, and not only after those that there are.
    fn takes(&self, name: &str) -> bool {
        let is_beyond = |until: &str| name >= until;
        let from = self.from.as_deref();
        from.is_some_and(|from| name >= from) && !self.until.as_deref().is_some_and(is_beyond)
    }

    /// Adds a name that it takes; leaves half of the names for later where they take too much.
    fn add(&mut self, name: &str) {
        self.next.push(name.into());
        self.bytes += memory_of(name);
        if self.bytes > LEAST + self.lent {
            self.sort();
            let half = self.next.len() / 2;
            self.until = Some(self.next[half].clone());
            self.next.truncate(half);
            self.sort();
        }
    }
}

fn memory_of(name: &str) -> usize {
    name.len() + NAME_OVERHEAD
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use proptest::collection::btree_set;
    use proptest::prelude::*;
    use rustix::fs::{Mode, OFlags};
    use tempfile::TempDir;

    use super::*;
    use crate::store::location::Location;
    use crate::transfer::BlockingPool;

    fn place() -> TempDir {
        let place = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        place.unwrap()
    }

    fn dir(path: &Path) -> ValuesDir {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty()).unwrap();
        let location = Location::new(path, &root, None).unwrap();
        ValuesDir::new(root, location, BlockingPool::disk(None).unwrap())
    }

    /// What a walk meets, said in words, and the number of steps and of the folders that were opened.
    fn met(walk: &mut Walk, dir: &ValuesDir, spare: usize) -> (Vec<String>, usize, usize) {
        walk.spare = spare;
        let (mut said, mut steps, mut opened) = (Vec::new(), 0, 0);
        let mut is_over = false;
        while !is_over {
            let was_open = walk
                .levels
                .last()
                .is_some_and(|level| level.reading.is_some());
            let mut reads = false;
            is_over = walk
                .go_on(dir, 1, |met| {
                    match met {
                        Met::Folder(_) | Met::Opened(_, "") => {}
                        Met::Opened(_, path) => said.push(format!("{path}/")),
                        Met::Value(key) => said.push(key.to_string()),
                        Met::Left(path) => said.push(format!("{path}/.")),
                        Met::Pause => reads = true,
                        Met::Unreadable(path, why) => panic!("{path}: {why}"),
                    }
                    Ok::<_, Error>(Go::On)
                })
                .unwrap();
            opened += usize::from(reads && !was_open);
            let names = walk.levels.iter().flat_map(|level| &level.names.next);
            let bytes: usize = names.map(|name| memory_of(name)).sum();
            assert!(bytes <= spare + LEAST * walk.levels.len());
            steps += 1;
        }
        assert_eq!(walk.spare, spare);
        (said, steps, opened)
    }

    #[test]
    fn of_any_number_of_names_few_are_remembered_and_each_is_met_once_and_in_order() {
        const MANY: usize = 20_000;
        const FOLDERS: usize = MANY / 4;
        let place = place();
        let path = |at: String| place.path().join(at);
        for n in 0..MANY {
            match n % 4 {
                0 => fs::create_dir_all(path(format!("a/{n:05}"))).unwrap(),
                _ => fs::write(path(format!("a/{n:05}")), "").unwrap(),
            }
        }
        for n in 0..3_000 {
            fs::write(path(format!("a/08000/{n:05}")), "").unwrap();
        }
        let dir = dir(place.path());
        // The names take some 1.1 MB, those of folders 0.3 MB, and those in the folder 0.2 MB.
        for (spare, most) in [(3 * LEAST, 30), (2 << 20, 0)] {
            let (said, steps, opened) = met(&mut Walk::below("a", Order::Keys), &dir, spare);
            let keys: Vec<_> = said.iter().filter(|said| !said.ends_with('.')).collect();
            assert_eq!(keys.len(), 1 + MANY + 3_000);
            assert!(keys.is_sorted());
            // Each name is a step, and each folder is also read in some, and left.
            let least = MANY + 3_000 + 3 * FOLDERS;
            assert!((least..least + 1_000).contains(&steps), "{steps}");
            let again = opened - 1 - FOLDERS;
            assert!(again <= most && (again > 0) == (most > 0), "{again} times");
        }
        let (said, steps, opened) = met(&mut Walk::below("a", Order::AsRead), &dir, 2 << 20);
        let values = said
            .iter()
            .filter(|said| !said.contains("/.") && !said.ends_with('/'));
        assert_eq!(values.count(), MANY - FOLDERS + 3_000);
        assert!(steps <= 5 * FOLDERS, "{steps}");
        // Values that come as they are read are not read again, however little memory there is.
        assert_eq!(opened, 1 + FOLDERS);
        fs::remove_dir_all(path("a/08000".to_owned())).unwrap();
        for n in 0..10 * MANY {
            fs::write(path(format!("a/08004/{n:06}")), "").unwrap();
        }
        let (said, steps, opened) = met(&mut Walk::below("a/08004", Order::AsRead), &dir, 0);
        assert_eq!((said.len(), opened), (1 + 10 * MANY, 1));
        assert!(steps > 100, "{steps}");
    }

    proptest! {
        #[test]
        fn all_is_met_once_in_each_order_and_a_folder_before_and_behind_what_lies_in_it(
            keys in btree_set("[ab0-](/?[ab0-]){0,4}", 0..20),
        ) {
            let place = place();
            let mut there = BTreeSet::new();
            for key in keys {
                let path = place.path().join(&key);
                if fs::create_dir_all(path.parent().unwrap()).is_ok() && fs::write(&path, "").is_ok() {
                    there.insert(key.clone());
                }
                let mut above = &*key;
                while let Some((folder, _)) = above.rsplit_once('/') {
                    above = folder;
                    if place.path().join(folder).is_dir() {
                        there.insert(format!("{folder}/"));
                    }
                }
            }
            there.retain(|name| Key::new(name.trim_end_matches('/')).is_ok() && !name.starts_with("-/"));
            let dir = dir(place.path());
            for order in [Order::Keys, Order::AsRead] {
                let (said, ..) = met(&mut Walk::below("", order), &dir, SPARE);
                let (left, mut entered): (Vec<_>, Vec<_>) =
                    said.iter().cloned().partition(|said| said.ends_with("/."));
                for folder in left {
                    let folder = folder.trim_end_matches('.');
                    let within = said.iter().enumerate().filter(|(_, said)| said.starts_with(folder));
                    let within: Vec<_> = within.map(|(at, _)| at).collect();
                    prop_assert_eq!(within[within.len() - 1] - within[0], within.len() - 1);
                    prop_assert_eq!(&said[within[0]], folder);
                }
                if order == Order::AsRead {
                    entered.sort();
                }
                prop_assert_eq!(entered, Vec::from_iter(there.clone()));
            }
        }
    }
}
