//! Proves what a hot GET costs, counted in system calls and compared with what design.md promises.

use crate::support::prelude::*;

/// Calls of the reactor between the requests for two keys that are not there, by name; waiting for sockets left out,
/// and the `fcntl` of debug builds.
fn between_marks(calls: &[Call]) -> BTreeMap<&str, usize> {
    let mark = |key: &str| {
        let request = format!("\"GET /{key} ");
        let is_mark = |call: &&Call| call.name == "recvfrom" && call.args.contains(&request);
        calls.iter().find(is_mark).expect("a mark")
    };
    let (first, last) = (mark("first"), mark("last"));
    // The first request's own calls end with its answer.
    let of_reactor = || calls.iter().filter(|call| call.thread == first.thread);
    let answered = of_reactor().find(|call| call.began > first.ended && call.name == "sendto");
    let from = answered.expect("an answer").ended;
    let mut counts = BTreeMap::new();
    for call in of_reactor().filter(|call| call.began > from && call.ended < last.began) {
        if !call.name.starts_with("epoll_") && call.name != "fcntl" {
            *counts.entry(call.name.as_str()).or_default() += 1;
        }
    }
    counts
}

/// Calls per 1000 requests for a value `hot` of `size` bytes that has been read before, over one connection; and how
/// long those requests took.
fn calls_of_hot_gets(hot: &str, size: usize) -> Option<(BTreeMap<String, usize>, Duration)> {
    const REQUESTS: usize = 1000;
    let trace = Trace::with(&[], "the system calls of a hot GET")?;
    // hyper has no `sendfile`.
    let mut server = trace.around(Launch::new(&["--threads", "1"])).start();
    let value = pattern(1, size);
    server.dir.place(hot, &value);
    let mut connection = server.connect();
    let mut ask = |key: &str| connection.get(key);
    // A value is kept only once it has been as it is for a while.
    let placed = Instant::now();
    eventually("the value is kept", || {
        assert!(ask(hot).body == value);
        placed.elapsed() > Duration::from_millis(200)
    });
    assert_eq!(ask("first").status, 404);
    let began = Instant::now();
    for _ in 0..REQUESTS {
        assert!(ask(hot).body == value);
    }
    assert_eq!(ask("last").status, 404);
    let took = began.elapsed();
    drop(connection);
    server.stop();
    let calls = trace.calls();
    let counts = between_marks(&calls);
    let counts = counts.into_iter().map(|(name, n)| (name.to_owned(), n));
    Some((counts.collect(), took))
}

/// What a reactor does beside its requests, at most once in [`PERIOD`]. Its timer for the lag of the event loop comes
/// due, and the runtime wakes its own poll by an eventfd.
const TIMER: (&str, usize) = ("write", 1);

/// What a value adds that is sent from its file: the kernel is asked for its first and its last byte, without waiting.
const RESIDENCY: (&str, usize) = ("preadv2", 2);

/// What the first use of a value adds after each sweep of the cache, which comes every 10 seconds: its path is looked
/// up, and its bytes are compared.
const PROOF: [(&str, usize); 3] = [("openat2", 1), ("close", 1), ("preadv2", 1)];

/// How often the lag is measured, and how long a file that was found in memory counts as being there.
const PERIOD: Duration = Duration::from_millis(100);

/// Asserts so many calls of each for 1000 requests, at most so many of each `periodic` one, and no other.
#[track_caller]
fn assert_calls(hot: &str, size: usize, expected: &[(&str, usize)], periodic: &[(&str, usize)]) {
    /// A socket may be found empty now and then, where the machine is slow.
    const SLACK: usize = 20;
    let (mut counts, took) = needed!(calls_of_hot_gets(hot, size));
    eprintln!("{counts:?} in {took:?}");
    for (name, each) in expected {
        let (count, expected) = (counts.remove(*name).unwrap_or(0), each * 1000);
        let is_right = (expected..expected + SLACK).contains(&count);
        assert!(is_right, "{count} calls of {name}, not {expected}");
    }
    // One more for the period that has begun.
    let periods = usize::try_from(took.as_millis() / PERIOD.as_millis()).expect("a short time") + 1;
    for (name, each) in periodic {
        let (count, most) = (counts.remove(*name).unwrap_or(0), each * periods);
        assert!(count <= most, "{count} calls of {name}, more than {most}");
    }
    assert!(counts.is_empty(), "beside what is expected: {counts:?}");
}

#[test]
fn a_hot_value_costs_one_look_at_the_file_and_is_sent_from_it_without_opening_it_again() {
    plain_only!("its system calls");
    directory_only!("system calls on files");
    let [path, end, bytes] = PROOF;
    let calls = [("recvfrom", 1), ("fstat", 1), ("sendto", 1)];
    assert_calls("hot", 1024, &calls, &[TIMER, path, end, bytes]);
    let calls = [&calls[..], &[("sendfile", 1)]].concat();
    assert_calls("hot", 20 << 10, &calls, &[TIMER, RESIDENCY, path, end]);
    // In a folder each request walks to it, which proves the path too, and reads nothing.
    let calls = words("recvfrom openat2 fstat close sendto");
    let calls: Vec<_> = calls.into_iter().map(|name| (name, 1)).collect();
    assert_calls("a/b/hot", 1024, &calls, &[TIMER, bytes]);
}

#[test]
fn the_last_answer_of_a_connection_leaves_with_its_end() {
    plain_only!("its system calls");
    let trace = needed!(Trace::with(&[], "the system calls of a last answer"));
    let mut server = trace.around(Launch::new(&["--threads", "1"])).start();
    let mut connection = server.connect();
    let got = connection.ask("GET /k HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
    assert_eq!((got.status, got.closes()), (404, true));
    connection.assert_closed();
    server.stop();
    let calls = trace.calls();
    let answer = |call: &&Call| call.name == "sendto" && call.args.contains("HTTP/1.1 404");
    let answer = calls.iter().find(answer).expect("the answer");
    assert!(answer.args.contains("MSG_MORE"), "{answer:?}");
}
