//! Resumable uploads to an S3 store by two servers over two gateways, while the network to those breaks and the servers are
//! killed by turns: no offset that was answered is taken back, each value that was acknowledged is whole, no other is there,
//! and a day later nothing that an upload kept or received is left.
//!
//! `DATA_SERVER_TORTURE_SEED=N tests/run --test torture s3::uploads` draws the same uploads and faults again.

mod client;

use std::fmt;
use std::fs::FileTimes;

use self::client::{Counts, End, State, Uploader, Value};
use crate::breaking::BreakingNetwork;
use crate::phoenix::Phoenix;
use crate::random::{Random, seed};
use crate::scale::{counted, scaled};
use crate::support::prelude::*;
use crate::support::s3::{Bucket, Stub, VersityGw};

const CLIENTS: usize = 6;

/// Uploads that end between two kills.
const BETWEEN: usize = 8;

/// In how many bytes a connection breaks: in its first requests, in a part, or after some.
const BREAKS: &[usize] = &[12_000, 12_000, 1 << 20, 20 << 20];

/// Longer than an upload is kept to which nothing is done.
const OLD: Duration = Duration::from_secs(25 * 3600);

/// Longer than any few uploads take.
const LONG: Duration = Duration::from_secs(180);

/// What the clients share.
#[derive(Default)]
struct Stage {
    over: Done,
    ended: AtomicUsize,
    values: Mutex<Vec<Value>>,
    faults: Mutex<Vec<String>>,
}

impl Stage {
    /// Uploads one value after the other.
    fn play(&self, name: usize, uploader: &mut Uploader) {
        for n in 0.. {
            if self.over.is_said() {
                return;
            }
            let (mut value, end) = uploader.draw(format!("v-{name}-{n}"));
            if let Err(fault) = uploader.upload(&mut value, end) {
                let fault = format!("{}: {fault}", value.key);
                self.faults.lock().expect("no panic").push(fault);
            }
            self.values.lock().expect("no panic").push(value);
            self.ended.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Waits for so many uploads more.
    fn uploads(&self, count: usize) {
        let enough = self.ended.load(Ordering::Acquire) + count;
        let comes = within(LONG, || self.ended.load(Ordering::Acquire) >= enough);
        assert!(comes, "too few uploads in {LONG:?}");
    }

    /// Kills each of `servers` so often.
    fn kill(&self, servers: &mut [Phoenix; 2], networks: &[BreakingNetwork; 2], kills: usize) {
        let _ending = self.over.when_dropped();
        for turn in 0..kills {
            self.uploads(BETWEEN);
            let (server, network) = (&mut servers[turn % 2], &networks[turn % 2]);
            server.kill();
            // Who comes to this server waits for the next; that one tests the store, over a good network.
            network.become_good();
            server.rise();
            network.become_bad();
        }
        self.uploads(BETWEEN);
        // Those under way come to their end.
        networks.iter().for_each(BreakingNetwork::become_good);
    }

    /// All that is wrong, with what is in the store.
    fn judge(self, bucket: &Bucket) -> Vec<String> {
        let mut faults = self.faults.into_inner().expect("no panic");
        for value in self.values.into_inner().expect("no panic") {
            let read = bucket.read(&value.key);
            faults.extend(value.judge(read.as_deref()).err());
        }
        faults
    }
}

/// What all clients counted.
struct All(Vec<Counts>);

impl All {
    fn sum(&self, of: impl Fn(&Counts) -> usize) -> usize {
        self.0.iter().map(of).sum()
    }
}

impl fmt::Display for All {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |of: fn(&Counts) -> usize| self.sum(of);
        write!(
            f,
            "{} uploads acknowledged ({} read back at once), {} abandoned, {} cancelled; {} parts, of {} the outcome had to \
             be asked for",
            sum(|c| c.acknowledged),
            sum(|c| c.read_back),
            sum(|c| c.abandoned),
            sum(|c| c.cancelled),
            sum(|c| c.parts),
            sum(|c| c.unknown),
        )
    }
}

/// What servers keep of uploads in the bucket: objects, and uploads in parts that have parts.
fn kept(bucket: &Bucket) -> (usize, usize) {
    let objects = bucket.objects().into_iter();
    let objects = objects.filter(|object| object.key.starts_with(".data-server/"));
    (objects.count(), bucket.uploads_with_parts())
}

/// Has all that lies below `dir` seem to be of this time.
fn age(dir: &Path, time: SystemTime) {
    for entry in dir.read_dir().expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            age(&path, time);
        }
        let file = File::open(&path).expect("a file of the store");
        let times = FileTimes::new().set_modified(time);
        file.set_times(times).expect("another time");
    }
}

#[test]
fn uploads_outlive_kills_of_servers_and_a_network_that_breaks() {
    let store = needed!(VersityGw::start(2));
    let (kills, bucket) = (scaled(2, 100), &store.bucket);
    let mut dice = Random::new(seed("s3-uploads"));
    let mut to = |n: usize| BreakingNetwork::to(bucket.endpoints[n], dice.fork(), BREAKS);
    let networks = [to(0), to(1)];
    let mut servers = [0, 1].map(|n: usize| Phoenix::new(bucket.at(&[networks[n].relay.addr])));
    networks.iter().for_each(BreakingNetwork::become_bad);
    let addrs: Vec<SocketAddr> = servers.iter().map(Phoenix::addr).collect();
    let stage = Stage::default();
    let mut uploaders = [(); CLIENTS].map(|()| Uploader::new(&addrs, dice.fork()));
    thread::scope(|scope| {
        for (name, uploader) in uploaders.iter_mut().enumerate() {
            let stage = &stage;
            scope.spawn(move || stage.play(name, uploader));
        }
        stage.kill(&mut servers, &networks, kills);
    });
    servers.iter_mut().for_each(Phoenix::kill);
    let left = kept(bucket);
    age(&store.objects(), SystemTime::now() - OLD);
    let _server = Launch::new(&[]).on_bucket(bucket).start();
    eventually("nothing is left of the uploads", || kept(bucket) == (0, 0));
    let (broken, connections) = networks.iter().fold((0, 0), |sum, network| {
        let (all, broken) = network.relay.counts();
        (sum.0 + broken, sum.1 + all)
    });
    let all = All(uploaders.map(|uploader| uploader.counts).into());
    let faults = stage.judge(bucket);
    assert!(faults.is_empty(), "{all}: {faults:#?}");
    counted!(
        "s3 uploads",
        "{kills} kills of servers, {broken} of {connections} connections broken: {all}; none torn, none lost, no answered \
             offset taken back; of {} objects and {} uploads in parts none is left a day later",
        left.0,
        left.1
    );
    assert!(all.sum(|c| c.acknowledged) > 4 * kills, "too few: {all}");
    assert!(all.sum(|c| c.unknown) > kills && left.0 > 0, "{all}");
}

#[test]
fn a_planted_loss_is_found() {
    let stub = Stub::start();
    let server = Launch::new(&[]).on_bucket(&stub.bucket).start();
    let mut uploader = Uploader::new(&[server.addr], Random::new(7));
    let mut value = Value::new("k".to_owned(), 1, 300_000);
    uploader
        .upload(&mut value, End::Published)
        .expect("no fault");
    let whole = stub.bucket.read("k").expect("a value");
    assert_eq!(value.judge(Some(&whole)), Ok(()));
    value.judge(None).expect_err("it is lost");
    value.judge(Some(&whole[1..])).expect_err("it is torn");
    let never = Value::new("k".to_owned(), 1, 300_000);
    never.judge(Some(&whole)).expect_err("it was never whole");
    assert_eq!(State::At(2).after(2..=5, 9), Ok(Some(2)));
    assert_eq!(State::Complete.after(2..=9, 9), Ok(None));
    for lie in [State::At(1), State::At(6), State::Complete, State::Gone] {
        lie.after(2..=5, 9)
            .expect_err("it is taken back, or made up");
    }
}
