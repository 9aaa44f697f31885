//! Folders that a server and a hand move at once, beside listings.
//!
//! `DATA_SERVER_TORTURE_SEED=N tests/run --test torture folder_moves` draws the same requests again.

use crate::moves::VALUES;
use crate::prelude::*;

/// The keys of a listing, in its order.
fn listed(session: &mut Client) -> Vec<String> {
    let got = session.ask("GET", "?limit=10000");
    let page: serde_json::Value = serde_json::from_slice(&got.body).expect("a listing");
    let keys = page["keys"].as_array().expect("keys").iter();
    keys.map(|entry| entry["key"].as_str().expect("a key").to_owned())
        .collect()
}

/// A server and a hand move the same folders, beside listings: each listing has what stays, in order; at rest it is
/// what lies in the directory, where each folder is once, whole.
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
