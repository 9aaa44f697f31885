//! Listings, counts and archives of a folder without an index while its keys are replaced.
//!
//! `DATA_SERVER_TORTURE_SEED=N tests/run --test torture folders` draws the same requests again.

use crate::disk::{Kind, place};
use crate::prelude::*;

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

/// Looks at the folder this often: the most keys that a listing, a count, an archive and a copy lacked.
fn look(server: &TestServer, looks: usize) -> [usize; 4] {
    let (mut session, mut lacking) = (Client::new(server.addr), [0; 4]);
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
        let mut found = [listed, counted, REPLACED, REPLACED];
        if n % 10 == 0 {
            // Two blocks for each value, and two at the end.
            found[2] = server.request("GET", "/f/?archive=tar", "", b"").body.len() / 1024 - 1;
            let copied = server.request("COPY", "/f/", "Destination: /copy/\r\n", b"");
            assert_eq!(copied.status, 200, "{}", copied.text());
            found[3] = usize::try_from(copied.json()["copied"].as_u64().unwrap_or(0)).unwrap_or(0);
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
        assert_eq!(lacking, [0; 4], "{what}");
        counted!("{what}: {looks} of each with {replaced} changes: all have all");
        drop(server);
        mounted.end();
    });
}
