//! pip: wheels from a page of links.

use crate::client::Client;

#[test]
fn the_lines_for_pip_run() {
    let Some(mut client) = Client::of("pip") else {
        return;
    };
    client.play();
    client.server().dir.assert_nothing_staged();
}
