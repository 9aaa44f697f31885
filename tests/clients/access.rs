//! Programs that send a token or a password.

use crate::client::Client;

#[test]
fn the_lines_for_tokens_and_passwords_run() {
    let Some(mut client) = Client::of("Tokens and passwords") else {
        return;
    };
    client.play();
}
