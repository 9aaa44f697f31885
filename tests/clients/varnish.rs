//! Varnish in front: transfers of all kinds, whole and cut off. That it shows no old value is tested in
//! `tests/it/regressions`.

use crate::client::Client;

#[test]
fn the_lines_for_varnish_run() {
    let Some(mut client) = Client::of("Varnish") else {
        return;
    };
    client.play();
    client.through_front();
}
