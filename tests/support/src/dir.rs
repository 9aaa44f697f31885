//! The data directory without the server: its content, values that the test places, and the check that staging is
//! empty.
//!
//! Where the engine is an S3 store it is a prefix there, and the directory has what waits to be sent.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use tempfile::TempDir;

use super::engine::fresh_prefix;
use super::s3::Bucket;
use super::wait::{comes_true, eventually};

/// Gives a file or folder this mode.
#[track_caller]
pub fn chmod(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
}

/// A data directory; the temporary one below it lives as long as its last clone.
#[derive(Clone)]
pub struct DataDir {
    path: PathBuf,
    bucket: Option<Bucket>,
    _owner: Option<Arc<TempDir>>,
}

impl DataDir {
    /// A fresh, empty directory.
    pub fn temporary() -> Self {
        Self::within(TempDir::new().expect("a temporary directory"))
    }

    fn within(owner: TempDir) -> Self {
        let path = owner.path().join("data");
        fs::create_dir(&path).expect("the data directory");
        Self {
            path,
            bucket: fresh_prefix(),
            _owner: Some(Arc::new(owner)),
        }
    }

    /// A fresh, empty directory in memory, if the machine has one: for tests whose many writes would wait for a busy
    /// disk.
    pub fn in_memory() -> Self {
        TempDir::new_in("/dev/shm").map_or_else(|_| Self::temporary(), Self::within)
    }

    /// A directory that the caller owns and removes, whatever the engine.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            bucket: None,
            _owner: None,
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the values are, if not in the directory.
    pub fn bucket(&self) -> Option<&Bucket> {
        self.bucket.as_ref()
    }

    /// The path of the file that is this key.
    #[track_caller]
    pub fn file(&self, key: impl AsRef<[u8]>) -> PathBuf {
        assert!(self.bucket.is_none(), "no file is a key: directory_only!");
        self.path.join(OsStr::from_bytes(key.as_ref()))
    }

    /// A path next to the data directory, which the server must not reach.
    pub fn outside(&self, name: &str) -> PathBuf {
        let parent = self.path.parent();
        parent.expect("the data directory has a parent").join(name)
    }

    /// Writes a file beside the directory that its owner alone may read, whole or not at all, as an operator does it;
    /// its path.
    pub fn write_private(&self, name: &str, text: &str) -> String {
        let (path, next) = (self.outside(name), self.outside(&format!("{name}.next")));
        fs::write(&next, text).expect("the file");
        chmod(&next, 0o600);
        fs::rename(&next, &path).expect("the file in its place");
        path.to_str().expect("text").to_owned()
    }

    /// The path of a file of the server's own.
    pub fn own(&self, name: &str) -> PathBuf {
        self.path.join(".data-server").join(name)
    }

    pub fn staging(&self) -> PathBuf {
        self.own("staging")
    }

    /// Has the next server take the journal for that of a system that was cut off: its note names no mount any more.
    /// Whether it was open.
    pub fn forget_mount(&self) -> bool {
        let note = self.own("journal-state");
        let text = fs::read_to_string(&note).unwrap_or_default();
        let mut lines: Vec<_> = text.lines().collect();
        let is_open = lines.get(1).is_some_and(|line| line.starts_with("open"));
        if is_open {
            lines[1] = "open";
            fs::write(&note, lines.join("\n")).expect("a note");
        }
        is_open
    }

    /// The files of resumable uploads, or the objects.
    pub fn uploads(&self) -> Vec<String> {
        if let Some(bucket) = &self.bucket {
            let objects = bucket.objects().into_iter().map(|object| object.key);
            return objects.filter(|key| is_of_uploads(key)).collect();
        }
        readable(&entries(&self.own("uploads")))
    }

    /// Asserts that nothing is left of resumable uploads. Of a store it goes while nothing waits for it.
    #[track_caller]
    pub fn assert_no_uploads(&self) {
        if self.bucket.is_some() {
            eventually("nothing is left of uploads", || self.uploads().is_empty());
        }
        assert_eq!(self.uploads(), [""; 0]);
    }

    /// Places or replaces a value by hand, and makes the folders that it needs.
    #[track_caller]
    pub fn place(&self, key: &str, value: impl AsRef<[u8]>) {
        if let Some(bucket) = &self.bucket {
            return bucket.place(key, value);
        }
        let file = self.file(key);
        let folder = file.parent().expect("a folder");
        fs::create_dir_all(folder).expect("a folder made by hand");
        fs::write(file, value).expect("a value placed by hand");
    }

    /// Places a value under each of these keys, none of which has a space in it.
    #[track_caller]
    pub fn place_each(&self, keys: &str, value: impl AsRef<[u8]>) {
        for key in keys.split_whitespace() {
            self.place(key, &value);
        }
    }

    /// The value of this key, past the server, if there is one.
    #[track_caller]
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        match &self.bucket {
            Some(bucket) => bucket.read(key),
            None => fs::read(self.file(key)).ok(),
        }
    }

    /// Writes these bytes over the beginning of a value, which keeps its file.
    #[track_caller]
    pub fn edit(&self, key: &str, bytes: impl AsRef<[u8]>) {
        let mut file = self.open(key).expect("the value");
        file.write_all(bytes.as_ref()).expect("an edit by hand");
    }

    /// Cuts or extends the file of a value to this length.
    #[track_caller]
    pub fn set_len(&self, key: &str, length: u64) {
        let set = self.open(key).and_then(|file| file.set_len(length));
        set.expect("a length set by hand");
    }

    /// Gives the file of a value this time of modification.
    #[track_caller]
    pub fn date(&self, key: &str, time: SystemTime) {
        let set = self.open(key).and_then(|file| file.set_modified(time));
        set.expect("a time set by hand");
    }

    fn open(&self, key: &str) -> io::Result<fs::File> {
        fs::File::options().write(true).open(self.file(key))
    }

    /// When the file of a value was modified.
    #[track_caller]
    pub fn modified(&self, key: &str) -> SystemTime {
        let meta = fs::metadata(self.file(key));
        meta.and_then(|meta| meta.modified()).expect("its time")
    }

    /// Moves the file or folder of one key to another.
    #[track_caller]
    pub fn rename(&self, from: &str, to: &str) {
        fs::rename(self.file(from), self.file(to)).expect("a rename by hand");
    }

    /// Removes the value of this key, past the server, if there is one.
    #[track_caller]
    pub fn remove(&self, key: &str) {
        match &self.bucket {
            Some(bucket) => drop(bucket.ask("DELETE", key, "", b"")),
            None => drop(fs::remove_file(self.file(key))),
        }
    }

    /// The value of this key, past the server.
    #[track_caller]
    pub fn read(&self, key: impl AsRef<[u8]>) -> Vec<u8> {
        if self.bucket.is_some() {
            let key = str::from_utf8(key.as_ref()).expect("text, as keys are");
            return self.get(key).unwrap_or_else(|| panic!("no object {key}"));
        }
        let file = self.file(key);
        fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    }

    /// The path of everything beside the server's own: of a folder, those in it, or its own when it is empty.
    #[track_caller]
    pub fn names(&self) -> Vec<Vec<u8>> {
        if let Some(bucket) = &self.bucket {
            let keys = bucket.objects().into_iter().map(|object| object.key);
            let keys = keys.filter(|key| !is_of_uploads(key));
            return keys.map(String::into_bytes).collect();
        }
        let mut names = Vec::new();
        for name in self.top() {
            collect(&self.path, &name, &mut names);
        }
        names.sort();
        names
    }

    /// Every name in the directory itself beside the server's own.
    fn top(&self) -> Vec<Vec<u8>> {
        let mut top = entries(&self.path);
        top.retain(|name| name != b".data-server");
        top
    }

    /// Every value, by key.
    pub fn values(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let names = self.names().into_iter();
        // A folder that is empty may stay.
        let all = names.filter(|name| self.bucket.is_some() || !self.file(name).is_dir());
        all.map(|name| (name.clone(), self.read(name))).collect()
    }

    /// Removes every value by hand.
    #[track_caller]
    pub fn clear(&self) {
        if let Some(bucket) = &self.bucket {
            return bucket.clear();
        }
        for name in self.top() {
            let path = self.file(name);
            let removed = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
            removed.expect("a value removed by hand");
        }
    }

    /// Asserts that the directory holds exactly these keys and that nothing is staged.
    #[track_caller]
    pub fn assert_holds(&self, keys: &[&str]) {
        let mut expected: Vec<Vec<u8>> = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
        expected.sort();
        assert_eq!(readable(&self.names()), readable(&expected), "the keys");
        self.assert_nothing_staged();
    }

    /// Asserts that the staging directory, or that of the spool, is there and empty: soon, for a disk thread removes
    /// what was refused.
    #[track_caller]
    pub fn assert_nothing_staged(&self) {
        let staging = if self.bucket.is_some() {
            self.path.clone()
        } else {
            self.staging()
        };
        let staged = || readable(&entries(&staging));
        let is_right = comes_true(|| staged().is_empty());
        assert!(is_right, "left in staging: {:?}", staged());
    }
}

fn collect(dir: &Path, path: &[u8], names: &mut Vec<Vec<u8>>) {
    let full = dir.join(OsStr::from_bytes(path));
    // A walk beside a server that removes folders.
    let is_folder = fs::symlink_metadata(&full).is_ok_and(|meta| meta.is_dir());
    let inside = fs::read_dir(&full).ok().filter(|_| is_folder);
    let inside = inside.into_iter().flatten().map_while(Result::ok);
    let inside: Vec<_> = inside.map(|entry| entry.file_name().into_vec()).collect();
    if inside.is_empty() {
        names.push(path.to_vec());
    }
    for name in inside {
        collect(dir, &[path, b"/", &name].concat(), names);
    }
}

#[track_caller]
fn entries(dir: &Path) -> Vec<Vec<u8>> {
    let listing = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let names = listing.map(|entry| entry.expect("an entry").file_name().into_vec());
    names.collect()
}

fn readable(names: &[Vec<u8>]) -> Vec<String> {
    let all = names.iter().map(|name| name.escape_ascii().to_string());
    all.collect()
}

/// Whether this object is what a server keeps of resumable uploads.
fn is_of_uploads(key: &str) -> bool {
    key.starts_with(".data-server/uploads/")
}
