//! All that lies in a directory, to be compared before and after a request: names, bytes, times, modes, attributes, and
//! what is staged.

use rustix::fs::{lgetxattr, llistxattr};

use crate::support::prelude::*;

/// What the server keeps of its own that a refused request must leave alone, beside the values.
const OF_UPLOADS: [&str; 3] = [
    ".data-server/uploads",
    ".data-server/staging",
    ".data-server/parts",
];

/// A file or folder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// Type and permissions, inode, owner and group.
    what: [u64; 4],
    modified: (i64, i64),
    attributes: Vec<Vec<u8>>,
    /// None of a folder.
    content: Option<Vec<u8>>,
}

/// What a directory has, by path.
#[derive(Clone, Default)]
pub struct Snapshot(BTreeMap<PathBuf, Entry>);

impl Snapshot {
    pub fn of(dir: &DataDir) -> Self {
        let mut found = Self::default();
        found.add(dir.path(), &|path| path.ends_with(".data-server"));
        for own in OF_UPLOADS.map(|name| dir.path().join(name)) {
            found.add(&own, &|_| false);
        }
        found
    }

    fn add(&mut self, path: &Path, is_left_out: &dyn Fn(&Path) -> bool) {
        if is_left_out(path) {
            return;
        }
        let Ok(meta) = fs::symlink_metadata(path) else {
            return;
        };
        // What is staged comes and goes, and who asks for an upload keeps it from its end.
        let is_own = path
            .components()
            .any(|part| part.as_os_str() == ".data-server");
        let time = (meta.mtime(), meta.mtime_nsec());
        let entry = Entry {
            what: [
                u64::from(meta.mode()),
                meta.ino(),
                u64::from(meta.uid()),
                u64::from(meta.gid()),
            ],
            modified: if is_own { (0, 0) } else { time },
            attributes: attributes(path),
            content: meta.is_file().then(|| fs::read(path).unwrap_or_default()),
        };
        self.0.insert(path.to_owned(), entry);
        let below = fs::read_dir(path).into_iter().flatten().flatten();
        below.for_each(|entry| self.add(&entry.path(), is_left_out));
    }

    /// In what this one is not as the one before, in a few words.
    pub fn since(&self, before: &Self) -> Vec<String> {
        let paths: BTreeSet<_> = self.0.keys().chain(before.0.keys()).collect();
        let told = paths.into_iter().filter_map(|path| {
            let how = match (before.0.get(path), self.0.get(path)) {
                (Some(old), Some(new)) if old == new => return None,
                (Some(old), Some(new)) if old.content != new.content => "other bytes",
                (Some(old), Some(new)) if old.what != new.what => "another file, mode or owner",
                (Some(old), Some(new)) if old.modified != new.modified => "another time",
                (Some(_), Some(_)) => "other attributes",
                (Some(_), None) => "gone",
                (None, _) => "new",
            };
            let below = path.components().rev().take(2).collect::<Vec<_>>();
            let below: PathBuf = below.into_iter().rev().collect();
            Some(format!("{}: {how}", below.display()))
        });
        told.collect()
    }
}

fn attributes(path: &Path) -> Vec<Vec<u8>> {
    let mut names = vec![0; 4096];
    let len = llistxattr(path, &mut names[..]).unwrap_or(0);
    let names = names[..len].split(|&byte| byte == 0);
    let names = names.filter(|name| !name.is_empty());
    let value = |name: &[u8]| {
        let mut value = vec![0; 65_536];
        let len = lgetxattr(path, name, &mut value[..]).unwrap_or(0);
        [name, b"=", &value[..len]].concat()
    };
    let mut all: Vec<_> = names.map(value).collect();
    all.sort();
    all
}
