//! apt: a repository of a pool and an index.

use crate::client::Client;

#[test]
fn the_lines_for_apt_run() {
    let Some(mut client) = Client::of("apt") else {
        return;
    };
    client.play();
    let keys = ["debian/Packages.gz", "debian/pool/greeting_1.0_all.deb"];
    client.server().dir.assert_holds(&keys);
}
