//! Values that move between keys all the time, while the server is killed or power is cut: each value is whole, and has one name,
//! the one that was acknowledged last or the one that was asked for.
//!
//! `DATA_SERVER_TORTURE_SEED=N tests/run --test torture moves` draws the same requests again.

use crate::disk::{Disk, Image, Kind};
use crate::prelude::*;

const CLIENTS: usize = 4;

/// Values of each client.
const VALUES: usize = 6;

/// Where a value may be: a folder that all share, one that comes and goes, or none.
const FOLDERS: [&str; 4] = ["", "a/", "b/c/", "d/"];

/// On both sides of what the journal has, and of what is sent from memory.
const LENGTHS: [usize; 4] = [100, 20_000, 70_000, 300_000];

/// Acknowledged changes, without which an end of a server counts for nothing.
const ENOUGH: usize = 100;

/// One value: where it was acknowledged to be, and what it may be instead, by a request without an answer.
#[derive(Clone)]
struct Item {
    name: String,
    at: (&'static str, Vec<u8>),
    doubt: Option<(&'static str, Vec<u8>)>,
}

impl Item {
    /// What lies under each of its names that has anything.
    fn found(&self, server: &TestServer) -> Vec<(&'static str, Vec<u8>)> {
        let mut session = Client::new(server.addr);
        let get = |folder| {
            let found = session.ask("GET", &format!("{folder}{}", self.name));
            assert!([200, 404].contains(&found.status), "{}", found.status);
            (found.status == 200).then_some((folder, found.body))
        };
        FOLDERS.into_iter().filter_map(get).collect()
    }

    /// Takes what is found for what it is; or what is wrong with it.
    fn look(&mut self, server: &TestServer) -> Result<(), String> {
        let mut found = self.found(server);
        let may_be = |one| one == &self.at || Some(one) == self.doubt.as_ref();
        if found.len() == 1 && found.iter().all(may_be) {
            (self.at, self.doubt) = (found.remove(0), None);
            return Ok(());
        }
        let told = |(folder, value): &(&str, Vec<u8>)| format!("{folder:?} {} bytes", value.len());
        let all: Vec<_> = found.iter().map(told).collect();
        let doubt = self.doubt.as_ref().map(told);
        let acknowledged = told(&self.at);
        Err(format!(
            "{}: found {all:?}, acknowledged {acknowledged}, asked for {doubt:?}",
            self.name
        ))
    }

    /// The next request, and what the value is after it.
    fn next(&self, dice: &mut Random) -> (Vec<u8>, (&'static str, Vec<u8>)) {
        let (from, name) = (self.at.0, &self.name);
        if dice.u64(..4) == 0 {
            let length = one_of(dice, &LENGTHS);
            let value = pattern(dice.u64(..), length);
            let head = put_head(&format!("{from}{name}"), length);
            return ([head.as_bytes(), &value].concat(), (from, value));
        }
        let others: Vec<_> = FOLDERS.into_iter().filter(|to| *to != from).collect();
        let to = one_of(dice, &others);
        let head =
            format!("MOVE /{from}{name} HTTP/1.1\r\nHost: t\r\nDestination: /{to}{name}\r\n\r\n");
        (head.into_bytes(), (to, self.at.1.clone()))
    }
}

/// The values of all clients, each by a client that ends with its connection.
struct Movers {
    clients: Vec<Vec<Item>>,
    dice: Random,
    seed: u64,
    changes: usize,
}

impl Movers {
    fn new(what: &str) -> Self {
        let seed = seed(what);
        let dice = Random::with_seed(seed);
        let item = |client: usize| {
            move |n: usize| Item {
                name: format!("{client}-{n}"),
                at: ("", Vec::new()),
                doubt: None,
            }
        };
        let clients = (0..CLIENTS).map(|client| (0..VALUES).map(item(client)).collect());
        Self {
            clients: clients.collect(),
            dice,
            seed,
            changes: 0,
        }
    }

    fn store_all(&self, server: &TestServer) {
        for item in self.clients.iter().flatten() {
            server.store(&item.name, b"");
        }
    }

    /// Has the clients work until enough is acknowledged, and then makes `end` while they go on.
    fn work(&mut self, server: &TestServer, end: impl FnOnce()) {
        let (acknowledged, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let enough = ENOUGH + self.dice.usize(..ENOUGH);
        let addr = server.addr;
        thread::scope(|scope| {
            for items in &mut self.clients {
                let mut dice = Random::with_seed(self.dice.u64(..));
                let (acknowledged, over) = (&acknowledged, &over);
                scope.spawn(move || {
                    let Ok(mut raw) = Raw::try_connect(addr) else {
                        return;
                    };
                    while !over.load(Ordering::SeqCst) {
                        let item = &mut items[dice.usize(..VALUES)];
                        let (request, after) = item.next(&mut dice);
                        item.doubt = Some(after.clone());
                        let answer = raw.offer(&request).ok().and_then(|()| raw.try_head());
                        match answer.map(|answer| answer.status) {
                            Some(200 | 201) => {
                                (item.at, item.doubt) = (after, None);
                                acknowledged.fetch_add(1, Ordering::SeqCst);
                            }
                            // The disk or the server fails.
                            None | Some(500..) => return,
                            Some(status) => panic!("{status}: {}", item.name),
                        }
                    }
                });
            }
            let comes = || acknowledged.load(Ordering::SeqCst) >= enough;
            within(Duration::from_secs(60), comes);
            end();
            over.store(true, Ordering::SeqCst);
        });
        let acknowledged = acknowledged.into_inner();
        assert!(
            acknowledged >= ENOUGH,
            "{acknowledged} changes count for nothing"
        );
        self.changes += acknowledged;
    }

    fn look(&mut self, server: &TestServer) {
        for item in self.clients.iter_mut().flatten() {
            let seen = item.look(server);
            seen.unwrap_or_else(|wrong| panic!("seed {}: {wrong}", self.seed));
        }
    }
}

const WAYS: [&[&str]; 3] = [
    &["--durability", "os"],
    &["--durability", "disk"],
    &["--durability", "disk", "--journal", "off"],
];

#[test]
fn a_killed_server_leaves_each_value_under_one_name() {
    let (dir, mut movers) = (DataDir::temporary(), Movers::new("moves"));
    let mut server = Launch::new(&[]).on(&dir).start();
    movers.store_all(&server);
    server.stop();
    let kills = scaled(12, 300);
    for kill in 0..kills {
        let server = Launch::new(WAYS[kill % 3]).on(&dir).start();
        movers.work(&server, || server.signal(Signal::KILL));
        drop(server);
        let mut server = Launch::new(&[]).on(&dir).start();
        movers.look(&server);
        server.stop();
    }
    counted!(
        "{kills} kills, {} moves and writes, each value has one name",
        movers.changes
    );
}

#[test]
fn a_power_cut_leaves_each_value_under_one_name() {
    Image::each(&Kind::ALL, "power cut among moves", |what, mut disk| {
        let mut movers = Movers::new(what);
        let mut server = Launch::new(&[]).on(&disk.dir()).start();
        movers.store_all(&server);
        server.stop();
        drop(server);
        let cuts = scaled(4, 60);
        for cut in 0..cuts {
            let mut server = Launch::new(WAYS[1 + cut % 2]).on(&disk.dir()).start();
            movers.work(&server, || disk.cut());
            server.kill();
            drop(server);
            disk.revive();
            let mut server = Launch::new(&[]).on(&disk.dir()).start();
            movers.look(&server);
            server.stop();
        }
        counted!("{what}: {cuts} cuts, {} moves and writes", movers.changes);
    });
}

/// Planted: what a move in two steps leaves, and what one that was lost leaves.
#[test]
fn a_value_with_two_names_or_none_is_found_out() {
    let server = TestServer::start(&[]);
    let mut movers = Movers::new("planted moves");
    movers.store_all(&server);
    movers.look(&server);
    let item = &mut movers.clients[0][0];
    server.store(&format!("a/{}", item.name), b"");
    assert!(item.look(&server).is_err());
    for folder in ["", "a/"] {
        server.ask("DELETE", &format!("{folder}{}", item.name));
    }
    assert!(item.look(&server).is_err());
}
