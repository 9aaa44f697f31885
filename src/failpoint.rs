//! Panics and misdeeds by order, so that tests can have the real binary fail: in debug builds alone, a release has no such door.
//!
//! `DATA_SERVER_PANIC=PLACE:WHAT` in the environment asks for a panic whenever `PLACE` comes to deal with `WHAT`, and
//! `DATA_SERVER_MISBEHAVE` for what `misdeeds` does. Why not a library for it: there is little that is to happen, and there are few
//! places; what the kernel refuses, strace shows better.

use std::env;
use std::sync::LazyLock;
use std::time::Duration;

/// The variables that debug builds take from the environment for tests, without the prefix `DATA_SERVER_`.
pub(crate) const VARIABLES: &str = if cfg!(debug_assertions) {
    "PANIC MISBEHAVE OUTSIDE ELSEWHERE VALUES TAKEOVER CHECKPOINT EXPIRY TRIAL"
} else {
    ""
};

/// Panics or misbehaves if that was asked for, of this `place` and `what`.
#[cfg(debug_assertions)]
pub(crate) fn reach(place: &str, what: &str) {
    static ASKED: LazyLock<[Option<String>; 2]> = LazyLock::new(|| {
        ["DATA_SERVER_PANIC", "DATA_SERVER_MISBEHAVE"].map(|name| env::var(name).ok())
    });
    let [panics, misbehaves] = ASKED.each_ref().map(|asked| {
        let asked = asked.as_deref().and_then(|asked| asked.split_once(':'));
        asked == Some((place, what))
    });
    assert!(!panics, "asked for by DATA_SERVER_PANIC");
    if misbehaves {
        misdeeds::commit();
    }
}

/// Does nothing: this is a release.
#[cfg(not(debug_assertions))]
#[inline]
pub(crate) fn reach(_place: &str, _what: &str) {}

/// True where connections take their sockets over for long bodies, as they always do in a release: with `DATA_SERVER_TAKEOVER=off` hyper moves
/// those too, so that tests can compare the answers of both.
#[inline]
pub(crate) fn takes_over() -> bool {
    static IS_OFF: LazyLock<bool> =
        LazyLock::new(|| env::var("DATA_SERVER_TAKEOVER").is_ok_and(|how| how == "off"));
    !cfg!(debug_assertions) || !*IS_OFF
}

/// The interval of the journal's checkpoints: `usual` in a release, else `DATA_SERVER_CHECKPOINT` seconds, so that a test can hold it off.
pub(crate) fn checkpoint_interval(usual: Duration) -> Duration {
    static SECONDS: LazyLock<Option<u64>> =
        LazyLock::new(|| env::var("DATA_SERVER_CHECKPOINT").ok()?.parse().ok());
    let asked = cfg!(debug_assertions).then(|| *SECONDS).flatten();
    asked.map_or(usual, Duration::from_secs)
}

/// The interval of the walks for ended values: `usual` in a release, else `DATA_SERVER_EXPIRY` milliseconds.
pub(crate) fn expiry_interval(usual: Duration) -> Duration {
    let asked = env::var("DATA_SERVER_EXPIRY").ok();
    let asked = asked.filter(|_| cfg!(debug_assertions));
    let millis = asked.and_then(|asked| asked.parse().ok());
    millis.map_or(usual, Duration::from_millis)
}

/// What an attacker's code in the process would try, each misdeed once. The log has the results.
///
/// `DATA_SERVER_OUTSIDE` is a directory that the server has nothing to do with, with the files `there` and `other` in it and a program `run`;
/// `DATA_SERVER_ELSEWHERE` an address where another server listens, and `DATA_SERVER_VALUES` the directory of values, `stolen`
/// and `kept` among them.
#[cfg(debug_assertions)]
mod misdeeds {
    use std::fs::{self, File};
    use std::io::Result;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;
    use std::process::{Command, Stdio};

    use rustix::process::{Signal, getppid, kill_process};

    /// Tries everything.
    pub(super) fn commit() {
        let variable = |name| std::env::var(name).unwrap_or_default();
        let outside = PathBuf::from(variable("DATA_SERVER_OUTSIDE"));
        let values = PathBuf::from(variable("DATA_SERVER_VALUES"));
        let elsewhere = variable("DATA_SERVER_ELSEWHERE");
        let at = |name: &str| outside.join(name);
        let value = |name: &str| values.join(name);
        let there = at("there");
        let run = |program: PathBuf| {
            let mut command = Command::new(program);
            command.stdin(Stdio::null()).stdout(Stdio::null()).status()
        };
        log("read /etc/passwd", fs::read("/etc/passwd"));
        log("read it by /proc", fs::read("/proc/self/root/etc/passwd"));
        log("list a directory", fs::read_dir(&outside));
        log("read a file", fs::read(&there));
        log("make a file", File::create(at("made")));
        let appended = File::options().append(true).open(&there);
        log("append to a file", appended);
        log("truncate a file", File::create(&there));
        log("remove a file", fs::remove_file(&there));
        log("make a directory", fs::create_dir(at("folder")));
        let moved = fs::rename(value("stolen"), at("stolen"));
        log("move a value out", moved);
        let linked = fs::hard_link(value("kept"), at("kept"));
        log("link a value out", linked);
        log("move a file in", fs::rename(at("other"), value("moved")));
        log("make a symbolic link", symlink("/etc/passwd", at("link")));
        let linked = symlink("/etc/passwd", value("link"));
        log("make one in the directory", linked);
        log("make a socket", UnixListener::bind(at("socket")));
        log("run a program", run("/bin/true".into()));
        log("run a program of its own", run(at("run")));
        log("connect", TcpStream::connect(&elsewhere));
        log("listen", TcpListener::bind("127.0.0.1:0"));
        let parent = getppid().map_or(Ok(()), |pid| kill_process(pid, Signal::CONT));
        log("signal its parent", parent.map_err(Into::into));
        // The server's own work, which it may still do.
        log("read a value", fs::read(value("kept")));
        log("make a value", File::create(value("mine")));
        log("read its figures", fs::read("/proc/self/statm"));
    }

    /// Logs one line, `misdeed`, with its name and how it ended.
    fn log<T>(what: &str, result: Result<T>) {
        let result = match result {
            Ok(_) => "done".to_owned(),
            Err(error) => format!("{:?}", error.kind()),
        };
        tracing::error!(what, result, "misdeed");
    }
}
