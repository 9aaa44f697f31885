//! What an attacker's code in the process would try, each misdeed once, in debug builds alone. The log has the results.
//!
//! `DATA_SERVER_OUTSIDE` is a directory that the server has nothing to do with, with the files `there` and `other` in
//! it and a program `run`; `DATA_SERVER_ELSEWHERE` an address where another server listens, and `DATA_SERVER_VALUES`
//! the directory of values, `stolen` and `kept` among them.

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
