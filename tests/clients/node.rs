//! `fetch` of Node: uploads, downloads, conditions, and transfers that are cut off.

use crate::client::Client;

#[test]
fn the_lines_for_node_run() {
    let Some(mut client) = Client::of("Node") else {
        return;
    };
    client.play();
    client.hold("node", "with_fetch.mjs");
}
