//! Values that move between keys all the time, while the server is killed or power is cut: each value is whole, and has one name,
//! the one that was acknowledged last or the one that was asked for. The loops are those of [`super::folder_moves`] too.
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

/// The values of one client.
impl Mover for Vec<Item> {
    fn new(client: usize) -> Self {
        let item = |n: usize| Item {
            name: format!("{client}-{n}"),
            at: ("", Vec::new()),
            doubt: None,
        };
        (0..VALUES).map(item).collect()
    }

    fn store(&self, server: &TestServer) {
        for item in self {
            server.store(&item.name, b"");
        }
    }

    fn ask(&mut self, raw: &mut Raw, dice: &mut Random) -> Option<bool> {
        let item = &mut self[dice.usize(..VALUES)];
        let (request, after) = item.next(dice);
        item.doubt = Some(after.clone());
        raw.offer(&request).ok()?;
        match raw.try_head()?.status {
            200 | 201 => {}
            // The disk or the server fails.
            500.. => return None,
            status => panic!("{status}: {}", item.name),
        }
        let is_move = after.0 != item.at.0;
        (item.at, item.doubt) = (after, None);
        Some(is_move)
    }

    fn look(&mut self, server: &TestServer) -> Result<(), String> {
        self.iter_mut().try_for_each(|item| item.look(server))
    }
}

/// What one client moves and changes, over a connection of its own.
pub(crate) trait Mover: Send + Sized {
    fn new(client: usize) -> Self;

    /// Stores what there is before the first request.
    fn store(&self, _server: &TestServer) {}

    /// Asks for the next change; true if it moved something. `None` where there is no answer, or the server or the disk fails.
    fn ask(&mut self, raw: &mut Raw, dice: &mut Random) -> Option<bool>;

    /// Takes what is found for what it is; or what is wrong with it.
    fn look(&mut self, server: &TestServer) -> Result<(), String>;
}

/// The clients, each of which ends with its connection.
pub(crate) struct Movers<M> {
    pub(crate) clients: Vec<M>,
    dice: Random,
    seed: u64,
    changes: usize,
    moves: usize,
}

const WAYS: [&[&str]; 3] = [
    &["--durability", "os"],
    &["--durability", "disk"],
    &["--durability", "disk", "--journal", "off"],
];

impl<M: Mover> Movers<M> {
    pub(crate) fn new(what: &str) -> Self {
        let seed = seed(what);
        Self {
            clients: (0..CLIENTS).map(M::new).collect(),
            dice: Random::with_seed(seed),
            seed,
            changes: 0,
            moves: 0,
        }
    }

    /// Has the clients work until enough is acknowledged, and then makes `end` while they go on.
    fn work(&mut self, server: &TestServer, end: impl FnOnce()) {
        let (acknowledged, moves) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let over = AtomicBool::new(false);
        let enough = ENOUGH + self.dice.usize(..ENOUGH);
        let addr = server.addr;
        thread::scope(|scope| {
            for client in &mut self.clients {
                let mut dice = self.dice.fork();
                let (acknowledged, moves, over) = (&acknowledged, &moves, &over);
                scope.spawn(move || {
                    let Ok(mut raw) = Raw::try_connect(addr) else {
                        return;
                    };
                    while !over.load(Ordering::SeqCst)
                        && let Some(is_move) = client.ask(&mut raw, &mut dice)
                    {
                        acknowledged.fetch_add(1, Ordering::SeqCst);
                        moves.fetch_add(usize::from(is_move), Ordering::SeqCst);
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
        self.moves += moves.into_inner();
    }

    pub(crate) fn look(&mut self, server: &TestServer) {
        for client in &mut self.clients {
            let seen = client.look(server);
            seen.unwrap_or_else(|wrong| panic!("seed {}: {wrong}", self.seed));
        }
    }

    /// A server of `dir` that works as usual, and ends in order.
    fn see(dir: &DataDir, see: impl FnOnce(&TestServer)) {
        let mut server = Launch::new(&[]).on(dir).start();
        see(&server);
        server.stop();
    }

    fn store(&self, server: &TestServer) {
        self.clients.iter().for_each(|client| client.store(server));
    }

    /// Has them work on servers that are killed.
    pub(crate) fn killed(what: &str) {
        let (dir, mut movers) = (DataDir::temporary(), Self::new(what));
        Self::see(&dir, |server| movers.store(server));
        let kills = scaled(12, 300);
        for kill in 0..kills {
            let server = Launch::new(WAYS[kill % 3]).on(&dir).start();
            movers.work(&server, || server.signal(Signal::KILL));
            drop(server);
            Self::see(&dir, |server| movers.look(server));
        }
        let Self { changes, moves, .. } = movers;
        counted!(
            "{what}: {kills} kills, {changes} changes, {moves} of them moves: each under one name"
        );
    }

    /// Has them work on disks whose power is cut.
    pub(crate) fn cut(what: &str) {
        Image::each(&Kind::ALL, what, |what, mut disk| {
            let mut movers = Self::new(what);
            Self::see(&disk.dir(), |server| movers.store(server));
            let cuts = scaled(4, 60);
            for cut in 0..cuts {
                let mut server = Launch::new(WAYS[1 + cut % 2]).on(&disk.dir()).start();
                movers.work(&server, || disk.cut());
                server.kill();
                drop(server);
                disk.revive();
                Self::see(&disk.dir(), |server| movers.look(server));
            }
            let Self { changes, moves, .. } = movers;
            counted!("{what}: {cuts} cuts, {changes} changes, {moves} of them moves");
        });
    }
}

#[test]
fn a_killed_server_leaves_each_value_under_one_name() {
    Movers::<Vec<Item>>::killed("moves");
}

#[test]
fn a_power_cut_leaves_each_value_under_one_name() {
    Movers::<Vec<Item>>::cut("power cut among moves");
}

/// Planted: what a move in two steps leaves, and what one that was lost leaves.
#[test]
fn a_value_with_two_names_or_none_is_found_out() {
    let server = TestServer::start(&[]);
    let mut movers = Movers::<Vec<Item>>::new("planted moves");
    movers.store(&server);
    movers.look(&server);
    let item = &mut movers.clients[0][0];
    server.store(&format!("a/{}", item.name), b"");
    assert!(item.look(&server).is_err());
    for folder in ["", "a/"] {
        server.ask("DELETE", &format!("{folder}{}", item.name));
    }
    assert!(item.look(&server).is_err());
}
