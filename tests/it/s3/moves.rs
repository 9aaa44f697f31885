//! MOVE and COPY of values in a store: what is copied through this server and what by the store, and what each refuses.

use super::{each, reason, send, serve};
use crate::support::prelude::*;
use crate::support::s3::{Fault, Stub};

/// Asks for a MOVE or COPY of `/from` to `/to`.
fn relocate(server: &TestServer, method: &str, lines: &str) -> Response {
    send(
        server,
        method,
        "from",
        &format!("Destination: /to\r\n{lines}"),
        b"",
    )
}

#[test]
fn values_move_and_are_copied_with_their_attributes() {
    for length in [0, 5, 64 << 10, 100_000, 6_000_000] {
        each(&format!("moves-{length}"), |server, _| {
            let value = pattern(1, length);
            let lines = "Content-Type: text/x-own\r\nContent-Language: eo\r\n";
            server.store_as("from", lines, &value);
            let tag = server.get("from").must("etag").to_owned();
            let copied = relocate(server, "COPY", &format!("If-Match: {tag}\r\n"));
            assert_eq!(copied.status, 201, "{copied:?}");
            assert_eq!(relocate(server, "COPY", "").status, 204);
            let is = || {
                let found = server.get("to");
                assert!(found.body == value, "{} bytes", found.body.len());
                assert_eq!(found.must("content-type"), "text/x-own");
                assert_eq!(found.must("content-language"), "eo");
                found.must("etag").to_owned()
            };
            assert_eq!(is(), copied.must("etag"));
            assert_eq!(server.get("from").status, 200);
            let moved = relocate(server, "MOVE", "");
            if moved.status == 501 {
                assert_eq!(reason(&moved), "no-conditional-delete");
            } else {
                assert_eq!(moved.status, 204, "{moved:?}");
                assert_eq!(is(), moved.must("etag"));
                assert_eq!(server.get("from").status, 404);
                assert_eq!(relocate(server, "MOVE", "").status, 404);
            }
        });
    }
}

#[test]
fn a_condition_on_the_destination_is_kept_or_refused() {
    for (length, refused) in [(5, 412), (100_000, 501)] {
        each(&format!("conditional-{length}"), |server, _| {
            server.store("from", pattern(1, length));
            server.store("to", "old");
            for method in ["COPY", "MOVE"] {
                let kept = relocate(server, method, "Overwrite: F\r\n");
                let moves_nothing = method == "MOVE" && reason(&kept) == "no-conditional-delete";
                assert_eq!(kept.status, if moves_nothing { 501 } else { refused });
                let wrong = relocate(server, method, "If-Match: \"x\"\r\n");
                assert_eq!(wrong.status, 412);
            }
            assert_eq!(server.get("to").body, b"old");
            assert_eq!(server.get("from").status, 200);
        });
    }
}

/// A store that fails between the copy and the removal has both, and the client is not told that the value has moved.
#[test]
fn a_move_that_fails_loses_nothing() {
    let stub = Stub::start();
    let server = serve(&stub.bucket, &["--s3-timeout", "1s"]);
    for length in [5, 100_000] {
        server.store("from", pattern(1, length));
        stub.fail("DELETE", "from", Fault::LoseUndone, 1);
        let moved = relocate(&server, "MOVE", "");
        assert!(moved.status >= 500, "{moved:?}");
        for key in ["from", "to"] {
            assert!(server.get(key).body == pattern(1, length), "{key}");
        }
        // An answer that is lost is found again by what the object has.
        stub.fail("PUT", "to", Fault::LoseDone, 1);
        assert!(relocate(&server, "COPY", "").status < 300);
    }
}

/// After the copy no answer says that nothing was done, whatever the preconditions would say by now.
#[test]
fn a_move_that_is_overtaken_after_its_copy_says_so() {
    let stub = Stub::start();
    let mut server = serve(&stub.bucket, &["--audit-log"]);
    server.store("from", "v");
    let overtaken = Fault::Refuse(412, "PreconditionFailed", None);
    stub.fail("DELETE", "from", overtaken, 1);
    let tag = server.get("from").must("etag").to_owned();
    let moved = relocate(
        &server,
        "MOVE",
        &format!("Overwrite: F\r\nIf-Match: {tag}\r\n"),
    );
    assert_eq!((moved.status, &*reason(&moved)), (409, "half-moved"));
    let told = moved.json()["detail"].to_string();
    let is_right = told.contains(r#"\"to\""#) && told.contains(r#"\"from\""#);
    assert!(is_right, "{told}");
    for key in ["from", "to"] {
        assert_eq!(server.get(key).body, b"v", "{key}");
    }
    // These say of a request that nothing was done.
    for (fault, status, name) in [
        (
            Fault::Refuse(403, "AccessDenied", None),
            500,
            "store-failed",
        ),
        (Fault::Refuse(503, "SlowDown", None), 502, "outcome-unknown"),
    ] {
        stub.fail("DELETE", "from", fault, 20);
        let failed = relocate(&server, "MOVE", "");
        assert_eq!((failed.status, &*reason(&failed)), (status, name));
        stub.heal();
    }
    server.stop();
    let mut told = server.audited("method result");
    told.retain(|line| line.starts_with("MOVE"));
    assert_eq!(told, ["MOVE unknown"; 3]);
}
