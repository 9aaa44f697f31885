//! curl: a directory with one connection, downloads that go on, and answers to what has not changed.

use crate::client::Client;

#[test]
fn the_lines_for_curl_run() {
    let Some(mut client) = Client::of("curl") else {
        return;
    };
    client.play();
    let dir = &client.server().dir;
    dir.assert_holds(&["data/numbers.txt", "site/css/style.css", "site/index.html"]);
}
