//! The faults that the journal of `--durability disk` once had, each with a test of its own: acknowledged changes that were lost, or
//! came back, without a broken device or with one.
//!
//! A cut of power is played: the server is killed, its note no longer names the mount, and files are changed to what the disk may
//! have had. `cas`, `heal`, `damage` and `backups`, of the torture suite, look for more of the kind with real cuts and disks.

mod checkpoints;
mod damage;
mod dates;
mod large;
mod offline;
mod order;
mod places;
mod unwritable;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::process::Signal;

use crate::support::{DataDir, Launch, TestServer};

const DISK: [&str; 2] = ["--durability", "disk"];

/// No checkpoint settles what the test is about before it looks, however slow the machine is.
fn start(dir: &DataDir) -> TestServer {
    let launch = Launch::new(&DISK).env("DATA_SERVER_CHECKPOINT", "600");
    launch.on(dir).start()
}

/// As users start it.
fn start_as_usual(dir: &DataDir) -> TestServer {
    Launch::new(&DISK).on(dir).start()
}

fn own(dir: &DataDir, name: &str) -> PathBuf {
    dir.path().join(".data-server").join(name)
}

fn ready(server: &TestServer) -> u16 {
    server.ask("GET", "-/ready").status
}

/// Kills the server; the kernel still has all that it wrote.
fn kill(server: &mut TestServer) {
    server.signal(Signal::KILL);
    server.exit();
}

/// Kills the server. What the files hold is then taken for what the disk had.
fn cut(server: &mut TestServer) {
    kill(server);
    forget_mount(&server.dir);
}

fn forget_mount(dir: &DataDir) {
    let note = own(dir, "journal-state");
    let text = fs::read_to_string(&note).expect("a note");
    let mut lines: Vec<_> = text.lines().collect();
    assert!(lines[1].starts_with("open"), "{text}");
    lines[1] = "open";
    fs::write(&note, lines.join("\n")).expect("a note");
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
    opened
        .and_then(|file| file.set_modified(time))
        .expect("a time");
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
    let entries = entries.map(|entry| entry.expect("an entry").path());
    entries
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy();
            (name.into_owned(), fs::read(&path).expect("a file"))
        })
        .collect()
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
