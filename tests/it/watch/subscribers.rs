//! Proves that all subscribers see the order of publishing, and that slow or many subscribers do not slow down writers
//! or other subscribers, and do not grow memory.

use super::{burst, long_key, start};
use crate::support::prelude::*;

#[test]
fn all_subscribers_see_one_order_that_ends_with_the_current_value() {
    const WRITERS: usize = 4;
    const CHANGES: usize = 150;
    let server = needed!(TestServer::of_directory("watching", &["--threads", "3"]));
    let mut followers: Vec<Box<dyn Follower>> = Vec::new();
    for _ in 0..4 {
        followers.push(Box::new(Events::open(&server, "", "")));
        followers.push(Box::new(Socket::open(&server, "")));
    }
    let told: Vec<Vec<Told>> = thread::scope(|scope| {
        let readers: Vec<_> = followers
            .iter_mut()
            .map(|follower| scope.spawn(|| follower.until("end")))
            .collect();
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let server = &server;
                scope.spawn(move || {
                    let mut client = Client::new(server.addr);
                    for nth in 0..CHANGES {
                        let key = format!("k{}", (writer + nth) % 5);
                        if nth % 7 == 3 {
                            client.ask("DELETE", &key);
                        } else {
                            assert_eq!(client.put(&key, "v".repeat(nth)).status, 200);
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().expect("a writer");
        }
        server.store("end", "");
        let join = |reader: thread::ScopedJoinHandle<'_, _>| reader.join().expect("a reader");
        readers.into_iter().map(join).collect()
    });

    let puts = WRITERS * CHANGES - WRITERS * (0..CHANGES).filter(|nth| nth % 7 == 3).count();
    let count = told[0].iter().filter(|t| t.op == "put").count();
    assert_eq!(count, puts + 1, "changes are missing");
    for other in &told[1..] {
        assert_eq!(&told[0], other);
    }
    let mut state: HashMap<&str, Option<&Told>> = HashMap::new();
    for pair in told[0].windows(2) {
        assert_eq!(pair[1].seq, pair[0].seq + 1);
    }
    for told in &told[0] {
        let before = state.entry(&told.key).or_default();
        // Only a delete of an existing value is an event: the order is that of publishing.
        assert!(told.op == "put" || before.is_some(), "{told:?}");
        if let (Some(before), Some(now)) = (before.and_then(|b| b.etag.as_ref()), &told.etag) {
            assert!(before < now, "{told:?} after {before}");
        }
        *before = (told.op == "put").then_some(told);
    }
    for (key, last) in state {
        let answer = server.get(key);
        let found = answer.header("etag");
        assert_eq!(found, last.and_then(|t| t.etag.as_deref()), "{key}");
    }
}

#[test]
fn a_subscriber_that_does_not_read_slows_no_writer() {
    directory_only!("watching");
    let server = start(&["--threads", "2", "--min-rate", "0"]);
    let narrow = || Raw::connect_narrow(server.addr);
    let mut slow: Vec<_> = (0..10).map(|_| Events::over(narrow(), "", "")).collect();
    let quick = Events::open(&server, "", "");
    burst(&server, &long_key(), 500);
    let before = server.proc().rss_kib();
    thread::scope(|scope| {
        let mut quick = quick;
        let reader = scope.spawn(move || {
            let told = quick.until("end");
            let is_right = told.iter().all(|told| !told.is_resync());
            assert!(is_right, "a reader fell behind");
            told.len()
        });
        burst(&server, &long_key(), 6000);
        server.store("end", "v");
        assert_eq!(reader.join().expect("a reader"), 6501);
    });
    // The changes kept are less than 2 MiB; ten queues of 6,000 would be 90 MB.
    let grown = server.proc().rss_kib().saturating_sub(before);
    assert!(grown < 24 << 10, "{grown} KiB more");
    for events in &mut slow {
        let (mut bytes, mut resync) = (0, None);
        let latest = loop {
            let told = events.next().expect("an event");
            bytes += told.key.len() * 6;
            if told.is_resync() {
                resync = Some(told.seq);
            }
            if told.key == "end" {
                break told.seq;
            }
            if resync.is_some_and(|_| told.is_resync()) {
                break told.seq;
            }
        };
        assert!(resync.expect("a resync for the gap") <= latest);
        let is_right = bytes < 1 << 20;
        assert!(is_right, "{bytes} bytes waited for one that did not read");
    }
    server.store("after", "v");
    for events in &mut slow {
        events.until("after");
    }
}

#[test]
fn hundreds_of_subscribers_take_little_memory_while_some_never_read() {
    const MANY: usize = 240;
    let server = needed!(TestServer::of_directory("watching", &["--threads", "2"]));
    let rest = server.proc().sockets();
    let mut followers: Vec<Box<dyn Follower>> = Vec::new();
    let mut deaf = Vec::new();
    for nth in 0..MANY {
        match nth % 12 {
            0 => deaf.push(Events::over(Raw::connect_narrow(server.addr), "", "")),
            1..6 => followers.push(Box::new(Socket::open(&server, ""))),
            _ => followers.push(Box::new(Events::open(&server, "", ""))),
        }
    }
    (0..50).for_each(|nth| server.store(&format!("k{nth}"), "v"));
    for follower in &mut followers {
        let keys = follower.until("k49").into_iter().map(|told| told.key);
        assert!(keys.eq((0..50).map(|nth| format!("k{nth}"))));
    }
    let kib = server.proc().rss_kib();
    assert!(kib < 96 << 10, "{kib} KiB for {MANY} subscribers");
    drop((followers, deaf));
    eventually("all are forgotten", || server.proc().sockets() == rest);
}

#[test]
fn a_quiet_subscriber_outlives_the_limits_of_other_connections() {
    directory_only!("watching");
    let server = TestServer::start(&["--idle-timeout", "100ms", "--header-timeout", "100ms"]);
    let mut events = Events::open(&server, "", "");
    let mut socket = Socket::open(&server, "");
    let mut idle = server.connect();
    idle.get("gone");
    let mut silent = server.connect();
    let start = Instant::now();
    idle.assert_closed();
    silent.rest();
    // Twice as long as it takes to close other connections that are idle.
    thread::sleep(start.elapsed() + Duration::from_millis(300)); // the silence is what is tested
    server.store("k", "v");
    assert_eq!(events.next().expect("an event").key, "k");
    assert_eq!(socket.next().expect("a message").key, "k");
}

#[test]
fn a_subscriber_that_pauses_for_longer_than_body_timeout_is_disconnected() {
    http1_only!("a slow stream ends alone");
    directory_only!("watching");
    let server = start(&["--threads", "1", "--body-timeout", "2s"]);
    let rest = server.proc().sockets();
    let deaf = Events::over(Raw::connect_narrow(server.addr), "", "");
    let mut quick = Events::open(&server, "?prefix=end", "");
    burst(&server, &long_key(), 300);
    let comes = || server.proc().sockets() == rest + 1;
    eventually("only the other is left", comes);
    server.store("end", "v");
    assert_eq!(quick.next().expect("an event").key, "end");
    drop(deaf);
}

/// The duration of a subscription must not count as the duration of a request.
#[test]
fn subscribers_are_counted_but_not_in_request_durations() {
    let server = needed!(TestServer::of_directory("watching", &["--threads", "1"]));
    let scrape = || Scrape::of(server.addr);
    let subscribers = || scrape().count("data_server_watch_subscribers", &[]);
    let (events, socket) = (Events::open(&server, "", ""), Socket::open(&server, ""));
    assert_eq!(subscribers(), 2);
    drop((events, socket));
    eventually("no subscriber is left", || subscribers() == 0);
    let ended = |scrape: &Scrape| {
        let labels = [("method", "GET"), ("status", "1xx")];
        scrape.count("data_server_requests_total", &labels) == 1
    };
    eventually("both have ended", || ended(&scrape()));
    let scrape = scrape();
    let requests = scrape.count("data_server_requests_total", &[]);
    let measured = scrape.count("data_server_request_duration_seconds_count", &[]);
    assert_eq!(measured, requests - 2);
}
