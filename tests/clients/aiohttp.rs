//! aiohttp, a library of Python: uploads, downloads, conditions, and transfers that are cut off.

use crate::client::Client;

#[test]
fn the_lines_for_aiohttp_run() {
    let Some(mut client) = Client::of("aiohttp") else {
        return;
    };
    client.play();
    client.hold("python3", "with_aiohttp.py");
}
