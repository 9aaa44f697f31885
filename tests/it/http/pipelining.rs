//! Proves that unknown and neutral fields change no answer from memory or from a file, and that a client that leaves
//! amid one leaks nothing.

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

/// The part of an answer that must not depend on neutral fields: everything but its date. Over HTTP/2 the client's own
/// end says when the connection closes.
fn essence(mut answer: Response) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let is_of_client = |name: &str| is_http2() && name == "connection";
    answer
        .headers
        .retain(|(name, _)| name != "date" && !is_of_client(name));
    answer.headers.sort();
    (answer.status, answer.headers, answer.body)
}

#[test]
fn neutral_fields_change_no_answer() {
    let options: [&[&str]; 4] = [&[], &["--compress"], &["--compat"], &["--read-only"]];
    for options in taken(&options) {
        let server = TestServer::start(options);
        for ((name, value), ends) in heated(&server)
            .iter()
            .flat_map(|value| ["", "Connection: close\r\n"].map(|ends| (value, ends)))
        {
            let fields = [
                "",
                "X-Unknown: field\r\n",
                "Accept: */*\r\nUser-Agent: t\r\n",
            ];
            let [plain, others @ ..] = fields.map(|field| {
                let mut raw = server.connect();
                let lines = format!("{ends}{field}");
                let answer = ask(&mut raw, "GET", &format!("/{name}"), &lines, b"");
                if !ends.is_empty() {
                    raw.assert_closed();
                }
                essence(answer)
            });
            assert!(plain.2 == *value, "{name} {options:?}");
            let is_right = others.iter().all(|other| *other == plain);
            assert!(is_right, "{name} {options:?}");
        }
    }
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
