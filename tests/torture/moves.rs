//! Values and folders that move all the time, while values are written and removed, the server is killed, or power is
//! cut: what was acknowledged is under one of the two names of a move, all of it, and nothing under the other.
//!
//! `DATA_SERVER_TORTURE_SEED=N tests/run --test torture moves` draws the same requests again.

use crate::disk::{Disk, Image, Kind};
use crate::prelude::*;

const CLIENTS: usize = 4;

/// Where the folder of a client may be: in the root, in one that all share, or in one that comes and goes.
const PLACES: [&str; 3] = ["", "a/", "b/c/"];

/// Values of a folder.
pub(crate) const VALUES: [&str; 4] = ["0", "1", "d/2", "d/e/3"];

/// On both sides of what the journal has, and of what is sent from memory.
const LENGTHS: [usize; 4] = [100, 20_000, 70_000, 300_000];

/// Acknowledged changes, without which an end of a server counts for nothing.
const ENOUGH: usize = 150;

/// All values of one client, by key.
type Values = BTreeMap<String, Arc<Vec<u8>>>;

/// What one client has, as acknowledged, and what it may have instead, by a request without an answer.
struct Tree {
    name: String,
    has: Values,
    doubt: Option<Values>,
    /// A kill may have left a folder without a value, which nothing lists.
    may_be_left: bool,
}

/// A request, the answer that it must have, and what there is after it.
struct Ask {
    bytes: Vec<u8>,
    status: u16,
    after: Values,
    /// Where it moves a value or a folder, whose name ends with `/`; of another request empty.
    to: String,
    /// The folder of a move in which no value is, so that it may have been left.
    left: String,
}

impl Tree {
    fn new(n: usize) -> Self {
        Self {
            name: format!("t{n}"),
            has: Values::new(),
            doubt: None,
            may_be_left: false,
        }
    }

    fn folder(&self, place: &str) -> String {
        format!("{place}{}/", self.name)
    }

    fn next(&self, dice: &mut Random) -> Ask {
        let mut after = self.has.clone();
        // As a rule where something is.
        let keys: Vec<_> = self.has.keys().collect();
        let folders = PLACES.map(|place| self.folder(place));
        let folder_of = |key: &String| {
            let mut folders = folders.iter();
            folders
                .find(|folder| key.starts_with(*folder))
                .expect("a folder")
        };
        let folder = match dice.usize(..5) {
            1.. if !keys.is_empty() => folder_of(one_of(dice, &keys)).clone(),
            _ => one_of(dice, &folders.each_ref()).clone(),
        };
        let key = format!("{folder}{}", one_of(dice, &VALUES));
        let request = |method: &str, path: &str, lines: &str| {
            format!("{method} /{path} HTTP/1.1\r\nHost: t\r\n{lines}\r\n").into_bytes()
        };
        let is_there = |folder: &str| self.has.keys().any(|key| key.starts_with(folder));
        let mut left = String::new();
        let (bytes, status, to) = match dice.u64(..10) {
            0 | 1 => {
                let length = one_of(dice, &LENGTHS);
                let value = pattern(dice.u64(..), length);
                let bytes = [put_head(&key, length).as_bytes(), &value].concat();
                after.insert(key, Arc::new(value));
                (bytes, 200, String::new())
            }
            2 | 3 => {
                let key = keys.get(dice.usize(..8)).map_or(key, |key| (*key).clone());
                let is_there = after.remove(&key).is_some();
                let status = if is_there { 200 } else { 404 };
                (request("DELETE", &key, ""), status, String::new())
            }
            4..=6 if !keys.is_empty() => {
                let from = one_of(dice, &keys);
                let (at, name) = from.split_at(folder_of(from).len());
                let others: Vec<_> = folders.iter().filter(|to| *to != at).collect();
                let to = format!("{}{name}", one_of(dice, &others));
                let value = after.remove(from).expect("it is there");
                let status = match after.insert(to.clone(), value) {
                    None => 201,
                    Some(_) => 204,
                };
                let line = format!("Destination: /{to}\r\n");
                (request("MOVE", from, &line), status, to)
            }
            _ => {
                let to = self.folder(one_of(dice, &PLACES));
                let status = match () {
                    () if to == folder => 403,
                    () if !is_there(&folder) => 404,
                    () if is_there(&to) => 409,
                    () => 201,
                };
                if status == 201 {
                    let moved = |(key, value): (String, _)| match key.strip_prefix(&folder) {
                        Some(below) => (format!("{to}{below}"), value),
                        None => (key, value),
                    };
                    after = after.into_iter().map(moved).collect();
                }
                left.clone_from(if is_there(&to) { &folder } else { &to });
                let line = format!("Destination: /{to}\r\n");
                (request("MOVE", &folder, &line), status, to)
            }
        };
        Ask {
            bytes,
            status,
            after,
            to,
            left,
        }
    }

    /// Asks for the next change, over a connection of its own; where that moved something. `None` where there is no
    /// answer, or the server or the disk fails.
    fn ask(&mut self, raw: &mut Raw, dice: &mut Random) -> Option<String> {
        loop {
            let ask = self.next(dice);
            self.doubt = Some(ask.after.clone());
            raw.offer(&ask.bytes).ok()?;
            let head = raw.try_head()?;
            if head.status != 204 {
                raw.try_take(head.length())?;
            }
            match head.status {
                status if status == ask.status => {
                    (self.has, self.doubt) = (ask.after, None);
                    return Some(if status < 300 { ask.to } else { String::new() });
                }
                // The disk or the server fails.
                500.. => return None,
                // It is moved, or in the way until a DELETE of it.
                201 | 409
                    if self.may_be_left
                        && ask.to.ends_with('/')
                        && [201, 404].contains(&ask.status) =>
                {
                    self.doubt = None;
                    remove_left(raw, &ask.left)?;
                }
                status => {
                    let asked = String::from_utf8_lossy(&ask.bytes[..60.min(ask.bytes.len())]);
                    panic!("{status}, not {}: {asked}", ask.status)
                }
            }
        }
    }

    /// Takes what is found for what it is; or what is wrong with it.
    fn look(&mut self, server: &TestServer) -> Result<(), String> {
        self.may_be_left = true;
        let (mut session, mut found) = (Client::new(server.addr), Values::new());
        for place in PLACES {
            for name in VALUES {
                let key = format!("{}{name}", self.folder(place));
                let got = session.ask("GET", &key);
                match got.status {
                    200 => drop(found.insert(key, Arc::new(got.body))),
                    404 => {}
                    status => return Err(format!("{key}: {status}")),
                }
            }
        }
        if found == self.has || Some(&found) == self.doubt.as_ref() {
            (self.has, self.doubt) = (found, None);
            return Ok(());
        }
        let told = |values: &Values| {
            let told = values.iter().map(|(key, value)| {
                let sum: u64 = value.iter().map(|&byte| u64::from(byte)).sum();
                format!("{key} ({} bytes, {sum})", value.len())
            });
            told.collect::<Vec<_>>().join(", ")
        };
        Err(format!(
            "found {}; acknowledged {}; asked for {:?}",
            told(&found),
            told(&self.has),
            self.doubt.as_ref().map(told)
        ))
    }
}

/// Removes a folder that has no value; `None` where the server ends.
fn remove_left(raw: &mut Raw, folder: &str) -> Option<()> {
    let lines = "Host: t\r\nDepth: infinity\r\n";
    let request = format!("DELETE /{folder} HTTP/1.1\r\n{lines}\r\n");
    raw.offer(request).ok()?;
    let removed = raw.try_head()?;
    let report = String::from_utf8(raw.try_take(removed.length())?).expect("text");
    let is_empty = report.starts_with("{\"removed\":0,\"stayed\":0");
    let is_right = is_empty || removed.status == 404 || removed.status >= 500;
    assert!(is_right, "{folder}: {report}");
    Some(())
}

/// The clients, each of which ends with its connection.
struct Movers {
    clients: Vec<Tree>,
    dice: Random,
    seed: u64,
    changes: usize,
    /// Those of values, and those of folders.
    moves: [usize; 2],
}

const WAYS: [&[&str]; 3] = [
    &["--durability", "os"],
    &["--durability", "disk"],
    &["--durability", "disk", "--journal", "off"],
];

impl Movers {
    fn new(what: &str) -> Self {
        let seed = seed(what);
        Self {
            clients: (0..CLIENTS).map(Tree::new).collect(),
            dice: Random::with_seed(seed),
            seed,
            changes: 0,
            moves: [0; 2],
        }
    }

    /// Has the clients work until enough is acknowledged, and then makes `end` while they go on.
    fn work(&mut self, server: &TestServer, end: impl FnOnce()) {
        let acknowledged = AtomicUsize::new(0);
        let moves = [const { AtomicUsize::new(0) }; 2];
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
                        && let Some(to) = client.ask(&mut raw, &mut dice)
                    {
                        acknowledged.fetch_add(1, Ordering::SeqCst);
                        if !to.is_empty() {
                            moves[usize::from(to.ends_with('/'))].fetch_add(1, Ordering::SeqCst);
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
        for (sum, moves) in self.moves.iter_mut().zip(moves) {
            *sum += moves.into_inner();
        }
    }

    fn look(&mut self, server: &TestServer) {
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

    /// How much was moved, without which nothing is shown.
    fn counts(&self) -> String {
        let (changes, [values, folders]) = (self.changes, self.moves);
        assert!(values > 0 && folders > 0, "{values} and {folders} moves");
        format!("{changes} changes, {values} of them moves of values and {folders} of folders")
    }

    /// Has them work on servers that are killed.
    fn killed(what: &str) {
        let (dir, mut movers) = (DataDir::temporary(), Self::new(what));
        let kills = scaled(12, 300);
        for kill in 0..kills {
            let server = Launch::new(WAYS[kill % 3]).on(&dir).start();
            movers.work(&server, || server.signal(Signal::KILL));
            drop(server);
            Self::see(&dir, |server| movers.look(server));
        }
        counted!(
            "{what}: {kills} kills, {}: each under one name",
            movers.counts()
        );
    }

    /// Has them work on disks whose power is cut.
    fn cut(what: &str) {
        Image::each(&Kind::ALL, what, |what, mut disk| {
            let mut movers = Self::new(what);
            let cuts = scaled(4, 60);
            for cut in 0..cuts {
                let mut server = Launch::new(WAYS[1 + cut % 2]).on(&disk.dir()).start();
                movers.work(&server, || disk.cut());
                server.kill();
                drop(server);
                disk.revive();
                Self::see(&disk.dir(), |server| movers.look(server));
            }
            counted!("{what}: {cuts} cuts, {}", movers.counts());
        });
    }
}

#[test]
fn a_killed_server_leaves_each_value_and_folder_under_one_name() {
    Movers::killed("moves");
}

#[test]
fn a_power_cut_leaves_each_value_and_folder_under_one_name_with_all_that_was_acknowledged() {
    Movers::cut("power cut among moves");
}

/// Planted: what a move in two steps leaves, and a value that comes back under the old name.
#[test]
fn a_folder_with_two_names_or_half_of_one_is_found_out() {
    let server = TestServer::start(&[]);
    let mut tree = Tree::new(0);
    for name in VALUES {
        let key = format!("{}{name}", tree.folder("a/"));
        server.store(&key, b"v");
        tree.has.insert(key, Arc::new(b"v".to_vec()));
    }
    tree.look(&server).expect("as it is");
    let copy = format!("{}0", tree.folder(""));
    server.store(&copy, b"v");
    assert!(tree.look(&server).is_err());
    for key in [copy, format!("{}1", tree.folder("a/"))] {
        assert_eq!(server.ask("DELETE", &key).status, 200);
    }
    assert!(tree.look(&server).is_err());
}
