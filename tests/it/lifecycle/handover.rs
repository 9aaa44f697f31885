//! Proves that a restart with socket activation loses no request: clients wait in the queue of the socket, answers
//! announce when a connection closes, and the service manager is notified of every step.

use std::io::{self, ErrorKind};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{self, UnixDatagram};

use crate::support::prelude::*;

/// How long a client may be silent, at least, before the drain closes its connection as idle.
const NOTICE: Duration = Duration::from_millis(450);

/// Clients of a socket that nobody serves would wait in its queue for ever.
#[test]
fn a_passed_socket_that_no_option_names_stops_the_start() {
    clear_only!("how sockets are named");
    let socket = held_socket();
    let refused = |launch: Launch| {
        let why = "--listen does not name fd:3, a socket that the service manager passes";
        launch.run().says(2, why);
    };
    let activated = || Launch::new(&[]).activated_by(&socket);
    refused(activated().listen("127.0.0.1:0"));
    let config = TempDir::new().expect("a directory");
    let file = config.path().join("options.toml");
    fs::write(&file, "\nlisten = '127.0.0.1:0'\n").expect("a file");
    refused(activated().env("DATA_SERVER_CONFIG", &file));
    activated().listen("127.0.0.1:0,fd:3").start();
    let admin = || Launch::new(&["--admin", "fd:3"]).activated_by(&socket);
    admin().listen("127.0.0.1:0").start();
    // Metrics, for which nobody is asked who they are, would be among the values.
    let both = admin().listen("fd:3").run();
    both.says(2, "--admin fd:3: --listen has this socket too");
}

#[test]
fn a_bad_listening_socket_is_reported_at_the_start() {
    let refused = |launch: Launch, code, words: &str| launch.run().says(code, words);
    let fd = |args: &[&str], place: &str| Launch::new(args).listen(place);
    refused(fd(&[], "fd:71"), 4, "fd:71");
    let file = File::open("/dev/null").expect("a file");
    refused(fd(&[], "fd:3").with_third("", file.into()), 4, "fd:3");
    let unbound = UnixDatagram::unbound().expect("a socket");
    refused(fd(&[], "fd:3").with_third("", unbound.into()), 4, "TCP");
    for place in ["fd:", "fd:x", "fd:-1", "fd:0", "fd:2"] {
        refused(fd(&[], place), 2, place);
    }
    let counted = "export LISTEN_PID=$$ LISTEN_FDS=abc; exec \"$@\"";
    let counted = fd(&[], "").through(&["sh", "-c", counted, "sh"]);
    refused(counted, 2, "LISTEN_FDS");
    let socket = held_socket();
    let shared = Launch::new(&["--dispatch", "reuse-port"]);
    refused(shared.passing(&socket), 2, "reuse-port");
}

#[test]
fn a_client_that_connects_between_servers_is_served_by_the_next() {
    clear_only!("a client that waits to be accepted cannot ask by TLS");
    for threads in ["1", "2"] {
        let (socket, dir) = (held_socket(), DataDir::temporary());
        let launch = || Launch::new(&["--threads", threads]).on(&dir);
        let mut first = launch().passing(&socket).start();
        first.store("k", "value");
        first.signal(Signal::TERM);
        first.event("draining");
        let mut early = first.connect();
        early.send("GET /k HTTP/1.1\r\nHost: t\r\n\r\n");
        assert_eq!(first.exit(), Some(0));
        let mut late = Raw::connect(first.addr);
        late.send("GET /k HTTP/1.1\r\nHost: t\r\n\r\n");
        let _second = launch().passing(&socket).start();
        assert_eq!(early.answer().body, b"value");
        assert_eq!(late.answer().body, b"value");
    }
}

#[test]
fn an_active_client_gets_connection_close_before_the_end() {
    http1_only!("HTTP/2 has GOAWAY for it");
    let get = "GET /k HTTP/1.1\r\nHost: t\r\n\r\n";
    let socket = held_socket();
    for is_passed in [false, true].repeat(3) {
        let launch = Launch::new(&[]);
        let launch = if is_passed {
            launch.passing(&socket)
        } else {
            launch
        };
        let mut server = launch.start();
        server.dir.place("k", "value");
        let mut quiet = server.connect();
        let mut clients: Vec<_> = (0..8).map(|_| (server.connect(), Instant::now())).collect();
        for (client, asked) in &mut clients {
            assert!(!client.ask(get).closes(), "too early");
            *asked = Instant::now();
        }
        server.signal(Signal::TERM);
        while !clients.is_empty() {
            clients.retain_mut(|(client, asked)| {
                let silent = asked.elapsed();
                *asked = Instant::now();
                let _may_be_closed = client.offer(get);
                let Some(head) = client.try_head() else {
                    // On a busy machine a client may not get to ask in time.
                    assert!(silent > NOTICE, "closed after {silent:?} of silence");
                    return false;
                };
                client.take(head.length());
                if head.closes() {
                    client.assert_closed();
                }
                !head.closes()
            });
        }
        quiet.assert_closed();
        assert_eq!(server.exit(), Some(0));
    }
}

/// Asks until there is an answer, which it counts, and again only after a close without a byte of one, as RFC 9110,
/// section 9.2.2, allows.
fn ask(client: &mut Client, answered: &AtomicU64, request: &[u8]) -> Vec<u8> {
    for _ in 0..3 {
        match client.exchange(request) {
            Heard::Answer(answer) => {
                assert_eq!(answer.status, 200, "{answer:?}");
                answered.fetch_add(1, Ordering::Relaxed);
                return answer.body;
            }
            Heard::Nothing => {}
            heard => panic!("{heard:?}"),
        }
    }
    panic!("closed three times without an answer");
}

/// Writes and reads a key of its own until `done`, on a connection that is kept as long as the server keeps it; each
/// read must return the last write.
fn write_and_read(addr: SocketAddr, answered: &AtomicU64, number: u64, done: &Done) -> Vec<u8> {
    let (mut client, mut value) = (Client::new(addr), Vec::new());
    for round in (0..).take_while(|_| !done.is_said()) {
        let length = [100, 20_000, 300_000][usize::try_from(round % 3).expect("small")];
        value = pattern(number * 1_000_000 + round, length);
        let head = put_head(&format!("k{number}"), value.len());
        ask(&mut client, answered, &[head.as_bytes(), &value].concat());
        let is_last = round % 5 == 0;
        let lines = if is_last { "Connection: close\r\n" } else { "" };
        let get = format!("GET /k{number} HTTP/1.1\r\nHost: t\r\n{lines}\r\n");
        let read = ask(&mut client, answered, get.as_bytes());
        assert!(read == value, "another value");
    }
    value
}

#[test]
fn five_restarts_under_a_steady_load_fail_no_request() {
    ["2", "1"].into_iter().for_each(restart_five_times);
}

fn restart_five_times(threads: &str) {
    let (socket, dir) = (held_socket(), DataDir::in_memory());
    let addr = socket.local_addr().expect("its address");
    let launch = || Launch::new(&["--threads", threads]).on(&dir);
    let start = || launch().activated_by(&socket).start();
    let (answered, done) = (AtomicU64::default(), Done::default());
    let mut server = start();
    let written = thread::scope(|scope| {
        let end = done.when_dropped();
        let (answered, done) = (&answered, &done);
        let run = |number| scope.spawn(move || write_and_read(addr, answered, number, done));
        let clients: Vec<_> = (0..6).map(run).collect();
        let busy = || {
            let enough = answered.load(Ordering::Relaxed) + 60;
            eventually("clients are served", || {
                answered.load(Ordering::Relaxed) >= enough
                    || clients.iter().any(thread::ScopedJoinHandle::is_finished)
            });
        };
        for _ in 0..5 {
            busy();
            server.stop();
            server = start();
        }
        busy();
        drop(end);
        let clients = clients.into_iter();
        let written = clients.map(|client| client.join().expect("no request fails"));
        written.collect::<Vec<_>>()
    });
    println!("5 restarts, {answered:?} requests answered, 0 failed");
    for (number, value) in written.iter().enumerate() {
        let is_right = server.get(&format!("k{number}")).body == *value;
        assert!(is_right, "k{number}");
    }
}

/// The states that the service manager was notified of, each once.
fn told(manager: &UnixDatagram) -> io::Result<String> {
    let mut text = [0; 256];
    let length = manager.recv(&mut text)?;
    let text = String::from_utf8_lossy(&text[..length]);
    Ok(text.trim_end().to_owned())
}

#[test]
fn the_service_manager_is_notified_of_start_and_end() {
    let place = TempDir::new().expect("a directory");
    let path = place.path().join("notify");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    manager.set_read_timeout(Some(DEADLINE)).expect("a limit");
    let mut server: TestServer = Launch::new(&[]).env("NOTIFY_SOCKET", &path).start();
    assert_eq!(told(&manager).expect("a state"), "READY=1");
    assert_eq!(server.get("gone").status, 404, "it is ready");

    let second = Launch::new(&[]).on(&server.dir).env("NOTIFY_SOCKET", &path);
    let second = second.listen(&by_engine(
        "127.0.0.1:0".to_owned(),
        server.addr.to_string(),
    ));
    assert_eq!(second.run().code, Some(by_engine(3, 4)));
    server.stop();
    assert_eq!(told(&manager).expect("a state"), "STOPPING=1");
    let short = Some(Duration::from_millis(1));
    manager.set_read_timeout(short).expect("a limit");
    let nothing = told(&manager).expect_err("a server that does not serve is not ready");
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);

    drop(manager);

    // An abstract one, as containers and user managers have it.
    let name = format!("data-server-{}", std::process::id());
    let address = net::SocketAddr::from_abstract_name(&name).expect("a name");
    let manager = UnixDatagram::bind_addr(&address).expect("a socket");
    manager.set_read_timeout(Some(DEADLINE)).expect("a limit");
    let at = format!("@{name}");
    let _server = Launch::new(&[]).env("NOTIFY_SOCKET", &at).start();
    assert_eq!(told(&manager).expect("a state"), "READY=1");

    // The notification socket has no reader any more: the server still serves.
    drop(manager);
    let server = Launch::new(&[]).env("NOTIFY_SOCKET", &path).start();
    assert_eq!(server.get("gone").status, 404);
    server.event("the service manager could not be told");
}
