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
    "PANIC MISBEHAVE OUTSIDE ELSEWHERE VALUES TAKEOVER CHECKPOINT TRIAL"
} else {
    ""
};

/// Panics or misbehaves if that was asked for, of this `place` and `what`.
#[cfg(debug_assertions)]
pub(crate) fn reach(place: &str, what: &str) {
    static PANIC: LazyLock<Option<String>> = LazyLock::new(|| env::var("DATA_SERVER_PANIC").ok());
    static MISBEHAVE: LazyLock<Option<String>> =
        LazyLock::new(|| env::var("DATA_SERVER_MISBEHAVE").ok());
    let is_asked = |variable: &Option<String>| {
        let asked = variable.as_deref().and_then(|asked| asked.split_once(':'));
        asked == Some((place, what))
    };
    assert!(!is_asked(&PANIC), "asked for by DATA_SERVER_PANIC");
    if is_asked(&MISBEHAVE) {
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

/// What an attacker's code in the process would try, each misdeed once. The log has the results.
///
/// `DATA_SERVER_OUTSIDE` is a directory that the server has nothing to do with, with the files `there` and `other` in it and a program `run`;
/// `DATA_SERVER_ELSEWHERE` an address where another server listens, and `DATA_SERVER_VALUES` the directory of values, `stolen`
/// and `kept` among them.
#[cfg(debug_assertions)]
mod misdeeds {
    use std::fs::{self, File};
    use std::io::{Error, Result};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;
    use std::process::{Command, Stdio};

    use rustix::process::{Signal, getppid, kill_process};

    /// Tries everything, and logs one line for each: `misdeed`, with its name and how it ended.
    pub(super) fn commit() {
        let variable = |name| std::env::var(name).unwrap_or_default();
        let outside = PathBuf::from(variable("DATA_SERVER_OUTSIDE"));
        let values = PathBuf::from(variable("DATA_SERVER_VALUES"));
        let elsewhere = variable("DATA_SERVER_ELSEWHERE");
        let at = |name: &str| outside.join(name);
        let there = at("there");
        let run = |program: PathBuf| {
            let mut command = Command::new(program);
            command.stdin(Stdio::null()).stdout(Stdio::null());
            command.status().map(drop)
        };
        let log = |what: &str, result: Result<()>| {
            let result = result.map_or_else(
                |error| format!("{:?}", error.kind()),
                |()| "done".to_owned(),
            );
            tracing::error!(what, result, "misdeed");
        };
        log("read /etc/passwd", fs::read("/etc/passwd").map(drop));
        log(
            "read it by /proc",
            fs::read("/proc/self/root/etc/passwd").map(drop),
        );
        log("list a directory", fs::read_dir(&outside).map(drop));
        log("read a file", fs::read(&there).map(drop));
        log("make a file", File::create(at("made")).map(drop));
        log(
            "append to a file",
            File::options().append(true).open(&there).map(drop),
        );
        log("truncate a file", File::create(&there).map(drop));
        log("remove a file", fs::remove_file(&there));
        log("make a directory", fs::create_dir(at("folder")));
        log(
            "move a value out",
            fs::rename(values.join("stolen"), at("stolen")),
        );
        log(
            "link a value out",
            fs::hard_link(values.join("kept"), at("kept")),
        );
        log(
            "move a file in",
            fs::rename(at("other"), values.join("moved")),
        );
        log("make a symbolic link", symlink("/etc/passwd", at("link")));
        log(
            "make one in the directory",
            symlink("/etc/passwd", values.join("link")),
        );
        log("make a socket", UnixListener::bind(at("socket")).map(drop));
        log("run a program", run("/bin/true".into()));
        log("run a program of its own", run(at("run")));
        log("connect", TcpStream::connect(&elsewhere).map(drop));
        log("listen", TcpListener::bind("127.0.0.1:0").map(drop));
        let parent = getppid().map_or(Ok(()), |pid| kill_process(pid, Signal::CONT));
        log("signal its parent", parent.map_err(Error::from));
        // The server's own work, which it may still do.
        log("read a value", fs::read(values.join("kept")).map(drop));
        log("make a value", File::create(values.join("mine")).map(drop));
        log("read its figures", fs::read("/proc/self/statm").map(drop));
    }
}
