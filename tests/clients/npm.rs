//! npm: a package by the address of its archive.

use crate::client::Client;

#[test]
fn the_lines_for_npm_run() {
    let Some(mut client) = Client::of("npm") else {
        return;
    };
    client.play();
    client.server().dir.assert_nothing_staged();
}
