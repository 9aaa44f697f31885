//! Registers in an S3 store, through two servers that are killed under load, again and again, and over two gateways of which
//! one is killed, too.

use super::player::{Remote, Stage};
use super::remote::{Counts, REMOTE, operations, record};
use crate::phoenix::Phoenix;
use crate::random::{Random, seed};
use crate::scale::{counted, scaled};
use crate::support::prelude::*;
use crate::support::s3::VersityGw;

/// Operations before each kill, and while what was killed is away.
const BETWEEN: usize = 150;

/// Kills each server so often, and in the end a gateway.
fn kill(stage: &Stage, store: &mut VersityGw, servers: &mut [Phoenix; 2], dice: &mut Random) {
    for turn in 0..2 * scaled(1, 3) {
        operations(stage, BETWEEN + dice.place(BETWEEN));
        let server = &mut servers[turn % 2];
        server.kill();
        // The other server goes on.
        operations(stage, dice.place(BETWEEN));
        server.rise();
    }
    operations(stage, BETWEEN);
    let gateway = dice.place(2);
    store.kill(gateway);
    operations(stage, BETWEEN);
    // One that has been killed starts while a gateway is away.
    servers[gateway].kill();
    servers[gateway].rise();
    store.restart(gateway);
    operations(stage, BETWEEN);
}

#[test]
fn registers_in_a_real_store_outlive_kills_of_servers_and_of_a_gateway() {
    let mut store = needed!(VersityGw::start(2));
    let mut dice = Random::new(seed("linearizable-kills"));
    let (mut counts, mut kills) = (Counts::default(), 0);
    let remote = Remote {
        kills: true,
        ..REMOTE
    };
    for history in 0..scaled(1, 20) {
        let bucket = store.bucket.beneath(&format!("kills-{history}"));
        let [first, second] = [bucket.endpoints[0], bucket.endpoints[1]];
        let mut servers =
            [[first, second], [second, first]].map(|gateways| Phoenix::new(bucket.at(&gateways)));
        let addrs = [servers[0].addr(), servers[1].addr()];
        let mut chance = dice.fork();
        counts.add(record(&addrs, remote, &mut dice, |stage| {
            kill(stage, &mut store, &mut servers, &mut chance);
        }));
        kills += 2 * scaled(1, 3) + 1;
        assert_eq!(store.bucket.multipart_uploads(), 0);
    }
    counted!(
        "linearizable on VersityGW under kills",
        "{kills} kills of servers, {} of gateways: {counts}",
        counts.histories
    );
    counts.assert_proves();
}
