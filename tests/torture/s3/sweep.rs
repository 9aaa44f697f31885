//! What a killed server leaves of an upload in parts, and that a later server removes it.

use std::fs::FileTimes;

use super::serve;
use crate::support::prelude::*;
use crate::support::s3::VersityGw;

/// Longer than one request to a store may carry.
const LONG: usize = 6 << 30;

/// Older than the server leaves an upload that is under way.
pub(super) const OLD: Duration = Duration::from_secs(25 * 3600);

#[test]
fn parts_that_a_killed_server_left_are_removed_a_day_later() {
    let store = needed!(VersityGw::start(1));
    store.bucket.place("long", "old");
    let server = serve(&store.bucket);
    let mut raw = server.connect();
    raw.send(put_head("long", LONG));
    raw.send(pattern(1, 1 << 20));
    let comes = || store.bucket.multipart_uploads() == 1;
    eventually("the upload has begun", comes);
    drop(server);
    assert_eq!(store.bucket.multipart_uploads(), 1, "what a kill leaves");
    assert_eq!(store.bucket.read("long").as_deref(), Some(&b"old"[..]));
    age(&store.objects(), SystemTime::now() - OLD);
    let server = serve(&store.bucket);
    server.event("uploads in parts that were given up are removed");
    assert_eq!(store.bucket.multipart_uploads(), 0);
    assert_eq!(server.get("long").body, b"old");
}

/// Has all that lies below `dir` seem to be of this time.
pub(super) fn age(dir: &Path, time: SystemTime) {
    for entry in dir.read_dir().expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            age(&path, time);
        }
        let file = File::open(&path).expect("a file of the store");
        let times = FileTimes::new().set_modified(time);
        file.set_times(times).expect("another time");
    }
}
