//! Listings: the objects below the prefix, in byte order, in pages, and by folder.

use serde_json::Value;

use super::{each, reason, send, serve_plainly};
use crate::support::prelude::*;
use crate::support::s3::{Fault, Stub};

/// Without a token, what follows the second page of the store would be missing in silence.
#[test]
fn a_list_that_does_not_say_where_it_goes_on_is_an_error() {
    let stub = Stub::lying(lies!(forgets_token));
    stub.bucket.place("many/0000", "");
    stub.copy("many/0000", (1..2100).map(|n| format!("many/{n:04}")));
    let server = serve_plainly(&stub.bucket, &["--read-only"]);
    let list = |query: &str| send(&server, "GET", query, "Accept: application/json\r\n", b"");
    let cut = list("?prefix=many/&delimiter=/&limit=10000");
    assert_eq!((cut.status, &*reason(&cut)), (502, "store-failed"));
    let all: Vec<_> = (0..2100).map(|n| format!("many/{n:04}")).collect();
    assert_eq!(keys(&list("?prefix=many/&limit=10000").json()), all);
    let page = list("?prefix=many/&limit=2000").json();
    let found = (keys(&page).len(), page["next"].as_str());
    assert_eq!(found, (2000, Some("many/1999")));
    // A page for people that is answered in place of a list has no items either.
    let page = Fault::Answer("<html><body>It works!</body></html>");
    stub.fail("GET", "", page, 1);
    let other = list("?prefix=many/");
    assert_eq!((other.status, &*reason(&other)), (502, "store-failed"));
}

#[track_caller]
fn list(server: &TestServer, query: &str) -> Value {
    let page = send(server, "GET", query, "Accept: application/json\r\n", b"");
    page.says(200, "");
    page.json()
}

fn keys(page: &Value) -> Vec<&str> {
    let keys = page["keys"].as_array().expect("keys").iter();
    let keys = keys.map(|key| key["key"].as_str().expect("a key"));
    keys.collect()
}

#[test]
fn keys_come_in_byte_order_without_those_beside_them() {
    each("listed", |server, bucket| {
        let all = "A|a b|a&<\u{e9}>|dir/one|dir/sub/two|dir2|z\u{1f600}";
        let all: Vec<&str> = all.split('|').collect();
        for key in &all {
            bucket.place(key, key);
        }
        // What is beside the prefix is none of its keys.
        bucket.beneath("elsewhere").place("other", "");
        bucket.place(".data-server-check-left", "");
        let page = list(server, "");
        assert_eq!(keys(&page), all);
        let first = &page["keys"][0];
        let got = (first["size"].as_u64(), first["etag"].as_str());
        assert_eq!(got, (Some(1), Some(server.get("A").must("etag"))));
    });
}
