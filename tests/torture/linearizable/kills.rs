//! Registers in an S3 store, through two servers that are killed under load, again and again, and over two gateways of
//! which one is killed, too.

use super::Counts;
use super::player::{Remote, Stage};
use super::remote::{REMOTE, operations, record};
use crate::prelude::*;
use crate::support::s3::{Bucket, VersityGw};

/// Operations before each kill, and while what was killed is away.
const BETWEEN: usize = 150;

/// A server that is killed, and started again on the same socket, as with a service manager: a request to one that was
/// killed is cut off, and the next one waits for the next server.
struct Phoenix {
    socket: TcpListener,
    bucket: Bucket,
    server: TestServer,
}

impl Phoenix {
    fn new(bucket: Bucket) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
        Self {
            server: Self::start(&socket, &bucket),
            socket,
            bucket,
        }
    }

    fn start(socket: &TcpListener, bucket: &Bucket) -> TestServer {
        let launch = Launch::new(&["--threads", "2", "--s3-timeout", "2s"]);
        launch.on_bucket(bucket).passing(socket).start()
    }

    fn rise(&mut self) {
        self.server = Self::start(&self.socket, &self.bucket);
    }
}

/// Kills each server so often, and in the end a gateway.
fn kill(stage: &Stage, store: &mut VersityGw, servers: &mut [Phoenix; 2], dice: &mut Random) {
    for turn in 0..2 * scaled(1, 3) {
        operations(stage, BETWEEN + dice.usize(..BETWEEN));
        let server = &mut servers[turn % 2];
        server.server.kill();
        // The other server goes on.
        operations(stage, dice.usize(..BETWEEN));
        server.rise();
    }
    operations(stage, BETWEEN);
    let gateway = dice.usize(..2);
    store.kill(gateway);
    operations(stage, BETWEEN);
    // One that has been killed starts while a gateway is away.
    servers[gateway].server.kill();
    servers[gateway].rise();
    store.restart(gateway);
    operations(stage, BETWEEN);
}

#[test]
fn registers_in_a_real_store_outlive_kills_of_servers_and_of_a_gateway() {
    let mut store = needed!(VersityGw::start(2));
    let mut dice = Random::with_seed(seed("linearizable-kills"));
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
        let addrs = [servers[0].server.addr, servers[1].server.addr];
        let mut chance = dice.fork();
        let mistaken = &mut counts.mistaken;
        let history = record(&addrs, remote, &mut dice, mistaken, |stage| {
            kill(stage, &mut store, &mut servers, &mut chance);
        });
        counts.add(history);
        kills += 2 * scaled(1, 3) + 1;
        assert_eq!(store.bucket.multipart_uploads(), 0);
    }
    counted!(
        "linearizable on VersityGW under kills: {kills} kills of servers, {} of gateways: {counts}",
        counts.histories
    );
    counts.assert_proves();
}
