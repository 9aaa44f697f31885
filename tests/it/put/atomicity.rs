//! Proves that every reader sees a whole value or none at every moment, during any writes.

use crate::support::prelude::*;

#[test]
fn readers_see_whole_values_or_none_while_they_are_replaced_and_removed() {
    let values = [pattern(1, 700_000), pattern(2, 1024 * 1024)];
    race(&[Some(&values[0]), Some(&values[1])], 40);
    race(&[Some(&pattern(3, 300_000)), None], 100);
}

/// `/k` becomes each of these states in turn, so many times; two readers see no other state, and each of these.
fn race(states: &[Option<&[u8]>], rounds: usize) {
    let server = TestServer::start(&[]);
    let (done, reads) = (Done::default(), AtomicUsize::new(0));
    let turn = |writer: &mut Raw, state: Option<&[u8]>| match state {
        Some(value) => {
            assert_eq!(writer.put("k", value).status, 200);
        }
        None => assert_eq!(server.ask("DELETE", "k").status, 200),
    };
    let read = || {
        let (mut seen, mut connection) = (BTreeSet::new(), server.connect());
        while !done.is_said() {
            let got = connection.get("k");
            assert!([200, 404].contains(&got.status), "{}", got.status);
            let found = (got.status == 200).then_some(&*got.body);
            let which = states.iter().position(|state| *state == found);
            seen.insert(which.unwrap_or_else(|| panic!("{} bytes", got.body.len())));
            reads.fetch_add(1, Ordering::AcqRel);
        }
        seen
    };
    let mut writer = server.connect();
    turn(&mut writer, states[0]);
    thread::scope(|scope| {
        let readers = [scope.spawn(read), scope.spawn(read)];
        let saying = done.when_dropped();
        for round in 1..=rounds {
            for state in states.iter().rev() {
                turn(&mut writer, *state);
                if round == rounds {
                    // Each of the two may be in the middle of a read.
                    let enough = reads.load(Ordering::Acquire) + 3;
                    eventually("readers go on", || reads.load(Ordering::Acquire) >= enough);
                }
            }
        }
        drop(saying);
        let seen = readers.map(|reader| reader.join().expect("a reader"));
        let seen: BTreeSet<usize> = seen.into_iter().flatten().collect();
        // Readers that saw only one state have proved nothing.
        assert_eq!(seen.len(), states.len());
    });
    server.dir.assert_holds(states[0].map(|_| "k").as_slice());
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
