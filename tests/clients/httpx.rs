//! httpx, a library of Python: uploads, downloads, conditions, and transfers that are cut off.

use crate::client::Client;

#[test]
fn the_lines_for_httpx_run() {
    let Some(mut client) = Client::of("httpx") else {
        return;
    };
    client.play();
    client.hold("python3", "with_httpx.py");
}
