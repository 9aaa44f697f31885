//! What code that came into the process from outside would try, each thing once. The log has what became of it.
//!
//! `DATA_SERVER_OUTSIDE` is a directory that the server has nothing to do with, with the files `there` and `other` in it and a program `run`;
//! `DATA_SERVER_ELSEWHERE` an address where another server listens, and `DATA_SERVER_VALUES` the directory of values, `stolen`
//! and `kept` among them.

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
    // What it may do still: its own work.
    log("read a value", fs::read(values.join("kept")).map(drop));
    log("make a value", File::create(values.join("mine")).map(drop));
    log("read its figures", fs::read("/proc/self/statm").map(drop));
}
