//! Clients that write and remove keys in the same few folders, which are made and removed all the time, while others
//! list them: every answer is what the one writer of a key must hear, every listing has the keys that stay, and at the
//! end there is no key too many and no folder without one.
//!
//! `DATA_SERVER_TORTURE_SEED=N tests/run --test torture folders` draws the same requests again.

use crate::disk::{Kind, place};
use crate::prelude::*;

const CLIENTS: usize = 6;

/// Keys of each client: few, so that folders are empty most of the time.
const KEYS: usize = 5;

/// Keys that are there all the time, in folders that others come to and leave.
const STAY: [&str; 3] = ["a/stays", "b/c/stays", "stays"];

/// Listings, without which a play counts for nothing.
const LISTINGS: usize = 20;

/// A key of `client`, in a folder that all share, one that comes and goes, or none.
fn key(client: usize, n: usize) -> String {
    let folder = ["a/", "b/c/", "d/", "d/e/f/", ""][n % 5];
    format!("{folder}{client}-{n}")
}

/// Works on the keys of one client for so many requests, and until it is `over`; what they hold then.
fn work(
    server: &TestServer,
    client: usize,
    mut dice: Random,
    requests: usize,
    over: &Done,
) -> Result<(usize, BTreeMap<String, Vec<u8>>), String> {
    let (mut session, mut holds, mut changes) = (Client::new(server.addr), BTreeMap::new(), 0);
    while changes < requests || !over.is_said() {
        let key = key(client, dice.usize(..KEYS));
        let expected = |holds: &BTreeMap<String, Vec<u8>>| {
            if holds.contains_key(&key) { 200 } else { 404 }
        };
        let (method, status, right) = match dice.u64(..5) {
            0 | 1 => {
                let length = one_of(&mut dice, &[1, 100, 70_000]);
                let value = pattern(dice.u64(..), length);
                let status = session.put(&key, &value).status;
                holds.insert(key.clone(), value);
                ("PUT", status, 200)
            }
            2 | 3 => {
                let right = expected(&holds);
                holds.remove(&key);
                ("DELETE", session.ask("DELETE", &key).status, right)
            }
            _ => {
                let got = session.ask("GET", &key);
                let value = holds.get(&key);
                if got.status == 200 && value != Some(&got.body) {
                    return Err(format!("GET /{key}: another value"));
                }
                ("GET", got.status, expected(&holds))
            }
        };
        if status != right {
            return Err(format!("{method} /{key}: {status}, not {right}"));
        }
        changes += 1;
    }
    Ok((changes, holds))
}

/// Lists until told to end; every listing has what stays, in order.
fn list(server: &TestServer, done: &Done) -> Result<usize, String> {
    let (mut session, mut listings) = (Client::new(server.addr), 0);
    while listings < LISTINGS || !done.is_said() {
        let got = session.ask("GET", "?limit=10000");
        let page: serde_json::Value =
            serde_json::from_slice(&got.body).map_err(|e| e.to_string())?;
        let keys = page["keys"].as_array().into_iter().flatten();
        let keys: Vec<_> = keys.filter_map(|entry| entry["key"].as_str()).collect();
        if !keys.is_sorted_by(|a, b| a < b) {
            return Err(format!("a listing out of order: {keys:?}"));
        }
        if let Some(missing) = STAY.iter().find(|stays| !keys.contains(stays)) {
            return Err(format!("a listing without {missing}: {keys:?}"));
        }
        listings += 1;
    }
    Ok(listings)
}

/// Plays for so many requests of each client, and for as long as `meanwhile` takes: how many requests and listings were
/// made, or the first thing that is wrong.
fn play(
    server: &TestServer,
    dice: &mut Random,
    requests: usize,
    meanwhile: impl FnOnce(),
) -> Result<(usize, usize), String> {
    for key in STAY {
        server.store(key, key);
    }
    let (mut changes, mut holds) = (0, BTreeMap::new());
    let (over, done) = (Done::default(), Done::default());
    let listings = thread::scope(|scope| {
        let lister = scope.spawn(|| list(server, &done));
        let clients = (0..CLIENTS).map(|client| {
            let (dice, over) = (dice.fork(), &over);
            scope.spawn(move || work(server, client, dice, requests, over))
        });
        let clients: Vec<_> = clients.collect();
        {
            let _over = over.when_dropped();
            meanwhile();
        }
        let worked = clients.into_iter().map(|c| c.join().expect("a client"));
        let worked: Vec<_> = worked.collect();
        drop(done.when_dropped());
        let listings = lister.join().expect("the lister")?;
        for result in worked {
            let (made, held) = result?;
            changes += made;
            holds.extend(held);
        }
        Ok::<_, String>(listings)
    })?;
    holds.extend(STAY.map(|key| (key.to_owned(), key.as_bytes().to_vec())));
    let names = server.dir.names().into_iter();
    let names: Vec<_> = names
        .map(|name| String::from_utf8(name).expect("text"))
        .collect();
    if !names.iter().eq(holds.keys()) {
        return Err(format!("{names:?} on the disk, not {:?}", holds.keys()));
    }
    for (key, value) in &holds {
        if server.dir.read(key) != *value {
            return Err(format!("{key} has another value on the disk"));
        }
    }
    server.dir.assert_nothing_staged();
    Ok((changes, listings))
}

#[test]
fn folders_that_come_and_go_lose_no_key_and_leave_no_folder() {
    let mut dice = Random::with_seed(seed("folders"));
    let requests = scaled(300, 15_000);
    for (index, durability) in [("128MiB", "os"), ("0", "os"), ("128MiB", "disk")] {
        let dir = DataDir::in_memory();
        let args = format!("--threads 2 --listing-index {index} --durability {durability}");
        let server = Launch::new(&words(&args)).on(&dir).start();
        let played = play(&server, &mut dice, requests, || {});
        let (changes, listings) = played.unwrap_or_else(|wrong| panic!("{wrong}"));
        let counts = format!("{changes} requests of {CLIENTS} clients, {listings} listings");
        counted!("folders: {counts}, {args}: all as they must be");
    }
}

type Fault = fn(&DataDir);

/// What a server that breaks the promise would leave behind is found, made by hand.
#[test]
fn a_folder_without_a_key_and_a_key_that_is_gone_are_found_out() {
    let mut dice = Random::with_seed(seed("folders, planted"));
    let faults: [(&str, Fault); 4] = [
        ("a folder that stays", |dir| {
            fs::create_dir_all(dir.file("b/empty")).expect("a folder");
        }),
        ("a key that is gone", |dir| {
            fs::remove_file(dir.file("b/c/stays")).expect("a removal");
        }),
        ("a folder that is gone", |dir| {
            fs::rename(dir.file("a"), dir.file("moved")).expect("a rename");
        }),
        ("a value that nobody wrote", |dir| {
            dir.place("b/c/stays", "another");
        }),
    ];
    for (what, fault) in faults {
        let dir = DataDir::in_memory();
        let server = Launch::new(&["--threads", "1"]).on(&dir).start();
        let found = play(&server, &mut dice, 100, || {
            eventually("the clients are at work", || dir.names().len() > STAY.len());
            fault(&dir);
        });
        counted!("folders: planted {what}: {:?}", found.as_ref().err());
        assert!(found.is_err(), "{what} is not found");
    }
}

/// Keys in a folder that are replaced without rest.
const REPLACED: usize = 2_000;

/// Replaces keys until `done`; how many.
fn replace(server: &TestServer, mut dice: Random, done: &Done) -> usize {
    let (mut session, mut replaced) = (Client::new(server.addr), 0);
    while !done.is_said() {
        let key = format!("f/{:04}", dice.usize(..REPLACED));
        assert_eq!(session.put(&key, b"v").status, 200);
        replaced += 1;
    }
    replaced
}

/// Looks at the folder this often: the most keys that a listing, a count and an archive lacked.
fn look(server: &TestServer, looks: usize) -> [usize; 3] {
    let (mut session, mut lacking) = (Client::new(server.addr), [0; 3]);
    for n in 0..looks {
        let listed = session
            .ask("GET", "?prefix=f/&limit=10000&format=text")
            .body;
        let listed = String::from_utf8(listed).expect("text").lines().count();
        // It says how many values it would remove.
        let refused = session.ask("DELETE", "f/");
        let refused = String::from_utf8(refused.body).expect("text");
        let counted = refused.split(' ').find_map(|word| word.parse().ok());
        let counted: usize = counted.unwrap_or_else(|| panic!("no number: {refused}"));
        let mut found = [listed, counted, REPLACED];
        if n % 10 == 0 {
            // Two blocks for each value, and two at the end.
            found[2] = server.request("GET", "/f/?archive=tar", "", b"").body.len() / 1024 - 1;
        }
        for (lacking, found) in lacking.iter_mut().zip(found) {
            *lacking = REPLACED.saturating_sub(found).max(*lacking);
        }
    }
    lacking
}

/// On btrfs a name that is replaced moves behind all others in its folder.
#[test]
fn a_key_that_is_replaced_meanwhile_is_in_every_listing() {
    let mut dice = Random::with_seed(seed("folders, replaced"));
    let seeds = [(); 3].map(|()| dice.u64(..));
    Kind::each(&Kind::ALL, |kind| {
        let what = format!("listings of keys that are replaced, {}", kind.name());
        let place = place().expect("a place");
        let [image, at] = ["image", "mount"].map(|name| place.path().join(name));
        let mounted = kind.make(&image);
        let mounted = mounted.and_then(|()| Mounted::image(&image, &at, "defaults"));
        let mounted = needed!(available(&what, mounted));
        let server = Launch::new(&["--threads", "2", "--listing-index", "0"])
            .on(&DataDir::at(at.join("data")))
            .start();
        for n in 0..REPLACED {
            server.store(&format!("f/{n:04}"), "v");
        }
        let (looks, done) = (scaled(20, 1_000), Done::default());
        let (lacking, replaced) = thread::scope(|scope| {
            let clients = seeds.map(|seed| {
                let (server, done) = (&server, &done);
                scope.spawn(move || replace(server, Random::with_seed(seed), done))
            });
            let lacking = {
                let _done = done.when_dropped();
                look(&server, looks)
            };
            let replaced = clients.map(|client| client.join().expect("a client"));
            (lacking, replaced.iter().sum::<usize>())
        });
        assert_eq!(lacking, [0; 3], "{what}");
        counted!("{what}: {looks} of each with {replaced} changes: all have all");
        drop(server);
        mounted.end();
    });
}
