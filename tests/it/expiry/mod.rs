//! Proves that a value with an end is absent from then on to every request, that its file goes soon after, and that no
//! value is lost by that. Most ends are set by hand in the attribute of a file, so that nothing waits for them.

use rustix::fs::{XattrFlags, setxattr};

use crate::support::prelude::*;

mod answered;
mod hidden;
mod in_the_way;
mod removed;

/// The file that tells that values may have an end.
const NOTE: &str = "expiring";

/// The second since 1970.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.expect("a time after 1970").as_secs()
}

/// Stores a value with an end that is far.
fn put(server: &TestServer, key: &str, value: &[u8]) {
    server.store_as(key, "X-Delete-After: 1000\r\n", value);
}

/// Has the value of this key end in 1970.
fn end(dir: &DataDir, key: &str) {
    let ended = setxattr(
        dir.file(key),
        "user.data-server.fields",
        b"x-delete-at: 1\n",
        XattrFlags::empty(),
    );
    ended.expect("an end");
}

/// The number that the server has removed because they had ended.
fn removed(server: &TestServer) -> u64 {
    Scrape::of(server.addr).count("data_server_removed_total", &[("reason", "expired")])
}
