//! Proves that a state has one lock, as the backend `http` of Terraform takes it, and that this holds its updates.

use crate::support::prelude::*;

const JSON: &str = "Content-Type: application/json\r\n";

/// What Terraform says of a lock, with members that the server does not know.
fn lock(id: &str) -> String {
    format!(
        "{{\"ID\":\"{id}\", \"Operation\":\"OperationTypeApply\",\n\"Who\":\"ann@\u{e9}\",\"Path\":\"\"}}\n"
    )
}

fn send(server: &TestServer, method: &str, target: &str, body: &str) -> (u16, String) {
    let got = server.request(method, target, JSON, body.as_bytes());
    (got.status, got.text())
}

#[test]
fn what_locks_a_state_holds_its_updates() {
    let server = TestServer::start(&[]);
    let (a, b, long) = (lock("a"), lock("b"), lock(&"x".repeat(16 << 10)));
    if is_s3() {
        for (method, target) in [("LOCK", "/s"), ("UNLOCK", "/s"), ("POST", "/s?ID=a")] {
            assert_eq!(send(&server, method, target, &a).0, 501, "{method}");
        }
        return;
    }
    for (method, target, body, status, said) in [
        ("POST", "/s?ID=a", "1", 409, "not locked"),
        ("UNLOCK", "/s", &a, 409, "not locked"),
        ("UNLOCK", "/s", "", 409, "not locked"),
        ("LOCK", "/s", "", 400, "ID"),
        ("LOCK", "/s", "{}", 400, "ID"),
        ("LOCK", "/s", "{\"ID\":1}", 400, "ID"),
        ("LOCK", "/s", &a[1..], 400, "ID"),
        ("LOCK", "/s", &long, 413, "16384"),
        ("LOCK", "/s/", &a, 400, "folder"),
        ("LOCK", "/s", &a, 200, ""),
        // The holder too: two programs may have been given one ID.
        ("LOCK", "/s", &a, 423, &a),
        ("LOCK", "/s", &b, 423, &a),
        ("POST", "/s?ID=b", "1", 423, &a),
        ("PUT", "/s?ID=b", "1", 423, &a),
        ("POST", "/s?ID=", "1", 423, &a),
        ("POST", "/s?ID=b&ID=a", "1", 400, "one ID"),
        ("POST", "/s", "1", 405, "PUT"),
        ("POST", "/s?ID=a", "1", 200, ""),
        ("PUT", "/s?ID=a", "2", 200, ""),
        ("UNLOCK", "/s", &b, 423, &a),
        ("UNLOCK", "/s", "{}", 400, "ID"),
        ("UNLOCK", "/s", &long, 413, "16384"),
        ("UNLOCK", "/s", "{\"ID\":\"a\"}", 200, ""),
        ("UNLOCK", "/s", &a, 409, "not locked"),
        ("POST", "/s?ID=a", "3", 409, "not locked"),
        ("LOCK", "/s", &b, 200, ""),
        // As `force-unlock` asks.
        ("UNLOCK", "/s", "", 200, ""),
        ("LOCK", "/s", &a, 200, ""),
        // A program that knows nothing of locks; and what is no lock in the place of one.
        ("PUT", "/s", "4", 200, ""),
        ("PUT", "/s.lock", "any", 200, ""),
        ("LOCK", "/s", &a, 423, "another client"),
        ("POST", "/s?ID=a", "5", 423, "another client"),
        ("UNLOCK", "/s", &a, 423, "another client"),
        ("DELETE", "/s.lock", "", 200, ""),
        ("LOCK", "/s", &b, 200, ""),
    ] {
        let before = server.dir.values();
        let (found, text) = send(&server, method, target, body);
        let row = format!("{method} {target} {body}: {found} {text}");
        assert_eq!(found, status, "{row}");
        assert!(
            text.contains(said) && (status != 423 || text.len() >= said.len()),
            "{row}"
        );
        assert!(said != a || text == a, "{row}");
        let is_changed = server.dir.values() != before;
        assert_eq!(is_changed, status == 200, "{row}");
    }
    assert_eq!(server.dir.read("s"), b"4");
    assert_eq!(server.dir.read("s.lock"), b.as_bytes());
    let held = server.request("LOCK", "/s", JSON, a.as_bytes());
    assert_eq!(held.must("content-type"), "application/json");
    for (lines, status) in [
        ("", 405),
        ("Content-Type: application/xml\r\n", 405),
        (
            "Content-Type: application/json\r\nContent-MD5: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
            400,
        ),
    ] {
        let found = server.request("LOCK", "/other", lines, a.as_bytes());
        assert_eq!(found.status, status, "{lines}");
    }
    server.dir.assert_nothing_staged();
}

#[test]
fn one_of_several_that_lock_at_once_has_the_lock() {
    directory_only!("locks of states");
    let server = TestServer::start(&[]);
    for round in 0..10 {
        let target = format!("/{round}");
        let ask = |n: usize| send(&server, "LOCK", &target, &lock(&n.to_string()));
        let answers: Vec<_> = thread::scope(|scope| {
            let asking: Vec<_> = (0..4).map(|n| scope.spawn(move || ask(n))).collect();
            asking
                .into_iter()
                .map(|it| it.join().expect("an answer"))
                .collect()
        });
        let won: Vec<_> = (0..4).filter(|&n| answers[n].0 == 200).collect();
        let [winner] = won[..] else {
            panic!("{answers:?}")
        };
        let text = lock(&winner.to_string());
        let others = answers.iter().filter(|(status, _)| *status != 200);
        assert!(
            others.clone().all(|it| *it == (423, text.clone())),
            "{answers:?}"
        );
        assert_eq!(server.dir.read(format!("{round}.lock")), text.as_bytes());
    }
}

#[test]
fn a_lock_outlives_the_server() {
    directory_only!("locks of states");
    let mut server = TestServer::start(&["--durability", "disk"]);
    let a = lock("a");
    assert_eq!(send(&server, "LOCK", "/s", &a).0, 200);
    server.kill();
    let server = Launch::new(&["--durability", "disk"])
        .on(&server.dir)
        .start();
    assert_eq!(send(&server, "LOCK", "/s", &lock("b")), (423, a.clone()));
    assert_eq!(send(&server, "POST", "/s?ID=a", "1").0, 200);
    assert_eq!(send(&server, "UNLOCK", "/s", &a).0, 200);
    server.dir.assert_holds(&["s"]);
}

#[test]
fn an_update_is_refused_whose_lock_goes_while_it_arrives() {
    directory_only!("locks of states");
    let server = TestServer::start(&[]);
    server.dir.place("s", "old");
    let value = pattern(1, 300_000);
    assert_eq!(send(&server, "LOCK", "/s", &lock("a")).0, 200);
    let lines = format!("{JSON}Content-Length: {}\r\n", value.len());
    let mut raw = server.begin("POST", "/s?ID=a", &lines);
    raw.send(&value[..value.len() / 2]);
    eventually("it is under way", || server.receiving() == 1);
    assert_eq!(send(&server, "UNLOCK", "/s", "").0, 200);
    assert_eq!(send(&server, "LOCK", "/s", &lock("b")).0, 200);
    raw.send(&value[value.len() / 2..]);
    let answer = raw.answer();
    assert_eq!((answer.status, answer.text()), (423, lock("b")));
    assert_eq!(server.dir.read("s"), b"old");
    server.dir.assert_nothing_staged();
}
