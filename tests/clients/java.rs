//! `HttpClient` of Java: uploads, downloads, conditions, and transfers that are cut off.

use crate::client::Client;

#[test]
fn the_lines_for_java_run() {
    let Some(mut client) = Client::of("Java") else {
        return;
    };
    client.play();
    client.hold("java", "WithHttpClient.java");
}
