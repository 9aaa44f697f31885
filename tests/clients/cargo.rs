//! Cargo: a sparse registry that is only files.

use crate::client::Client;

#[test]
fn the_lines_for_cargo_run() {
    let Some(mut client) = Client::of("Cargo") else {
        return;
    };
    client.play();
    client.server().dir.assert_nothing_staged();
}
