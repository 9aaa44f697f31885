//! requests, a library of Python: uploads, downloads, conditions, and transfers that are cut off.

use crate::client::Client;

#[test]
fn the_lines_for_requests_run() {
    let Some(mut client) = Client::of("requests") else {
        return;
    };
    client.play();
    client.hold("python3", "with_requests.py");
}
