//! Proves that values sent from their files arrive unchanged, at any size and with slow readers.
//!
//! Long values leave by `sendfile`, between answers that hyper sends. A region that was sent twice, short or out of
//! order would change the bytes.

use crate::support::prelude::*;

/// Sizes around each limit where the way of sending changes, and 9 MB.
const SIZES: [usize; 13] = [
    0,
    1,
    65_535,
    262_145,
    8 << 10,
    (8 << 10) + 1,
    64 << 10,
    (64 << 10) + 1,
    (1 << 20) - 1,
    1 << 20,
    (1 << 20) + 1,
    (3 << 20) + 7,
    9_000_000,
];

/// Orders that put small and large sizes side by side.
const ORDERS: [[usize; 13]; 3] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
    [12, 0, 11, 1, 10, 2, 9, 3, 8, 4, 7, 5, 6],
    [4, 9, 12, 2, 7, 0, 6, 10, 8, 3, 11, 1, 5],
];

fn place(server: &TestServer) -> Vec<Vec<u8>> {
    let values = (1..).zip(SIZES).map(|(seed, size)| pattern(seed, size));
    let values: Vec<_> = values.collect();
    for (n, value) in values.iter().enumerate() {
        server.dir.place(&format!("v{n}"), value);
    }
    values
}

/// Asks for these values in one write, each between a HEAD of it and a key that is not there, and reads all answers
/// through a buffer of `step` bytes.
#[track_caller]
fn fetch(connection: &mut Raw, values: &[Vec<u8>], order: &[usize], step: usize) {
    let requests = order.iter().map(|n| {
        let line = |method: &str, key: &str| format!("{method} /{key} HTTP/1.1\r\nHost: t\r\n\r\n");
        let key = format!("v{n}");
        [line("HEAD", &key), line("GET", &key), line("GET", "gone")].concat()
    });
    connection.send(requests.collect::<String>());
    let mut buffer = vec![0; step];
    for &n in order {
        let value = &values[n];
        let told = ["HEAD", "GET"].map(|method| {
            let head = connection.head();
            assert_eq!((head.status, head.length()), (200, value.len()), "{method}");
            head.must("etag").to_owned()
        });
        assert_eq!(told[0], told[1]);
        let mut at = 0;
        connection.stream_to(value.len(), &mut buffer, |piece| {
            let expected = &value[at..at + piece.len()];
            assert!(
                piece == expected,
                "other bytes ({:?}...) from byte {at} of {} on",
                &piece[..piece.len().min(8)],
                value.len()
            );
            at += piece.len();
        });
        assert_eq!(at, value.len(), "bytes before the connection ended");
        assert_eq!(connection.answer().status, 404);
    }
}

/// Also by a slow reader, where the socket takes only a part of each send, at changing places of a value.
#[test]
fn pipelined_values_of_every_size_arrive_unchanged() {
    let server = TestServer::start(&["--threads", "1"]);
    let values = place(&server);
    let mut connection = server.connect();
    for round in ORDERS {
        fetch(&mut connection, &values, &round, 256 << 10);
    }
    let placed = Instant::now();
    // Of files, and as soon as the cache keeps them from memory; other clients are served meanwhile.
    for is_kept in [false, true] {
        for (order, step) in ORDERS.iter().zip([1000, 4096, 7777]) {
            fetch(&mut Raw::connect_narrow(server.addr), &values, order, step);
            assert_eq!(server.ask("GET", "v0").status, 200);
        }
        eventually("the values are kept", || {
            fetch(&mut server.connect(), &values, &ORDERS[0], 256 << 10);
            is_kept || placed.elapsed() > Duration::from_millis(300)
        });
    }
}

#[test]
fn eight_readers_of_one_reactor_each_get_their_own_value() {
    let server = TestServer::start(&["--threads", "1"]);
    let values = place(&server);
    let (server, values) = (&server, &values);
    thread::scope(|scope| {
        for n in 0..8 {
            scope.spawn(move || {
                let (mut connection, step) = if n % 2 == 0 {
                    (server.connect(), 64 << 10)
                } else {
                    (Raw::connect_narrow(server.addr), 5000 + n)
                };
                fetch(&mut connection, values, &ORDERS[n % ORDERS.len()], step);
            });
        }
    });
}
