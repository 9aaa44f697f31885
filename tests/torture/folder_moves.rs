//! Folders that move all the time, while values below them are written and removed, the server is killed, or power is cut: what was
//! acknowledged is under one of the two names of a move, all of it, and nothing under the other.
//!
//! `DATA_SERVER_TORTURE_SEED=N tests/run --test torture folder_moves` draws the same requests again.

use crate::moves::{Mover, Movers};
use crate::prelude::*;

/// Where the folder of a client may be: in the root, in one that all share, or in one that comes and goes.
const PLACES: [&str; 3] = ["", "a/", "b/c/"];

/// Values of a folder.
const VALUES: [&str; 4] = ["0", "1", "d/2", "d/e/3"];

/// On both sides of what the journal has, and of what is sent from memory.
const LENGTHS: [usize; 3] = [100, 20_000, 70_000];

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
    /// The folder that it moves to, if it moves one.
    to: Option<String>,
}

impl Tree {
    fn folder(&self, place: &str) -> String {
        format!("{place}{}/", self.name)
    }

    fn next(&self, dice: &mut Random) -> Ask {
        let mut after = self.has.clone();
        // As a rule where something is.
        let keys: Vec<_> = self.has.keys().collect();
        let folder = PLACES.map(|place| self.folder(place)).into_iter();
        let met = |key: &String| folder.clone().find(|folder| key.starts_with(folder));
        let folder = match dice.usize(..5) {
            1.. if !keys.is_empty() => met(one_of(dice, &keys)).expect("a folder"),
            _ => self.folder(one_of(dice, &PLACES)),
        };
        let key = format!("{folder}{}", one_of(dice, &VALUES));
        let request = |method: &str, path: &str, lines: &str| {
            format!("{method} /{path} HTTP/1.1\r\nHost: t\r\n{lines}\r\n").into_bytes()
        };
        let is_there = |folder: &str| self.has.keys().any(|key| key.starts_with(folder));
        let (bytes, status, to) = match dice.u64(..7) {
            0 | 1 => {
                let length = one_of(dice, &LENGTHS);
                let value = pattern(dice.u64(..), length);
                let bytes = [put_head(&key, length).as_bytes(), &value].concat();
                after.insert(key, Arc::new(value));
                (bytes, 200, None)
            }
            2 | 3 => {
                let key = keys.get(dice.usize(..8)).map_or(key, |key| (*key).clone());
                let is_there = after.remove(&key).is_some();
                let status = if is_there { 200 } else { 404 };
                (request("DELETE", &key, ""), status, None)
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
                let line = format!("Destination: /{to}\r\n");
                (request("MOVE", &folder, &line), status, Some(to))
            }
        };
        Ask {
            bytes,
            status,
            after,
            to,
        }
    }
}

impl Mover for Tree {
    fn new(n: usize) -> Self {
        Self {
            name: format!("t{n}"),
            has: Values::new(),
            doubt: None,
            may_be_left: false,
        }
    }

    fn ask(&mut self, raw: &mut Raw, dice: &mut Random) -> Option<bool> {
        loop {
            let ask = self.next(dice);
            self.doubt = Some(ask.after.clone());
            raw.offer(&ask.bytes).ok()?;
            let head = raw.try_head()?;
            raw.try_take(head.length())?;
            match head.status {
                status if status == ask.status => {
                    (self.has, self.doubt) = (ask.after, None);
                    return Some(status == 201);
                }
                // The disk or the server fails.
                500.. => return None,
                // It is moved, or in the way until a DELETE of it.
                201 | 409 if self.may_be_left && [201, 404].contains(&ask.status) => {
                    self.doubt = None;
                    remove_left(raw, &ask.to.expect("a move"))?;
                }
                status => {
                    let asked = String::from_utf8_lossy(&ask.bytes[..60.min(ask.bytes.len())]);
                    panic!("{status}, not {}: {asked}", ask.status)
                }
            }
        }
    }

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

#[test]
fn a_killed_server_leaves_a_folder_under_one_name() {
    Movers::<Tree>::killed("folder moves");
}

#[test]
fn a_power_cut_leaves_a_folder_under_one_name_with_all_that_was_acknowledged() {
    Movers::<Tree>::cut("power cut among moves of folders");
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

/// The keys of a listing, in its order.
fn listed(session: &mut Client) -> Vec<String> {
    let got = session.ask("GET", "?limit=10000");
    let page: serde_json::Value = serde_json::from_slice(&got.body).expect("a listing");
    let keys = page["keys"].as_array().expect("keys").iter();
    keys.map(|entry| entry["key"].as_str().expect("a key").to_owned())
        .collect()
}

/// A server and a hand move the same folders, beside listings: each listing has what stays, in order; at rest it is what lies in the
/// directory, where each folder is once, whole.
#[test]
fn folders_moved_by_hand_and_by_the_server_at_once_are_listed_as_they_are() {
    let mut dice = Random::with_seed(seed("folders moved by two"));
    let (rounds, steps) = scaled((4, 100), (20, 1_000));
    for index in ["128MiB", "0"] {
        let dir = DataDir::in_memory();
        let server = Launch::new(&["--threads", "2", "--listing-index", index])
            .on(&dir)
            .start();
        let stays: Vec<_> = (0..1_500).map(|n| format!("stays/{n:04}")).collect();
        for key in &stays {
            dir.place(key, "v");
        }
        let places = ["", "p/", "q/"];
        for folder in ["p", "q"] {
            assert_eq!(server.ask("MKCOL", folder).status, 201);
        }
        for n in 0..6 {
            for name in VALUES {
                server.store(&format!("t{n}/{name}"), format!("{n}/{name}"));
            }
        }
        let (by_server, by_hand, listings) = [const { AtomicUsize::new(0) }; 3].into();
        for _ in 0..rounds {
            let over = AtomicUsize::new(0);
            let mut draw = || {
                let mut dice = dice.fork();
                move || {
                    let n = dice.usize(..6);
                    [0; 2].map(|_| format!("{}t{n}", one_of(&mut dice, &places)))
                }
            };
            let (mut of_server, mut of_hand) = (draw(), draw());
            thread::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..steps {
                        let [from, to] = of_server();
                        let line = format!("Destination: /{to}/\r\n");
                        let moved = server.request("MOVE", &format!("/{from}/"), &line, b"");
                        assert!([201, 403, 404, 409].contains(&moved.status), "{moved:?}");
                        by_server.fetch_add(usize::from(moved.status == 201), Ordering::SeqCst);
                    }
                    over.fetch_add(1, Ordering::SeqCst);
                });
                scope.spawn(|| {
                    for _ in 0..steps {
                        let [from, to] = of_hand().map(|name| dir.file(name));
                        let moved = fs::rename(from, to).is_ok();
                        by_hand.fetch_add(usize::from(moved), Ordering::SeqCst);
                        thread::yield_now();
                    }
                    over.fetch_add(1, Ordering::SeqCst);
                });
                let mut session = Client::new(server.addr);
                while over.load(Ordering::SeqCst) < 2 {
                    let keys = listed(&mut session);
                    assert!(keys.is_sorted_by(|a, b| a < b), "out of order");
                    let kept = keys.iter().filter(|key| key.starts_with("stays/"));
                    assert!(kept.eq(&stays), "what stays is missing");
                    listings.fetch_add(1, Ordering::SeqCst);
                }
            });
            let truth = dir.values();
            let names: Vec<_> = truth
                .keys()
                .map(|key| String::from_utf8_lossy(key))
                .collect();
            assert!(listed(&mut Client::new(server.addr)) == names, "{names:?}");
            for n in 0..6 {
                for name in VALUES {
                    let is_it = |(key, value): &(&Vec<u8>, &Vec<u8>)| {
                        **value == format!("{n}/{name}").into_bytes()
                            && key.ends_with(format!("t{n}/{name}").as_bytes())
                    };
                    let found = truth.iter().filter(is_it).count();
                    assert_eq!(found, 1, "t{n}/{name}: {names:?}");
                }
            }
            assert_eq!(truth.len(), stays.len() + 6 * VALUES.len());
        }
        let [by_server, by_hand, listings] =
            [by_server, by_hand, listings].map(AtomicUsize::into_inner);
        assert!(by_server > 0 && by_hand > 0 && listings > 0);
        counted!(
            "index {index}: {by_server} folders moved by the server, {by_hand} by hand, {listings} listings"
        );
    }
}
