//! Proves that a start keeps the values of an earlier server, also of a killed one, and removes what it left in staging.

use crate::support::prelude::*;

#[test]
fn a_missing_directory_is_created_and_a_full_one_kept() {
    directory_only!("hands in the directory");
    let parent = DataDir::temporary();
    let dir = DataDir::at(parent.file("made"));
    let mut server = Launch::new(&[]).on(&dir).start();
    server.store("k", "value");
    server.stop();
    dir.place("by hand", "too");
    let server = Launch::new(&[]).on(&dir).start();
    assert_eq!(server.get("k").body, b"value");
    assert_eq!(server.get("by%20hand").body, b"too");
    dir.assert_holds(&["k", "by hand"]);
}

#[test]
fn the_start_empties_staging_and_removes_nothing_else() {
    directory_only!("hands in the directory");
    let dir = DataDir::temporary();
    fs::create_dir_all(dir.staging()).expect("a staging directory");
    for name in ["1", "upload-17", ".hidden"] {
        fs::write(dir.staging().join(name), "half a value").expect("litter");
    }
    dir.place("k", "value");
    let server = Launch::new(&[]).on(&dir).start();
    dir.assert_holds(&["k"]);
    assert_eq!(server.get("k").body, b"value");
}

#[test]
fn a_killed_server_has_lost_nothing_it_acknowledged() {
    let mut server = TestServer::start(&[]);
    let dir = server.dir.clone();
    let mut acknowledged = Vec::new();
    for cycle in 0..3 {
        let mut half = server.connect();
        half.send(put_head("half", 2_000_000));
        half.send(pattern(0, 1_000_000));
        eventually("the upload reaches the disk", || server.receiving() > 0);
        let writers = thread::scope(|scope| {
            let writers: Vec<_> = (0..2)
                .map(|n| {
                    scope.spawn({
                        let server = &server;
                        move || write_until_killed(server, cycle * 2 + n)
                    })
                })
                .collect();
            let comes = || dir.names().len() >= acknowledged.len() + 200;
            eventually("enough is stored", comes);
            server.signal(Signal::KILL);
            let all = writers.into_iter();
            let all = all.flat_map(|writer| writer.join().expect("a writer"));
            all.collect::<Vec<_>>()
        });
        let is_right = writers.len() >= 100;
        assert!(
            is_right,
            "only {} writes before the kill prove little",
            writers.len()
        );
        acknowledged.extend(writers);
        assert_eq!(server.exit(), None);
        server = Launch::new(&[]).on(&dir).start();
        dir.assert_nothing_staged();
        for (key, seed) in &acknowledged {
            assert!(dir.read(key) == value(*seed), "{key} after kill {cycle}");
        }
        assert_eq!(server.get("half").status, 404);
        let (key, seed) = acknowledged.last().expect("a key");
        assert!(server.get(key).body == value(*seed), "GET /{key}");
    }
}

/// Stores key after key until the connection breaks (or the test has clearly failed); returns the acknowledged ones.
fn write_until_killed(server: &TestServer, writer: u64) -> Vec<(String, u64)> {
    let mut connection = server.connect();
    let mut acknowledged = Vec::new();
    for n in 0..3000 {
        let (key, seed) = (format!("w{writer}-{n}"), writer * 1_000_000 + n);
        let value = value(seed);
        let request = [put_head(&key, value.len()).as_bytes(), &value].concat();
        match connection
            .offer(request)
            .ok()
            .and_then(|()| connection.try_head())
        {
            Some(answer) => assert_eq!(answer.status, 200, "PUT /{key}"),
            None => break,
        }
        acknowledged.push((key, seed));
    }
    acknowledged
}

fn value(seed: u64) -> Vec<u8> {
    pattern(seed, usize::try_from(seed % 997).expect("small") * 31)
}
