//! The faults that the journal of `--durability disk` once had, each with a test of its own: acknowledged changes that
//! were lost, or came back, without a broken device or with one.
//!
//! A cut of power is played: the server is killed, its note no longer names the mount, and files are changed to what
//! the disk may have had. `histories::power`, `heal`, `damage` and `backups`, of the torture suite, look for more of
//! the kind with real cuts and disks.

mod checkpoints;
mod damage;
mod dates;
mod large;
mod moves;
mod offline;
mod places;
mod unwritable;

use crate::support::prelude::*;

pub(super) const DISK: [&str; 2] = ["--durability", "disk"];

/// No checkpoint settles what the test is about before it looks, however slow the machine is.
pub(super) fn start(dir: &DataDir) -> TestServer {
    let launch = Launch::new(&DISK).env("DATA_SERVER_CHECKPOINT", "600000");
    launch.on(dir).start()
}

/// As users start it.
fn start_as_usual(dir: &DataDir) -> TestServer {
    Launch::new(&DISK).on(dir).start()
}

fn ready(server: &TestServer) -> u16 {
    server.ask("GET", "-/ready").status
}

/// Kills the server. What the files hold is then taken for what the disk had.
pub(super) fn cut(server: &mut TestServer) {
    server.kill();
    assert!(server.dir.forget_mount(), "the note of a server that ran");
}

/// The file keeps its name, length and time, and has zeros: the kernel could not write its bytes, and has dropped them.
fn drop_bytes(file: &Path) {
    let meta = fs::metadata(file).expect("a file");
    let len = usize::try_from(meta.len()).expect("a length");
    fs::write(file, vec![0; len]).expect("written");
    date(file, meta.modified().expect("a time"));
}

fn date(file: &Path, time: SystemTime) {
    let opened = fs::File::options().append(true).open(file);
    let dated = opened.and_then(|file| file.set_modified(time));
    dated.expect("a time");
}

/// A file as it was at some moment.
struct Kept {
    path: PathBuf,
    bytes: Vec<u8>,
    time: SystemTime,
}

impl Kept {
    fn of(dir: &DataDir, key: &str) -> Self {
        let path = dir.file(key);
        let bytes = fs::read(&path).expect("a file");
        let meta = fs::metadata(&path).expect("a file");
        let time = meta.modified().expect("a time");
        Self { path, bytes, time }
    }

    /// In place of what stands there now, a folder with all in it, too.
    fn put_back(&self) {
        // Where nothing is there, neither can be removed.
        drop(fs::remove_file(&self.path).or_else(|_| fs::remove_dir_all(&self.path)));
        fs::write(&self.path, &self.bytes).expect("written");
        date(&self.path, self.time);
    }
}

/// Each file in this directory, with its bytes.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).expect("a directory");
    let named = entries.map(|entry| {
        let entry = entry.expect("an entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, fs::read(entry.path()).expect("a file"))
    });
    named.collect()
}

/// What `journal check` says, which only reads.
fn check(dir: &DataDir) -> Ended {
    let journal = || {
        let is_there = dir.own("journal").exists();
        is_there.then(|| files(&dir.own("journal")))
    };
    let before = journal();
    let ended = Launch::new(&["journal", "check", text(dir.path())]);
    let ended = ended.bare().run();
    assert!(before == journal(), "it only reads");
    ended
}

/// Options of strace that have these calls on the journal of `dir`, which has been served before, and no other file.
pub(super) fn of_segments<'a>(options: &[&'a str], segments: &'a [PathBuf; 4]) -> Vec<&'a str> {
    let paths = segments.iter().flat_map(|path| ["-P", text(path)]);
    options.iter().copied().chain(paths).collect()
}

pub(super) fn segments(dir: &DataDir) -> [PathBuf; 4] {
    [0, 1, 2, 3].map(|n| dir.own(&format!("journal/{n}")))
}

/// Stops all threads of the server, and has them go on when it is dropped.
struct Paused<'a>(&'a TestServer);

impl<'a> Paused<'a> {
    fn all_of(server: &'a TestServer) -> Self {
        server.signal(Signal::STOP);
        Self(server)
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.0.signal(Signal::CONT);
    }
}
