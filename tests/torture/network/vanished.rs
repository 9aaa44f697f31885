//! A subscriber whose machine has gone without a word, in a network namespace that loses all packets from then on.

use std::env;

use super::lossy::{LOSS, again_where_packets_are_lost};
use crate::prelude::*;

/// It stayed until TCP gave up by itself, after a quarter of an hour: what the server sent it was taken for a sign of
/// life.
#[test]
fn a_subscriber_whose_machine_has_gone_is_found_out() {
    if env::var_os(LOSS).is_some() {
        return all_are_found_out();
    }
    let name = "network::vanished::a_subscriber_whose_machine_has_gone_is_found_out";
    again_where_packets_are_lost(name, &[0]);
}

fn all_are_found_out() {
    let server = Launch::new(&["--threads", "1", "--http2-clear"]).start();
    let events = Events::open(&server, "", "");
    let socket = Socket::open(&server, "");
    let mut client = Http2::connect(server.addr);
    let watch = client.ask("GET", "http://t/-/watch", &[], true);
    let mut watch = watch.expect("a request");
    assert_eq!(watch.head().expect("a head").status, 200);
    assert_eq!(server.connections(), 3);
    run("nft", &words("add rule ip lossy in drop")).expect("all packets are lost");
    let since = Instant::now();
    eventually("they are found out", || server.connections() == 0);
    let within = format!("found out within {} s", since.elapsed().as_secs());
    counted!("subscribers that are gone: 3 ways to watch, {within}");
    drop((events, socket, watch, client));
}
