//! nginx in front: transfers of all kinds, whole and cut off.

use crate::client::Client;

#[test]
fn the_lines_for_nginx_run() {
    let Some(mut client) = Client::of("nginx") else {
        return;
    };
    client.play();
    client.through_front();
}
