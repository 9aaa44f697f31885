//! What a handler that turns bad can do, with the sandbox and without. Its misdeeds are in debug builds alone.

use super::possible;
use crate::support::prelude::*;

/// What is out of reach.
const REFUSED: &str = "read /etc/passwd, read it by /proc, list a directory, read a file, make a file, append to a file, \
    truncate a file, remove a file, make a directory, move a value out, link a value out, move a file in, \
    make a symbolic link, make one in the directory, make a socket, run a program, run a program of its own, \
    connect, listen, signal its parent";

fn refused() -> impl Iterator<Item = &'static str> {
    REFUSED.split(", ")
}

/// Its own work.
const DONE: [&str; 3] = ["read a value", "make a value", "read its figures"];

/// What becomes of each misdeed of a handler under `--sandbox` so; and of the directory outside: its entries.
fn commit(sandbox: &str) -> (BTreeMap<String, String>, Vec<String>) {
    let dir = DataDir::temporary();
    let outside = TempDir::new().expect("a directory");
    for file in ["there", "other"] {
        fs::write(outside.path().join(file), "content").expect("a file");
    }
    let program = outside.path().join("run");
    fs::copy("/bin/true", &program).expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it may be run");
    let elsewhere = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = elsewhere.local_addr().expect("its address").to_string();
    let launch = Launch::new(&["--sandbox", sandbox]).on(&dir);
    let launch = launch.env("DATA_SERVER_MISBEHAVE", "answer:/turn");
    let launch = launch.env("DATA_SERVER_OUTSIDE", outside.path());
    let launch = launch.env("DATA_SERVER_VALUES", dir.path());
    let launch = launch.env("DATA_SERVER_ELSEWHERE", address);
    let server = launch.passing(&held_socket()).start();
    server.store_each("stolen kept", "a value");
    assert_eq!(server.get("turn").status, 404);
    let all = refused().count() + DONE.len();
    eventually("all is logged", || server.events("misdeed").len() == all);
    let events = server.events("misdeed");
    let results = events
        .iter()
        .map(|event| (event.field("what"), event.field("result")));
    // The server goes on.
    assert_eq!(server.get("kept").body, b"a value");
    let entries = fs::read_dir(&outside).expect("the directory");
    let mut entries: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect();
    entries.sort();
    (results.collect(), entries)
}

#[test]
fn a_handler_that_turns_bad_reaches_nothing_outside() {
    directory_only!("the values are in a directory");
    needed!(possible().filter(|()| cfg!(debug_assertions)));
    let (results, left) = commit("require");
    for what in refused() {
        // To link or move from one directory to another is told as if they were of two file systems, where nothing else
        // is wrong.
        let is_right = ["PermissionDenied", "CrossesDevices"].contains(&results[what].as_str());
        assert!(is_right, "{what}: {results:#?}");
    }
    for what in DONE {
        assert_eq!(results[what], "done", "{what}");
    }
    assert_eq!(left, ["other", "run", "there"]);

    // Nothing else keeps it from them.
    let (results, _) = commit("off");
    for what in refused().chain(DONE) {
        assert_eq!(results[what], "done", "{what}");
    }
}
