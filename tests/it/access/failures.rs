//! Proves what it costs to fail, and to be another than one says: limits, equal answers, passwords that take long to
//! check.

use super::{basic, bearer, rule, serve, subject, with_password};
use crate::support::policy::token;
use crate::support::prelude::*;

/// The cheapest hash that there is: what a check costs is of interest where a test says so.
fn hash(password: &str) -> String {
    bcrypt::hash(password, 4).expect("a hash")
}

/// Subjects whose passwords no other test asks for.
const UNKNOWN: usize = 10;

fn unknown(at: usize) -> String {
    format!("unknown-{at}")
}

fn policy() -> String {
    let all = ["read", "write", "watch", "metrics"];
    let secret = hash("secret");
    let unknown: Vec<_> = (0..UNKNOWN)
        .map(|at| with_password(&unknown(at), &secret))
        .collect();
    [
        unknown.concat(),
        subject("ann"),
        with_password("bob", &secret),
        with_password("carl", &hash("other")),
        rule("*", "", &all),
    ]
    .concat()
}

fn get(server: &TestServer, lines: &str) -> (u16, Option<u64>) {
    let answer = server.request("GET", "/key", lines, b"");
    let wait = answer
        .header("retry-after")
        .map(|wait| wait.parse().expect("seconds"));
    (answer.status, wait)
}

fn scrape(server: &TestServer) -> Scrape {
    Scrape::over(&mut server.connect(), &bearer("ann"))
}

/// Passwords checked so far.
fn checks(server: &TestServer) -> u64 {
    scrape(server).count("data_server_password_checks_seconds_count", &[])
}

#[test]
fn a_client_that_guesses_has_to_wait_and_keeps_no_other_out() {
    let server = serve(&policy(), &[]);
    let began = Instant::now();
    let guesses: Vec<_> = (0..30).map(|_| get(&server, &bearer("guess"))).collect();
    let most = usize::try_from(most_failures(began)).unwrap();
    let wrong = guesses.iter().filter(|(status, _)| *status == 401).count();
    let limited = guesses.iter().filter(|(status, _)| *status == 429);
    let limited: Vec<_> = limited.collect();
    assert_eq!(wrong + limited.len(), 30);
    assert!((10..=most).contains(&wrong), "{wrong} of 30 were answered");
    let is_right = limited.iter().all(|(_, wait)| matches!(wait, Some(1..=11)));
    assert!(is_right, "{limited:?}");
    // From the same address: who proves to be somebody is let through, and who asks as anyone is asked who it is.
    assert_eq!(get(&server, &bearer("ann")).0, 404);
    assert_eq!(get(&server, "").0, 401);
    // A password that is not known yet has to wait: whether it is right takes a check. Each second allows one failure
    // more, which a busy machine may let pass between both requests: then the next subject is asked for.
    let waits = (0..UNKNOWN).any(|at| {
        eventually("guesses have to wait", || {
            get(&server, &bearer("guess")).0 == 429
        });
        get(&server, &basic(&unknown(at), "secret")).0 == 429
    });
    assert!(waits, "each of {UNKNOWN} passwords was checked at once");
    // Another address has failures of its own.
    let mut other = Raw::connect_from([127, 0, 0, 2], server.addr);
    let found = ask(&mut other, "GET", "/key", &bearer("guess"), b"").status;
    assert_eq!(found, 401);
    let counted = scrape(&server).sum("data_server_auth_total", &[("result", "limited")]);
    let least = f64::from(u32::try_from(limited.len()).unwrap());
    assert!(counted >= least, "{counted}, {least} were told");
    say(&format!("{wrong} of 30 guesses answered"));
}

#[test]
fn a_password_is_checked_once_and_remembered() {
    let server = serve(&policy(), &[]);
    let bob = basic("bob", "secret");
    for _ in 0..5 {
        assert_eq!(get(&server, &bob).0, 404);
    }
    assert_eq!(checks(&server), 1);
    let count = scrape(&server).count("data_server_auth_cache_hits_total", &[]);
    assert_eq!(count, 4);
    assert_eq!(get(&server, &basic("bob", "other")).0, 401);
    assert_eq!(get(&server, &basic("carl", "secret")).0, 401);
    assert_eq!(get(&server, &basic("dora", "secret")).0, 401);
    let found = checks(&server);
    assert_eq!(found, 4, "an unknown name is checked as a known one is");
    assert_eq!(get(&server, &basic("carl", "other")).0, 404);
}

/// Clients that know Basic alone send tokens so: who counts passwords counts none of them.
#[test]
fn a_token_in_the_place_of_a_password_counts_as_a_token() {
    let server = serve(&policy(), &[]);
    assert_eq!(get(&server, &basic("x", &token("ann"))).0, 404);
    assert_eq!(get(&server, &basic("bob", "secret")).0, 404);
    let scrape = scrape(&server);
    let of = |result| scrape.count("data_server_auth_total", &[("result", result)]);
    // The scrape has a token too.
    assert_eq!((of("token"), of("password")), (2, 1));
}

#[test]
fn a_burst_of_equal_passwords_takes_one_check() {
    let server = serve(&policy(), &["--threads", "2"]);
    let bob = basic("bob", "secret");
    let request = format!("GET /key HTTP/1.1\r\nHost: t\r\n{bob}\r\n");
    let mut connections: Vec<_> = (0..200).map(|_| server.connect()).collect();
    for connection in &mut connections {
        connection.send(&request);
    }
    // All of them on five requests each: 1,000.
    for _ in 0..4 {
        for connection in &mut connections {
            assert_eq!(connection.answer().status, 404);
            connection.send(&request);
        }
    }
    for connection in &mut connections {
        assert_eq!(connection.answer().status, 404);
    }
    assert_eq!(checks(&server), 1);
}

/// Asks with each of these lines on a connection of its own: all requests are there when the server reads the first.
fn at_once(server: &TestServer, connections: &mut [Raw], lines: impl Iterator<Item = String>) {
    server.signal(Signal::STOP);
    for (connection, lines) in connections.iter_mut().zip(lines) {
        connection.send(format!("GET /key HTTP/1.1\r\nHost: t\r\n{lines}\r\n"));
    }
    server.signal(Signal::CONT);
}

#[test]
fn checks_that_wait_are_bounded_and_one_name_keeps_no_other_out() {
    let slow = bcrypt::hash("secret", 10).expect("a hash");
    let text = [
        subject("ann"),
        with_password("bob", &slow),
        with_password("carl", &slow),
        rule("*", "", &["read", "metrics"]),
    ]
    .concat();
    let server = serve(&text, &["--threads", "1"]);
    let mut connections: Vec<_> = (0..10).map(|_| server.connect()).collect();
    for connection in &mut connections {
        // It is accepted.
        let found = ask(connection, "GET", "/key", &bearer("ann"), b"").status;
        assert_eq!(found, 404);
    }
    let guesses = (0..8).map(|at| basic("bob", &format!("guess {at}")));
    let lines = guesses.chain([basic("carl", "secret"), bearer("ann")]);
    at_once(&server, &mut connections, lines);
    // A request of others waits for none of them.
    assert_eq!(connections[9].answer().status, 404);
    assert_eq!(connections[8].answer().status, 404);
    let answers = connections[..8].iter_mut().map(|it| it.answer().status);
    let answers: Vec<_> = answers.collect();
    let busy = answers.iter().filter(|status| **status == 503).count();
    assert_eq!(busy, 4, "{answers:?}: 4 of one name at most");
    let is_right = answers.iter().all(|status| matches!(status, 401 | 503));
    assert!(is_right, "{answers:?}");
}

#[test]
fn a_request_of_any_kind_waits_for_its_password() {
    let value = vec![b'v'; 3_000_000];
    let names: Vec<_> = (0..6).map(|at| format!("user{at}")).collect();
    let subjects = names.iter().map(|name| with_password(name, &hash(name)));
    let subjects: String = subjects.collect();
    let text = subjects + &rule("*", "", &["read", "write", "watch", "list"]);
    let server = serve(&text, &[]);
    // Each of another name: no password is remembered.
    let line = |at: usize| basic(&names[at], &names[at]);
    let mut connection = server.connect();
    let status = ask(&mut connection, "PUT", "/long", &line(0), &value).status;
    assert_eq!(status, 200);
    assert!(server.request("GET", "/long", &line(1), b"").body == value);
    let mut connection = server.connect();
    let lines = line(2) + "Expect: 100-continue\r\n";
    connection.begin("PUT", "/short", &format!("{lines}Content-Length: 5\r\n"));
    assert_eq!(connection.head().status, 100);
    connection.send("value");
    assert_eq!(connection.answer().status, 200);
    // Two requests at once on one connection, the second behind a body.
    let mut connection = server.connect();
    let lines = line(3);
    connection.send(format!(
        "PUT /short HTTP/1.1\r\nHost: t\r\n{lines}Content-Length: 6\r\n\r\nvalue2GET /short HTTP/1.1\r\nHost: t\r\n{lines}\r\n"
    ));
    assert_eq!(connection.answer().status, 200);
    assert_eq!(connection.answer().body, b"value2");
    let refused = server.request("PUT", "/short", &basic(&names[5], "wrong"), b"w");
    assert_eq!(refused.status, 401);
    assert_eq!(server.dir.read("short"), b"value2");
}

#[test]
fn a_subscriber_waits_for_its_password() {
    directory_only!("changes are told");
    let server = serve(&policy(), &[]);
    let bob = basic_value("bob", "secret");
    let mut socket = Socket::open_with(&server, "", &[("Authorization", &bob)]);
    let found = server.request("PUT", "/key", &bearer("ann"), b"v").status;
    assert_eq!(found, 200);
    assert_eq!(socket.next().expect("an event").key, "key");
    let mut events = Events::open(&server, "", &basic("carl", "other"));
    let status = server.request("PUT", "/2", &bearer("ann"), b"v").status;
    assert_eq!(status, 200);
    assert_eq!(events.next().expect("an event").key, "2");
}

fn basic_value(name: &str, password: &str) -> String {
    let line = basic(name, password);
    line.trim_start_matches("Authorization: ")
        .trim_end()
        .to_owned()
}

/// What wrong passwords cost, of a name that is known and of one that is not.
#[test]
fn a_known_name_costs_as_much_as_an_unknown_one() {
    // Some ten milliseconds.
    let slow = bcrypt::hash("secret", 8).expect("a hash");
    let text = with_password("bob", &slow) + &rule("*", "", &["read"]);
    let server = serve(&text, &[]);
    let cost = |name: &str, network: u8| {
        let before = server.proc().cpu_of("compute-");
        for at in 1..=10 {
            // From an address of its own each: none has failed before.
            let mut connection = Raw::connect_from([127, 0, network, at], server.addr);
            let lines = basic(name, &format!("wrong {at}"));
            assert_eq!(ask(&mut connection, "GET", "/key", &lines, b"").status, 401);
        }
        server.proc().cpu_of("compute-").saturating_sub(before)
    };
    let (known, unknown) = (cost("bob", 1), cost("nobody", 2));
    let ratio = known.as_secs_f64() / unknown.as_secs_f64();
    say(&format!("known {known:?}, unknown {unknown:?}: {ratio:.3}"));
    // A name that took no check would cost a hundredth.
    assert!((0.5..2.0).contains(&ratio), "{ratio}");
}

/// A client may fail ten times, and once more each second; this allows for one second more.
fn most_failures(since: Instant) -> u64 {
    11 + since.elapsed().as_secs()
}

/// Of 300 clients that left after a guess each guess was checked: nobody else's password was for minutes, and none was
/// counted.
#[test]
fn a_guess_counts_and_is_checked_alone_when_its_client_has_left() {
    clear_only!("both protocols in the clear");
    for by_http2 in [true, false] {
        let slow = bcrypt::hash("secret", 8).expect("a hash");
        let rules = rule("*", "", &["read", "metrics"]);
        let text = subject("ann") + &with_password("bob", &slow) + &rules;
        let server = serve(&text, &["--threads", "1", "--http2-clear"]);
        let began = Instant::now();
        let mut guesser = by_http2.then(|| Http2::connect(server.addr));
        let mut ann = Raw::connect_from([127, 0, 0, 2], server.addr);
        for at in 0..300 {
            let guess = basic("bob", &format!("guess {at}"));
            // A request that comes later is answered, so the guess has been read.
            if let Some(guesser) = &mut guesser {
                let value = guess.trim_end().split_once(": ").expect("a field").1;
                let asked = guesser.ask("GET", "http://t/key", &[("authorization", value)], true);
                assert_eq!(guesser.get("-/healthz").status, 200);
                drop(asked.expect("a stream"));
            } else {
                let guesser = server.begin("GET", "/key", &guess);
                let found = ask(&mut ann, "GET", "/key", &bearer("ann"), b"").status;
                assert_eq!(found, 404);
                guesser.reset();
            }
        }
        let mut bob = Raw::connect_from([127, 0, 0, 3], server.addr);
        eventually("the right password is answered", || {
            ask(&mut bob, "GET", "/key", &basic("bob", "secret"), b"").status == 404
        });
        let (found, most) = (checks(&server), 1 + most_failures(began));
        let is_right = (2..=most).contains(&found);
        assert!(is_right, "{found} checks, {most} at most");
        say(&format!("HTTP/2 {by_http2}: {found} checks of 300 guesses"));
    }
}

/// Attempts were admitted by what had failed before, so those that came together were admitted together.
#[test]
fn attempts_at_once_are_as_many_as_one_by_one() {
    let slow = bcrypt::hash("secret", 8).expect("a hash");
    let text = with_password("bob", &slow) + &rule("*", "", &["read"]);
    let server = serve(&text, &["--threads", "1"]);
    let mut connections: Vec<_> = (0..18).map(|_| server.connect()).collect();
    for connection in &mut connections {
        assert_eq!(ask(connection, "GET", "/key", "", b"").status, 401);
    }
    let began = Instant::now();
    let guesses = (0..18).map(|at| basic(&format!("name {at}"), "guess"));
    at_once(&server, &mut connections, guesses);
    let answers = connections.iter_mut().map(|it| it.answer().status);
    let answers: Vec<_> = answers.collect();
    let wrong = answers.iter().filter(|status| **status == 401).count() as u64;
    let is_right = answers.iter().all(|status| matches!(status, 401 | 429));
    assert!(
        is_right && (10..=most_failures(began)).contains(&wrong),
        "{answers:?}"
    );
}

/// A password that its owner had proved was answered 200 to everybody, a wrong one 429: nothing held up who tried all.
#[test]
fn what_others_proved_is_limited_like_any_guess() {
    let server = serve(&policy(), &["--threads", "1"]);
    let bob = basic("bob", "secret");
    let request = |lines: &str| format!("GET /key HTTP/1.1\r\nHost: t\r\n{lines}\r\n");
    assert_eq!(get(&server, &bob).0, 404);
    // The statuses of many guesses and of the right password behind them.
    let guessed = |connection: &mut Raw, count: usize| {
        let guesses = (0..count).map(|at| request(&basic("bob", &format!("guess {at}"))));
        connection.send(guesses.collect::<String>() + &request(&bob));
        let answers = (0..=count).map(|_| connection.answer().status);
        let answers: Vec<_> = answers.collect();
        (answers[count - 1], answers[count])
    };
    // A second may begin between the last guess and the right password: not each time.
    let is_limited = (10..15).any(|network| {
        let mut other = Raw::connect_from([127, 0, network, 1], server.addr);
        guessed(&mut other, 30) == (429, 429)
    });
    assert!(is_limited, "the right password is told from a wrong one");
    // The client that proved it is let through, unless what comes from its address are guesses for the most part.
    let mut own = server.connect();
    assert_eq!(guessed(&mut own, 30), (429, 404));
    assert_eq!(get(&server, &bob).0, 404);
    let is_limited = (0..3).any(|_| guessed(&mut server.connect(), 120) == (429, 429));
    assert!(is_limited, "an address that is shared gives no oracle");
}

/// The connection of a proxy kept what its owner had proved for everybody who came over it: 429 for wrong passwords,
/// and not for the right one.
#[test]
fn what_a_connection_of_a_proxy_proved_is_no_oracle_for_its_other_clients() {
    const OWNER: &str = "X-Forwarded-For: 192.0.2.1\r\n";
    const OTHER: &str = "X-Forwarded-For: 192.0.2.2\r\n";
    let server = serve(&policy(), &["--trusted-proxy", "127.0.0.1"]);
    let mut proxy = server.connect();
    let bob = basic("bob", "secret");
    let mut ask = |client: &str, proof: &str| {
        let request = format!("GET /key HTTP/1.1\r\nHost: t\r\n{client}{proof}\r\n");
        proxy.send(request);
        proxy.answer().status
    };
    assert_eq!(ask(OWNER, &bob), 404);
    // A second may begin between two attempts, which lets one more through: not each time.
    let is_limited = (0..5).any(|_| {
        for at in 0..20 {
            ask(OTHER, &basic("bob", &format!("guess {at}")));
        }
        assert_eq!(ask(OWNER, &bob), 404, "the owner is not limited");
        ask(OTHER, &bob) == 429
    });
    assert!(is_limited, "the right password is told from a wrong one");
}
