//! Proves that a client that leaves amid answers from memory and from files leaks nothing.

use crate::support::prelude::*;

const SIZES: [usize; 7] = [0, 1, 1000, 8 << 10, (8 << 10) + 1, 256 << 10, 1 << 20];

/// Places values, and reads them until the cache keeps them.
fn heated(server: &TestServer) -> Vec<(String, Vec<u8>)> {
    let names = ["v.txt", "v.html", "v", "v.bin", "v.json", "v.svg", "v.zip"];
    let sizes = (1..).zip(SIZES);
    let values: Vec<_> = names
        .iter()
        .zip(sizes)
        .map(|(name, (seed, size))| ((*name).to_owned(), pattern(seed, size)))
        .collect();
    let mut reader = server.connect();
    for (name, value) in &values {
        server.dir.place(name, value);
    }
    // The cache keeps a value only once it has not changed for a while.
    let placed = Instant::now();
    eventually("the values are kept", || {
        for (name, value) in &values {
            assert!(reader.get(name).body == *value, "{name}");
        }
        placed.elapsed() > Duration::from_millis(300)
    });
    values
}

#[test]
fn a_client_that_leaves_during_a_hot_answer_leaks_nothing() {
    let server = TestServer::start(&["--threads", "1"]);
    let values = heated(&server);
    for (name, _) in values.iter().cycle().take(50) {
        let mut raw = Raw::connect_narrow(server.addr);
        raw.send([get_head(name), get_head("v.zip")].concat());
        raw.head();
    }
    eventually("the connections are gone", || server.connections() == 0);
    assert_eq!(server.ask("GET", "v").status, 200);
}
