//! The go command: a module of a proxy that is only files.

use crate::client::Client;

#[test]
fn the_lines_for_go_modules_run() {
    let Some(mut client) = Client::of("Go modules") else {
        return;
    };
    // Modules are read-only by default, and the home could not be removed.
    client.run("export GOFLAGS=-modcacherw");
    client.play();
    client.server().dir.assert_nothing_staged();
}
