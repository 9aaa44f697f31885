//! The one walk of the folders: it goes on where it stopped, in memory of a bounded number of names, and leaves out
//! what cannot be read ([`folder`](super::folder)).
//!
//! The folders in a folder come in the order of their names, once each. The values in a folder come as they are read,
//! or, [in the order of keys](Order::Keys), between the folders. The walk remembers some names of each folder on the
//! way, and reads a folder of more names again: each time for twice as many, up to [`SPARE`]. So the time of a folder
//! grows with its names, and of a folder of millions with the square of `names / SPARE`. One descriptor is open at a
//! time, and none between two steps. Names that no key can be, and what is neither a regular file nor a directory, are
//! passed over. What comes or goes meanwhile may be met or not; on tmpfs a value that is replaced meanwhile may be met
//! twice, but for the order of keys.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, RawDir};
use rustix::io::Errno;

use super::folder::{is_absent, leave_out, open};
use crate::store::directory_fd::{ValuesDir, stat};
use crate::value::{Error, Key, may_have_keys};

/// Bytes that are read at once: some thousand names, while which the kernel keeps the directory from being changed.
const READ: usize = 32 << 10;

/// Names that a walk remembers at once of each folder that it is in.
pub const NAMES: usize = 1024;

/// Names that a walk may remember beside those, in all: they have up to 255 bytes, so this takes up to 10 MiB.
pub const SPARE: usize = 32 << 10;

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
    /// Names that may still be remembered beside [`NAMES`] of each.
    pub(super) spare: usize,
    order: Order,
}

/// A folder on the way.
#[derive(Debug)]
struct Level {
    /// Its path with a `/` behind it, but for the directory itself.
    path: String,
    names: Names,
}

/// The next names in a folder, those of folders with a `/` behind them.
#[derive(Debug)]
struct Names {
    next: BTreeSet<Box<str>>,
    /// The number of them at most.
    most: usize,
    /// All names up to this one are read.
    after: Box<str>,
    /// More names are to be read.
    has_more: bool,
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
        if let Some(name) = level.names.next.pop_first() {
            let path = [&*level.path, &*name].concat();
            if let Some(folder) = path.strip_suffix('/') {
                if may_have_keys(folder) && visit(Met::Folder(folder))? == Go::On {
                    self.enter(path);
                }
            } else if let Ok(key) = Key::new(path)
                && visit(Met::Value(key))? == Go::Past
            {
                level.names.clear();
            }
        } else if level.names.has_more {
            match level.read(dir, &mut self.spare, self.order, visit) {
                Ok(()) => {}
                Err(Stop::Past) => level.names.clear(),
                Err(Stop::Failed(error)) => return Err(error),
            }
        } else if let Some(level) = self.levels.pop() {
            self.spare += level.names.most - NAMES;
            if !self.is_over() {
                visit(Met::Left(folder_of(&level.path)))?;
            }
        }
        Ok(())
    }

    /// Goes on with what lies in the folder of this path, which is read next.
    fn enter(&mut self, path: String) {
        let names = Names {
            next: BTreeSet::new(),
            most: NAMES,
            after: "".into(),
            has_more: true,
        };
        self.levels.push(Level { path, names });
    }
}

impl Level {
    /// Reads the next names in it.
    fn read<E: From<Error>>(
        &mut self,
        dir: &ValuesDir,
        spare: &mut usize,
        order: Order,
        visit: &mut impl FnMut(Met<'_>) -> Result<Go, E>,
    ) -> Result<(), Stop<E>> {
        let is_first = self.names.after.is_empty();
        if !is_first {
            self.names.grow(spare);
        }
        self.names.has_more = false;
        let mut visit = |met: Met<'_>| match visit(met).map_err(Stop::Failed)? {
            Go::On => Ok(()),
            Go::Past => Err(Stop::Past),
        };
        let Self { path: above, names } = self;
        let path = folder_of(above);
        let folder = match open(dir, path) {
            Ok(folder) => folder,
            Err(errno) if is_absent(path, errno) => return Ok(()),
            Err(errno) => {
                let why = leave_out(dir, path, "open the folder", errno)?;
                return visit(Met::Unreadable(path, why));
            }
        };
        if is_first {
            visit(Met::Opened(&folder, path))?;
        }
        let mut buf = vec![MaybeUninit::uninit(); READ];
        let mut entries = RawDir::new(&folder, &mut buf);
        let read = loop {
            if entries.is_buffer_empty() {
                visit(Met::Pause)?;
            }
            let entry = match entries.next() {
                None => break Ok(()),
                Some(Err(Errno::INTR)) => continue,
                // It was removed meanwhile.
                Some(Err(Errno::NOENT)) if !path.is_empty() => break Ok(()),
                Some(Err(errno)) => break Err(errno),
                Some(Ok(entry)) => entry,
            };
            let Ok(name) = entry.file_name().to_str() else {
                dir.unserved.name(path, entry.file_name().to_bytes());
                continue;
            };
            let item = |end| [&**above, name, end].concat();
            match kind_of(&folder, name, entry.file_type()) {
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
                    let name = &item[above.len()..];
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
        };
        names.after = names.next.last().cloned().unwrap_or_default();
        match read {
            Ok(()) => dir.unserved.can_be_read(path),
            Err(errno) => {
                let why = leave_out(dir, path, "list", errno)?;
                if is_first {
                    visit(Met::Unreadable(path, why))?;
                }
            }
        }
        Ok(())
    }
}

/// The path of a folder without the `/` behind it.
fn folder_of(path: &str) -> &str {
    path.strip_suffix('/').unwrap_or_default()
}

/// The type of `name`, also on file systems that do not report it with the name.
fn kind_of(folder: &OwnedFd, name: &str, told: FileType) -> Result<FileType, Errno> {
    if told != FileType::Unknown {
        return Ok(told);
    }
    match stat(folder, name) {
        Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode)),
        // It was removed meanwhile.
        Err(Errno::NOENT) => Ok(FileType::Unknown),
        Err(errno) => Err(errno),
    }
}

impl Names {
    /// Takes twice as many from now on, while others leave room for that.
    fn grow(&mut self, spare: &mut usize) {
        let more = self.most.min(*spare);
        (self.most, *spare) = (self.most + more, *spare - more);
    }

    /// True if `name` is to be read, and not only after those that there are.
    fn takes(&mut self, name: &str) -> bool {
        let is_beyond =
            self.next.len() == self.most && self.next.last().is_some_and(|last| **last <= *name);
        self.has_more |= is_beyond;
        *name > *self.after && !is_beyond
    }

    /// Adds a name that it takes.
    fn add(&mut self, name: &str) {
        if self.next.len() == self.most {
            self.next.pop_last();
            self.has_more = true;
        }
        self.next.insert(name.into());
    }

    /// Passes over what is left.
    fn clear(&mut self) {
        self.next.clear();
        self.has_more = false;
    }
}

#[cfg(test)]
mod tests {
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

    /// What a walk meets, said in words, and the number of steps and of reads of a folder.
    fn met(walk: &mut Walk, dir: &ValuesDir, spare: usize) -> (Vec<String>, usize, usize) {
        walk.spare = spare;
        let (mut said, mut steps, mut reads) = (Vec::new(), 0, 0);
        let mut is_over = false;
        while !is_over {
            is_over = walk
                .go_on(dir, 1, |met| {
                    match met {
                        Met::Folder(_) | Met::Opened(_, "") => {}
                        Met::Opened(_, path) => said.push(format!("{path}/")),
                        Met::Value(key) => said.push(key.to_string()),
                        Met::Left(path) => said.push(format!("{path}/.")),
                        Met::Pause => reads += 1,
                        Met::Unreadable(path, why) => panic!("{path}: {why}"),
                    }
                    Ok::<_, Error>(Go::On)
                })
                .unwrap();
            let names = walk.levels.iter().map(|level| level.names.next.len());
            assert!(names.sum::<usize>() <= spare + NAMES * walk.levels.len());
            steps += 1;
        }
        assert_eq!(walk.spare, spare);
        (said, steps, reads)
    }

    #[test]
    fn of_any_number_of_names_few_are_remembered_and_each_is_met_once_and_in_order() {
        const MANY: usize = 20_000;
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
        let (said, steps, reads) = met(&mut Walk::below("a", Order::Keys), &dir, 4 * NAMES);
        let keys: Vec<_> = said.iter().filter(|said| !said.ends_with('.')).collect();
        assert_eq!(keys.len(), 1 + MANY + 3_000);
        assert!(keys.is_sorted());
        // Each name is a step, and each folder is also read and left; those of many are read some times.
        let least = MANY + 3_000 + 2 * MANY / 4;
        assert!((least..least + 20).contains(&steps), "{steps}");
        let (said, steps, fewer) = met(&mut Walk::below("a", Order::AsRead), &dir, 4 * NAMES);
        let values = said
            .iter()
            .filter(|said| !said.contains("/.") && !said.ends_with('/'));
        assert_eq!(values.count(), MANY / 4 * 3 + 3_000);
        let is_right = steps <= 3 * MANY / 4 + 10 && fewer < reads;
        assert!(is_right, "{steps}, {fewer} of {reads}");
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
