//! w3m: a listing without script.

use crate::client::Client;

#[test]
fn the_lines_for_w3m_run() {
    let Some(mut client) = Client::of("w3m") else {
        return;
    };
    client.play();
    client.server().dir.assert_nothing_staged();
}
