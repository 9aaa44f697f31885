//! Restarts beside clients of each kind: who has a connection gets a response to each request, and only new connections are refused.

use std::process::Child;

use crate::client::{environment, missing};
use crate::support::prelude::*;

/// Clients, what each needs, a key that it uses, and a line of the shell that runs one at `$AT` until there is a file `end`.
const CLIENTS: &[(&str, &[&str], &str, &str)] = &[
    (
        "curl",
        &["curl"],
        "curl",
        "$PROGRAMS/restarts-curl.sh $AT end",
    ),
    (
        "Go",
        &["go"],
        "go-0",
        "go run $PROGRAMS/restarts.go $AT end",
    ),
    (
        "Java",
        &["java", "javac"],
        "java-0",
        "java $PROGRAMS/Restarts.java $AT end",
    ),
    (
        "Python",
        &["python3"],
        "python-0",
        "python3 $PROGRAMS/restarts.py $AT end",
    ),
    (
        "h2load over HTTP/1.1",
        &["h2load"],
        "read",
        "$PROGRAMS/restarts-h2load.sh $AT/read end --h1",
    ),
    (
        "h2load over HTTP/2",
        &["h2load"],
        "read",
        "$PROGRAMS/restarts-h2load.sh $AT/read end -m 10",
    ),
];

/// A client that runs.
struct Running {
    name: &'static str,
    key: &'static str,
    child: Child,
    home: TempDir,
}

impl Running {
    fn start(at: SocketAddr, name: &'static str, key: &'static str, line: &str) -> Self {
        let home = TempDir::new().expect("a directory");
        let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/programs");
        let child = Command::new("bash")
            .args(["-c", &format!("exec {line}")])
            .env_clear()
            .envs(environment())
            .envs([("PROGRAMS", programs), ("AT", &format!("http://{at}"))])
            .env("HOME", home.path())
            .current_dir(home.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let child = child.expect("bash");
        Self {
            name,
            key,
            child,
            home,
        }
    }

    /// Ends it: it has seen no error, and has met the server.
    #[track_caller]
    fn end(self) {
        let Self {
            name, child, home, ..
        } = self;
        fs::write(home.path().join("end"), "").expect("the end");
        let ended = child.wait_with_output().expect("its end");
        let said = String::from_utf8_lossy(&ended.stdout);
        let why = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{name}: {said}{why}");
        say(&format!("RESTARTS: {name}: {}", said.trim()));
        assert!(!said.starts_with("0 "), "{name} was never answered");
    }
}

/// Starts a server, waits until each client has been answered some more, stops it, and so on.
#[test]
fn fifty_restarts_cost_no_client_a_request() {
    let dir = DataDir::temporary();
    dir.place("read", "value");
    let args = ["--http2-clear", "--threads", "2"];
    // No client's own address: a connection from a free port cannot take the server's while it is away.
    let mut server = Launch::new(&args).listen("127.0.0.77:0").on(&dir).start();
    let at = server.addr;
    let mut clients = Vec::new();
    for &(name, needs, key, line) in CLIENTS {
        match missing(needs) {
            Some(need) => left_out(
                &format!("restarts beside {name}"),
                &format!("there is no `{need}`"),
            ),
            None => clients.push(Running::start(at, name, key, line)),
        }
    }
    for client in &clients {
        eventually(client.name, || dir.file(client.key).exists());
    }
    for _ in 0..50 {
        eventually("the clients go on", || {
            Scrape::of(at).sum("data_server_requests_total", &[]) > 500.0
        });
        server.signal(Signal::TERM);
        assert_eq!(server.exit(), Some(0));
        server = Launch::new(&args).listen(&at.to_string()).on(&dir).start();
    }
    clients.into_iter().for_each(Running::end);
}
