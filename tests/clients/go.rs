//! `net/http` of Go: uploads, downloads, conditions, and transfers that are cut off.

use crate::client::Client;

#[test]
fn the_lines_for_go_run() {
    let Some(mut client) = Client::of("Go") else {
        return;
    };
    client.play();
    client.hold("go run", "with_net_http.go");
}
