//! The store is tested at the start, not believed: what it does wrong is found, and said in one line.

use crate::support::prelude::*;
use crate::support::s3::{Bucket, Fault, Lies, Stub, VersityGw};

/// A server that tests the store in full.
fn launch(bucket: &Bucket, args: &[&str]) -> Launch {
    let in_full = Launch::new(args).env("DATA_SERVER_TRIAL", "");
    in_full.on_bucket(bucket)
}

/// The one line of a server that does not start.
#[track_caller]
fn refused(lies: Lies, args: &[&str]) -> String {
    let stub = Stub::lying(lies);
    let ended = launch(&stub.bucket, args).run();
    ended.says(1, "the store");
    let said = ended.stderr.lines();
    let said: Vec<&str> = said.filter(|line| line.contains("the store")).collect();
    assert_eq!(said.len(), 1, "{}", ended.stderr);
    assert_eq!(stub.bucket.objects(), [], "the check leaves nothing");
    said[0].to_owned()
}

#[test]
fn a_store_that_ignores_conditions_is_refused_with_what_it_does() {
    let creates = "PUT with If-None-Match: * over a value is made all the same";
    let swaps = "PUT with If-Match of another version is made all the same";
    let races = "8 of 8 creations of one object at once are made, in round 1";
    for (lies, reason) in [
        (lies!(ignores_create), creates),
        (lies!(ignores_swap), swaps),
        (lies!(races), races),
    ] {
        let line = refused(lies, &[]);
        assert!(line.contains(reason), "{line}");
        let is_right = line.contains("--s3-conditions off serves it without them");
        assert!(is_right, "{line}");
    }
}

/// Without conditions, too.
#[test]
fn a_store_that_keeps_cut_uploads_or_lists_in_another_order_is_refused_in_any_case() {
    let kept = "the beginning of an upload that broke off is stored";
    let words = "cannot use the store: a list has \"a\" where \"Z\" is next by its bytes";
    let anew =
        "cannot use the store: a list after \"b\" has \"10\" where \"b-c\" is next by its bytes";
    let cut = "cannot use the store: the store failed: a list is cut off and does not say where it goes on";
    for (lies, reason) in [
        (lies!(keeps_cuts), kept),
        (lies!(lists_words), words),
        (lies!(forgets_absent), anew),
        (lies!(forgets_token), cut),
    ] {
        for args in [&[][..], &["--s3-conditions", "off"]] {
            let line = refused(lies, args);
            assert!(line.contains(reason), "{line}");
        }
    }
}

#[test]
fn without_conditions_such_a_store_is_served_and_ignores_none() {
    let stub = Stub::lying(lies!(ignores_create, ignores_swap, ignores_delete, races));
    let server = launch(&stub.bucket, &["--s3-conditions", "off"]).start();
    server.store("key", "old");
    let unmodified = "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    for (method, lines) in [
        ("PUT", "If-None-Match: *\r\n"),
        ("PUT", "If-Match: \"x\"\r\n"),
        ("PUT", "If-Match: *\r\n"),
        ("PUT", "If-None-Match: \"x\"\r\n"),
        ("PUT", unmodified),
        ("DELETE", "If-Match: \"x\"\r\n"),
    ] {
        let answer = server.request(method, "/key", lines, b"new");
        assert_eq!(answer.status, 501, "{method} {lines}");
    }
    assert_eq!(server.get("key").body, b"old");
    assert_eq!(stub.bucket.read("key").as_deref(), Some(&b"old"[..]));
}

#[test]
fn a_removal_under_a_condition_is_offered_where_the_store_has_it() {
    let lies = [lies!(ignores_delete), lies!(races_delete), Lies::default()];
    for (lies, expected) in lies.into_iter().zip([501, 501, 412]) {
        let stub = Stub::lying(lies);
        let server = launch(&stub.bucket, &[]).start();
        server.store("key", "value");
        let mut raw = server.connect();
        let stale = ask(&mut raw, "DELETE", "/key", "If-Match: \"stale\"\r\n", b"");
        assert_eq!(stale.status, expected, "{lies:?}");
        assert_eq!(server.get("key").body, b"value");
        if expected == 412 {
            let same = format!("If-Match: {}\r\n", server.get("key").must("etag"));
            assert_eq!(ask(&mut raw, "DELETE", "/key", &same, b"").status, 200);
            assert_eq!(server.get("key").status, 404);
        }
    }
}

#[test]
fn a_store_that_takes_wrong_checksums_is_served_with_a_warning() {
    let stub = Stub::lying(lies!(ignores_trailers));
    let server = launch(&stub.bucket, &[]).start();
    server.event("the store does not check what it receives: it is acknowledged");
}

#[test]
fn a_real_store_passes_but_for_removals_and_nothing_is_left_in_it() {
    let store = needed!(VersityGw::start(2));
    let server = launch(&store.bucket, &[]).start();
    let tested = server.event("the store was tested");
    assert_eq!(tested.field("conditional_put"), "true");
    assert_eq!(tested.field("conditional_delete"), "false");
    assert_eq!(store.bucket.objects(), []);
    assert_eq!(store.bucket.multipart_uploads(), 0);
}

#[test]
fn a_store_that_is_only_read_is_not_written() {
    let stub = Stub::lying(lies!(ignores_create));
    let server = launch(&stub.bucket, &["--read-only"]).start();
    assert_eq!(server.get("key").status, 404);
    let asked = stub.asked();
    let mut methods = asked.iter().map(|asked| asked.method.as_str());
    assert!(methods.all(|method| ["HEAD", "GET"].contains(&method)));
}

#[test]
fn a_store_that_is_busy_during_the_check_is_served() {
    let stub = Stub::start();
    for _ in 0..100 {
        stub.fail_now_and_then("PUT", Fault::Refuse(503, "SlowDown", Some(0)), 1);
    }
    let server = launch(&stub.bucket, &[]).start();
    let tested = server.event("the store was tested");
    assert_eq!(tested.field("conditional_put"), "true");
}
