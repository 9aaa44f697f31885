//! Bazel: a remote cache that has the outputs after everything local is gone.

use crate::client::Client;

#[test]
fn the_lines_for_bazel_run() {
    let Some(mut client) = Client::of("Bazel") else {
        return;
    };
    // No server of its own that outlives the test.
    client.place(".bazelrc", "startup --batch\n");
    client.play();
    client.server().dir.assert_nothing_staged();
}
