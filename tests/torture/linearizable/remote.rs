//! The same registers in an S3 store, through two servers, with a bad network between servers and store.
//!
//! On `VersityGW` each server has a gateway of its own; there, nothing is removed, because its conditional DELETE is
//! not atomic. The store in memory has an atomic one, and loses answers by order.

use super::player::{Player, Remote, Rules, Stage};
use super::register::{Asked, Event};
use super::{CLIENTS, Counts, KEYS, gather};
use crate::prelude::*;
use crate::support::relay::{Fault, Faults, GOOD, Relay};
use crate::support::s3::{self, Bucket, Stub, VersityGw};

/// The bytes of some answers.
const ANSWERS: usize = 12_000;

/// What of the requests the network breaks at least, in percent.
const FAULTS: usize = 10;

/// The store is exact about everything but removals, and answers as long as the servers live.
pub(super) const REMOTE: Remote = Remote {
    deletes: false,
    kills: false,
};

/// Plays a history through the servers at these addresses while `meanwhile` runs. Returns what all saw, by key;
/// `mistaken` counts the entity tags that were of other bytes than those that they came with.
pub(super) fn record(
    addrs: &[SocketAddr],
    remote: Remote,
    dice: &mut Random,
    mistaken: &mut usize,
    meanwhile: impl FnOnce(&Stage),
) -> Vec<Vec<Event>> {
    let stage = Stage::new(Rules::Remote(remote));
    let mut players: Vec<_> = (0..CLIENTS).map(|_| Player::new(dice.fork())).collect();
    thread::scope(|scope| {
        for (n, player) in players.iter_mut().enumerate() {
            let (stage, addr) = (&stage, addrs[n % addrs.len()]);
            scope.spawn(move || player.play(stage, &mut Client::new(addr)));
        }
        let _ending = stage.ending.when_dropped();
        meanwhile(&stage);
    });
    // The last word on each key, of every server.
    for addr in addrs {
        let mut client = Client::new(*addr);
        for key in 0..KEYS {
            players[0].round(key, Asked::Get, "", &stage, &mut client);
        }
    }
    *mistaken += stage.mistaken.into_inner();
    gather(players)
}

/// Waits for so many operations more.
pub(super) fn operations(stage: &Stage, count: usize) {
    let made = || stage.operations.load(Ordering::Relaxed);
    let (enough, deadline) = (made() + count, Instant::now() + Duration::from_secs(120));
    while made() < enough {
        let is_late = Instant::now() >= deadline;
        assert!(!is_late, "only {} of {enough} operations", made());
        thread::sleep(Duration::from_millis(1));
    }
}

pub(super) fn two_servers(buckets: [Bucket; 2]) -> [TestServer; 2] {
    buckets.map(|bucket| {
        let launch = Launch::new(&["--threads", "2", "--s3-timeout", "2s"]);
        launch.on_bucket(&bucket).start()
    })
}

pub(super) fn addrs(servers: &[TestServer; 2]) -> [SocketAddr; 2] {
    [servers[0].addr, servers[1].addr]
}

/// The network to a store: once it `is_bad`, each new connection breaks somewhere in its first bytes, in one direction.
fn breaking(endpoint: SocketAddr, mut dice: Random, is_bad: Arc<AtomicBool>) -> Relay {
    Relay::to(endpoint, move || {
        let at = 1 + dice.usize(..ANSWERS);
        let bad = [Fault::Fin, Fault::Reset][dice.usize(..2)](at);
        match (is_bad.load(Ordering::Acquire), dice.bool()) {
            (false, _) => GOOD,
            (true, false) => Faults { up: bad, ..GOOD },
            (true, true) => Faults { down: bad, ..GOOD },
        }
    })
}

#[test]
fn registers_in_a_real_store_are_linearizable_through_two_servers_and_a_bad_network() {
    let store = needed!(VersityGw::start(2));
    let mut dice = Random::with_seed(seed("linearizable-s3"));
    let began = Instant::now();
    let time = scaled(Duration::ZERO, Duration::from_secs(600));
    let (mut counts, mut connections, mut broken) = (Counts::default(), 0, 0);
    while counts.histories == 0 || began.elapsed() < time {
        let name = format!("history-{}", counts.histories);
        let bucket = store.bucket.beneath(&name);
        let is_bad = Arc::<AtomicBool>::default();
        let to = |n: usize| breaking(bucket.endpoints[n], dice.fork(), Arc::clone(&is_bad));
        let networks = [0, 1].map(to);
        let servers = two_servers([0, 1].map(|n: usize| bucket.at(&[networks[n].addr()])));
        // The store is tested over a good network.
        is_bad.store(true, Ordering::Release);
        let mistaken = &mut counts.mistaken;
        let history = record(&addrs(&servers), REMOTE, &mut dice, mistaken, |stage| {
            operations(stage, 1_500);
        });
        counts.add(history);
        for network in &networks {
            let (all, faulty) = network.counts();
            connections += all;
            broken += faulty;
        }
    }
    counted!(
        "linearizable on VersityGW: {:.0?}: {counts}; {broken} of {connections} connections broken",
        began.elapsed()
    );
    counts.assert_proves();
    let enough = counts.events.len() * FAULTS;
    assert!(broken * 100 >= enough, "too few faults");
}

#[test]
fn registers_in_a_store_that_loses_answers_are_linearizable_with_removals() {
    let mut dice = Random::with_seed(seed("linearizable-stub"));
    let mut counts = Counts::default();
    let remote = Remote {
        deletes: true,
        ..REMOTE
    };
    for _ in 0..scaled(1, 20) {
        let stub = Stub::start();
        let servers = two_servers([stub.bucket.clone(), stub.bucket.clone()]);
        for _ in 0..200 {
            let method = ["PUT", "PUT", "GET", "HEAD", "DELETE"][dice.usize(..5)];
            let fault = match dice.u64(..5) {
                0 => s3::Fault::LoseDone,
                1 => s3::Fault::LoseUndone,
                2 => s3::Fault::FailDone(500),
                3 => s3::Fault::Refuse(503, "SlowDown", Some(0)),
                _ => s3::Fault::Refuse(409, "ConditionalRequestConflict", Some(0)),
            };
            stub.fail_now_and_then(method, fault, 3 + dice.usize(..30));
        }
        let mistaken = &mut counts.mistaken;
        let history = record(&addrs(&servers), remote, &mut dice, mistaken, |stage| {
            operations(stage, scaled(1_500, 10_000));
        });
        assert_eq!(counts.mistaken, 0, "entity tags of other bytes");
        counts.add(history);
    }
    counted!("linearizable on a store that loses answers: {counts}");
    counts.assert_proves();
}
