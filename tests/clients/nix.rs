//! Nix: a binary cache with signatures.

use crate::client::Client;

#[test]
fn the_lines_for_nix_run() {
    let Some(mut client) = Client::of("Nix") else {
        return;
    };
    client.place(
        ".config/nix/nix.conf",
        "experimental-features = nix-command\nbuild-users-group =\nsubstitute = false\n",
    );
    // A store of its own, in place of /nix.
    client.run("export NIX_STORE_DIR=$HOME/nix/store NIX_STATE_DIR=$HOME/nix/var NIX_LOG_DIR=$HOME/nix/log");
    client.play();
    client.server().dir.assert_nothing_staged();
}
