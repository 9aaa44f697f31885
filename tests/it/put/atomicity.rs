//! Proves that every reader sees a whole value or none at every moment, during any writes.

use crate::support::prelude::*;

#[test]
fn readers_see_whole_values_while_they_are_replaced() {
    let server = TestServer::start(&[]);
    let values = [pattern(1, 700_000), pattern(2, 1024 * 1024)];
    server.store("k", &values[0]);
    let (done, reads) = (Done::default(), AtomicUsize::new(0));
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| read_until(&server, &values, &done, &reads)))
            .collect();
        let saying = done.when_dropped();
        let mut writer = server.connect();
        for round in 1..=80 {
            let value = &values[round % 2];
            writer.send(put_head("k", value.len()));
            assert_eq!(writer.ask(value).status, 200);
            if round > 78 {
                await_a_read(&reads);
            }
        }
        drop(saying);
        let seen = readers.into_iter();
        let seen: BTreeSet<usize> = seen.flat_map(|r| r.join().expect("a reader")).collect();
        // Readers that saw only one value have proved nothing.
        assert_eq!(seen.len(), 2);
    });
    server.dir.assert_holds(&["k"]);
}

/// Reads until `done`; each answer must be one of the values, whole. Returns which were seen.
fn read_until(
    server: &TestServer,
    values: &[Vec<u8>],
    done: &Done,
    reads: &AtomicUsize,
) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    let mut connection = server.connect();
    while !done.is_said() {
        let got = connection.ask("GET /k HTTP/1.1\r\nHost: t\r\n\r\n");
        assert_eq!(got.status, 200, "a value that is replaced is never absent");
        let which = values.iter().position(|value| *value == got.body);
        seen.insert(which.expect("a value that was stored"));
        reads.fetch_add(1, Ordering::AcqRel);
    }
    seen
}

/// Waits until a reader has asked since, and has its answer: each of the two may be in the middle of a read.
fn await_a_read(reads: &AtomicUsize) {
    let enough = reads.load(Ordering::Acquire) + 3;
    eventually("readers go on", || reads.load(Ordering::Acquire) >= enough);
}

#[test]
fn readers_see_a_whole_value_or_none_during_puts_and_deletes() {
    let server = TestServer::start(&[]);
    let value = pattern(3, 300_000);
    let (done, reads) = (Done::default(), AtomicUsize::new(0));
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut there, mut absent) = (0, 0);
            let mut connection = server.connect();
            while !done.is_said() {
                let got = connection.ask("GET /k HTTP/1.1\r\nHost: t\r\n\r\n");
                match got.status {
                    200 => there += usize::from(got.body == value),
                    404 => absent += 1,
                    other => panic!("status {other}"),
                }
                let is_right = got.status == 404 || got.body == value;
                assert!(is_right, "{} bytes, not the value", got.body.len());
                reads.fetch_add(1, Ordering::AcqRel);
            }
            (there, absent)
        });
        let saying = done.when_dropped();
        for round in 1..=100 {
            for method in ["PUT", "DELETE"] {
                match method {
                    "PUT" => server.store("k", &value),
                    _ => assert_eq!(server.ask(method, "k").status, 200),
                }
                if round == 100 {
                    await_a_read(&reads);
                }
            }
        }
        drop(saying);
        let (there, absent) = reader.join().expect("the reader");
        let is_right = there > 0 && absent > 0;
        assert!(is_right, "saw it {there} times, missed it {absent} times");
    });
    server.dir.assert_holds(&[]);
}

#[test]
fn of_concurrent_uploads_one_wins_whole() {
    let server = TestServer::start(&[]);
    let values: Vec<_> = (0..8)
        .map(|seed| pattern(seed, 300_000 + 1000 * usize::try_from(seed).expect("small")))
        .collect();
    let (server, values) = (&server, &values);
    for _ in 0..10 {
        thread::scope(|scope| {
            for value in values {
                scope.spawn(move || server.store("k", value));
            }
        });
        let is_right = values.contains(&server.dir.read("k"));
        assert!(is_right, "the value is none of those stored");
        server.dir.assert_holds(&["k"]);
    }
}
