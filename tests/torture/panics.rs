//! A panic in a handler costs its connection, and nothing else: it is answered 500 where it can be, counted, and
//! logged.
//!
//! The real binary panics by order of the environment, which only a debug build listens to.

use crate::prelude::*;

/// What a request for /boom meets: a panic before it is understood, or after it went on to wait.
const PLACES: [&str; 2] = ["answer:/boom", "work:/boom"];

/// A server that panics in this place; none where the binary has no such door.
fn panicking(place: &str, threads: &str) -> Option<TestServer> {
    let why = "a release does not panic by order; the short form shows them";
    only_where!(cfg!(debug_assertions), "panics in a handler", why, None);
    let launch = Launch::new(&["--threads", threads, "--access-log"]);
    let server = launch.env("DATA_SERVER_PANIC", place).start();
    server.store("here", pattern(1, 5_000));
    server.dir.place("boom", "value");
    Some(server)
}

const GET: &str = "GET /here HTTP/1.1\r\nHost: t\r\n\r\n";

/// Asks for what panics; the answer must be 500, in one line, and the connection closed after it.
#[track_caller]
fn assert_costs_its_connection(server: &TestServer, method: &str, body: &str) {
    let mut raw = server.connect();
    let length = body.len();
    let head = format!("{method} /boom HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\n");
    let answer = raw.ask(head + body);
    assert_eq!(answer.status, 500, "{answer:?}");
    assert!(answer.closes(), "{answer:?}");
    let told = "the server failed on this request; its log says more\n";
    assert_eq!(answer.text(), told);
    raw.assert_closed();
}

/// How many the server has counted.
fn panics(server: &TestServer) -> String {
    let scrape = Scrape::of(server.addr);
    scrape.sum("data_server_panics_total", &[]).to_string()
}

#[test]
fn the_log_names_the_request_that_panicked_by_its_id() {
    for place in PLACES {
        let mut server = needed!(panicking(place, "1"));
        let ask = |id: &str| {
            let answer = server.request("GET", "/boom", id, b"");
            assert_eq!(answer.status, 500);
            answer.must("x-request-id").to_owned()
        };
        let answered = [ask("X-Request-Id: mine\r\n"), ask("")];
        assert_eq!(answered[0], "mine");
        server.stop();
        let logged = server.events("a request panicked");
        let ids = logged.iter().map(|event| event.field("request_id"));
        assert!(ids.eq(answered), "{place}: {logged:?}");
    }
}

#[test]
fn a_panic_is_answered_500_counted_and_logged_and_costs_one_connection() {
    for place in PLACES {
        let mut server = needed!(panicking(place, "1"));
        let mut neighbour = server.connect();
        assert_eq!(neighbour.ask(GET).status, 200);
        for (method, body) in [("GET", ""), ("PUT", "new"), ("DELETE", ""), ("GET", "")] {
            assert_costs_its_connection(&server, method, body);
            let found = neighbour.ask(GET).status;
            assert_eq!(found, 200, "a neighbour on the same reactor");
        }
        assert_eq!(server.dir.read("boom"), b"value", "nothing was changed");
        server.store("after", "value");
        server.dir.assert_holds(&["after", "boom", "here"]);
        let logged = server.event("a request panicked");
        let seen = ["method", "key"].map(|name| logged.field(name));
        assert_eq!(
            (&*logged.level, seen.join(" ")),
            ("ERROR", "GET /boom".to_owned())
        );
        assert!(logged.field("peer").starts_with("127.0.0.1:"), "{logged:?}");
        assert_eq!(panics(&server), "4", "every panic is counted");
        drop(neighbour);
        server.stop();
        assert_eq!(server.events("a request panicked").len(), 4);
        assert_eq!(lines(&server, "\"status\":500"), 4, "the access log too");
        assert_eq!(lines(&server, "asked for by"), 4, "the log has the cause");
    }
}

/// How many lines of its log have this text.
fn lines(server: &TestServer, text: &str) -> usize {
    server
        .log()
        .iter()
        .filter(|line| line.contains(text))
        .count()
}

/// The harness is shown to fail: nothing panics here, and it does not take that for a panic survived.
#[test]
#[cfg_attr(debug_assertions, should_panic(expected = "status: 200"))]
fn the_panic_harness_does_not_take_an_answer_for_a_panic() {
    let server = needed!(panicking("answer:/elsewhere", "1"));
    assert_costs_its_connection(&server, "GET", "");
}

#[test]
fn under_load_others_never_notice() {
    const CLIENTS: usize = 8;
    let requests = scaled(200, 5_000);
    let mut server = needed!(panicking(PLACES[1], "2"));
    let panics = thread::scope(|scope| {
        let addr = server.addr;
        let ask = move || {
            let mut raw = Raw::connect(addr);
            (0..requests).for_each(|_| assert!(raw.ask(GET).body == pattern(1, 5_000)));
        };
        let clients = (0..CLIENTS).map(|_| scope.spawn(ask));
        let running: Vec<_> = clients.collect();
        let mut panics = 0_u64;
        while panics < 10 || running.iter().any(|client| !client.is_finished()) {
            assert_costs_its_connection(&server, "PUT", "new");
            panics += 1;
        }
        panics
    });
    let counted_by_it = self::panics(&server);
    assert_eq!(counted_by_it, panics.to_string(), "every panic is counted");
    server.stop();
    counted!("panics: {panics} beside {} requests", CLIENTS * requests);
}

/// Outside a request it costs the connection, whether that has a task by then or is still with the one that took it in.
#[test]
fn a_panic_of_a_connection_costs_that_connection_alone() {
    const BOOM: &str = "GET /boom HTTP/1.1\r\nHost: t\r\n\r\n";
    let mut server = needed!(panicking("connection:/boom", "1"));
    let mut neighbour = server.connect();
    let ask_neighbour = |neighbour: &mut Raw| {
        let answer = neighbour.ask("GET /gone HTTP/1.1\r\nHost: t\r\n\r\n");
        assert_eq!(answer.status, 404);
    };
    ask_neighbour(&mut neighbour);
    let mut expected = 0;
    for round in 0..10 {
        // On a connection that has a task.
        let mut raw = server.connect();
        assert_eq!(raw.ask("GET /gone HTTP/1.1\r\nHost: t\r\n\r\n").status, 404);
        raw.send(BOOM);
        raw.assert_closed();
        // On one whose request is there when it is accepted.
        server.signal(Signal::STOP);
        let mut raw = server.connect();
        raw.send(BOOM);
        server.signal(Signal::CONT);
        raw.assert_closed();
        expected += 2;
        ask_neighbour(&mut neighbour);
        let counted = || panics(&server) == expected.to_string();
        eventually(&format!("round {round}: both are counted"), counted);
    }
    let open = || Scrape::of(server.addr).count("data_server_connections_active", &[]);
    eventually("their connections are gone", || open() == 2);
    server.store("after", "value");
    drop(neighbour);
    server.stop();
    let causes = lines(&server, "asked for by");
    assert_eq!(causes, expected, "the log has the cause");
}

mod threads {
    //! A panic on a thread beside the reactors fails its operation, and the next goes on.

    use data_server::store::{Directory, Error, Key, Options};

    use crate::support::DataDir;

    fn open(dir: &DataDir) -> Directory {
        Directory::open(dir.path(), &Options::default()).expect("a store")
    }

    async fn put(store: &Directory, panics: bool) -> Result<(), Error> {
        let key = Key::new("key").expect("a key");
        let mut upload = store.upload(&key, Some(100_000), None).await?;
        upload.push(vec![7; 100_000].into()).await?;
        let allow = move |_| {
            assert!(!panics, "by order");
            true
        };
        let stored = store.put(key, upload, Some(Box::new(allow)));
        stored.await.map(drop)
    }

    #[tokio::test]
    async fn a_panic_of_the_publisher_fails_one_change() {
        let dir = DataDir::temporary();
        let store = open(&dir);
        put(&store, false).await.expect("stored");
        for _ in 0..3 {
            let failed = put(&store, true).await;
            assert!(matches!(failed, Err(Error::Failed { .. })), "{failed:?}");
        }
        put(&store, false).await.expect("stored again");
        assert!(dir.read("key") == vec![7; 100_000]);
        drop(store);
        dir.assert_holds(&["key"]);
    }

    #[tokio::test]
    async fn panics_of_jobs_fail_their_jobs_and_leave_the_pool_whole() {
        let store = open(&DataDir::temporary());
        let compute = &store.compute;
        // More than there are threads: one that died of it would be missed.
        for _ in 0..40 {
            let failed: Result<(), _> = compute.spawn(|| panic!("by order")).await;
            assert!(matches!(failed, Err(Error::Failed { .. })), "{failed:?}");
        }
        assert!(matches!(compute.spawn(|| Ok(1)).await, Ok(1)));
    }
}
