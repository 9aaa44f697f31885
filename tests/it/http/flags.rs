//! Proves the modes beside `--compat`: `--discard` reads every body and stores none, `--read-only` refuses writes.

use crate::support::prelude::*;

#[test]
fn discard_answers_as_usual_and_stores_nothing() {
    for args in taken(&[&["--discard"], &["--discard", "--compat"]]) {
        let server = TestServer::start(args);
        server.dir.place("here", "old");
        for key in ["new", "here"] {
            assert_eq!(server.put(key, "value").status, 200, "{args:?}: PUT /{key}");
        }
        assert_eq!(server.put("%2e%2e", "value").status, 400, "{args:?}");
        assert_eq!(server.get("new").status, 404, "{args:?}");
        assert_eq!(server.get("here").body, b"old", "{args:?}");
        assert_eq!(server.ask("DELETE", "here").status, 200, "{args:?}");
        server.dir.assert_holds(&[]);
    }
}

#[test]
fn discard_reads_the_whole_body_before_it_answers() {
    let server = TestServer::start(&["--discard"]);
    let mut connection = server.connect();
    let body = vec![b'x'; 3_000_000];
    for _ in 0..3 {
        connection.send(put_head("k", body.len()));
        connection.send(&body[1..]);
        let unanswered = connection.silent_for(Duration::from_millis(100));
        unanswered.expect("no answer before the last byte");
        connection.send(b"x");
        assert_eq!(connection.answer().status, 200);
    }
    server.dir.assert_holds(&[]);
}

#[test]
fn read_only_refuses_every_write_and_serves_every_read() {
    let server = TestServer::start(&["--read-only"]);
    server.dir.place("here", "old");
    for key in ["new", "here"] {
        for value in ["value", ""] {
            let status = server.put(key, value).status;
            assert_eq!(status, 403, "PUT {value:?} to /{key}");
        }
        let status = server.ask("PUT", key).status;
        assert_eq!(status, 403, "PUT /{key} without a body");
        assert_eq!(server.ask("DELETE", key).status, 403, "DELETE /{key}");
    }
    assert_eq!(server.get("here").body, b"old");
    assert_eq!(server.ask("HEAD", "here").length(), 3);
    assert_eq!(server.get("new").status, 404);
    assert_eq!(server.get("").status, 200);
    assert_eq!(server.ask("POST", "here").status, 405);
    assert_eq!(server.dir.names(), [b"here"]);
}
