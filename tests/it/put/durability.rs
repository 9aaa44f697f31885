//! Proves `--durability disk` without a journal by the order of the server's system calls: it syncs the value before it
//! gives it its name, and the name before it sends the answer. A write whose sync fails is never acknowledged.

use crate::support::prelude::*;

const CALLS: &str =
    "trace=fsync,fdatasync,linkat,rename,renameat,renameat2,unlinkat,sendto,sendmsg";

fn traced(left_out: &str) -> Option<(Trace, TestServer)> {
    let trace = Trace::with(&["-e", CALLS, "-s", "300"], left_out)?;
    let args = ["--threads", "1", "--durability", "disk", "--journal", "off"];
    let server = trace.around(Launch::new(&args)).start();
    Some((trace, server))
}

/// The first call after `since` that is one of `names` and has `part` among its arguments.
#[track_caller]
fn next<'a>(calls: &'a [Call], since: usize, names: &[&str], part: &str) -> &'a Call {
    let fits = |call: &&Call| {
        call.began > since && names.contains(&call.name.as_str()) && call.args.contains(part)
    };
    let found = calls.iter().filter(fits).min_by_key(|call| call.began);
    let found = found.unwrap_or_else(|| panic!("no {names:?} of {part} after {since}: {calls:#?}"));
    assert!(!found.result.starts_with('-'), "{found:?}");
    found
}

/// How strace writes the descriptor of the data directory.
fn directory(server: &TestServer) -> String {
    let path = server.dir.path().canonicalize().expect("the directory");
    format!("<{}>", path.display())
}

#[test]
fn the_value_is_synced_then_its_name_then_the_answer_is_sent() {
    plain_only!("its system calls");
    directory_only!("durability");
    let (trace, mut server) = needed!(traced("the order of syncs"));
    let directory = directory(&server);
    let put = |key: &str, seed: u64, size: usize| {
        let answer = server.put(key, pattern(seed, size));
        assert_eq!(answer.status, 200);
        answer.header("etag").expect("an ETag").to_owned()
    };
    // New and replaced, in memory and in a file.
    let etags = [
        ("small", put("small", 1, 100)),
        ("small", put("small", 2, 100)),
        ("large", put("large", 3, 700_000)),
        ("large", put("large", 4, 700_000)),
    ];
    assert_eq!(server.ask("DELETE", "small").status, 200);
    assert_eq!(server.ask("DELETE", "gone").status, 404);
    server.stop();

    let calls = trace.calls();
    let mut since = next(&calls, 0, &["fsync"], &directory).ended;
    for (key, etag) in &etags {
        let name = format!("{directory}, \"{key}\"");
        let value_synced = next(&calls, since, &["fsync", "fdatasync"], "");
        assert!(!value_synced.args.contains(&directory), "{value_synced:?}");
        // The link of a replacement fails first, and then it is renamed.
        let names = ["linkat", "rename", "renameat", "renameat2"];
        let linked = calls.iter().filter(|call| {
            names.contains(&call.name.as_str())
                && call.args.contains(&name)
                && call.began > since
                && call.result == "0"
        });
        let linked = linked.min_by_key(|call| call.began).expect("a name");
        let name_synced = next(&calls, linked.ended, &["fsync"], &directory);
        let etag = etag.trim_matches('"');
        let answered = next(&calls, since, &["sendto", "sendmsg"], etag);
        let is_right = value_synced.ended < linked.began;
        assert!(is_right, "{value_synced:?}, {linked:?}");
        let is_right = name_synced.ended < answered.began;
        assert!(is_right, "{name_synced:?}, {answered:?}");
        since = answered.ended;
    }
    let text = format!("{directory}, \"small\"");
    let removed = next(&calls, since, &["unlinkat"], &text);
    let synced = next(&calls, removed.ended, &["fsync"], &directory);
    let answered = next(&calls, since, &["sendto", "sendmsg"], "HTTP/1.1 200");
    assert!(synced.ended < answered.began, "{synced:?}, {answered:?}");
}

#[test]
fn a_directory_created_at_the_start_is_synced_first() {
    directory_only!("durability");
    let left_out = "the syncs of a new directory's name";
    let trace = needed!(Trace::with(&["-e", "trace=fsync,accept4"], left_out));
    let place = DataDir::temporary();
    let dir = DataDir::at(place.path().join("made/data"));
    let args = ["--durability", "disk", "--journal", "off"];
    let mut server = trace.around(Launch::new(&args).on(&dir)).start();
    assert_eq!(server.get("k").status, 404);
    server.stop();
    let calls = trace.calls();
    let asked = calls.iter().position(|call| call.name == "accept4");
    let synced = &calls[..asked.expect("a connection")];
    let place = place.path().canonicalize().expect("the place");
    for made in ["", "/made", "/made/data", "/made/data/.data-server"] {
        let made = format!("<{}{made}>", place.display());
        let is_synced = |call: &Call| call.args.contains(&made) && call.result == "0";
        assert!(synced.iter().any(is_synced), "{made}: {calls:#?}");
    }
}

#[test]
fn by_default_nothing_waits_for_the_disk() {
    directory_only!("durability");
    let left_out = "that nothing is synced by default";
    let trace = needed!(Trace::with(&["-e", CALLS], left_out));
    let mut server = trace.around(Launch::new(&["--threads", "1"])).start();
    for round in 0..3 {
        server.store("small", pattern(round, 100));
        server.store("large", pattern(round, 700_000));
    }
    assert_eq!(server.ask("DELETE", "small").status, 200);
    server.stop();
    let calls = trace.calls();
    let synced: Vec<_> = calls.iter().filter(|call| call.name == "fsync").collect();
    assert!(synced.is_empty(), "{synced:?}");
}

/// Names are made while earlier ones are being synced: each waits for a sync that begins after it, which others share.
#[test]
fn each_name_is_synced_between_its_link_and_its_answer_and_writers_share_the_syncs() {
    const CLIENTS: usize = 16;
    const EACH: usize = 20;
    directory_only!("durability");
    let (trace, mut server) = needed!(traced("the syncs of many writers"));
    let directory = directory(&server);
    let stored = thread::scope(|scope| {
        let write = |client: usize| {
            let server = &server;
            scope.spawn(move || {
                let mut connection = server.connect();
                let mut store = |key: String| {
                    let answer = connection.put(&key, [b'x'; 100]);
                    assert_eq!(answer.status, 200);
                    (key, answer.must("etag").to_owned())
                };
                (0..EACH).map(|n| store(format!("{client}-{n}"))).collect()
            })
        };
        let writers: Vec<_> = (0..CLIENTS).map(write).collect();
        let stored = writers.into_iter().map(|w| w.join().expect("a writer"));
        stored.collect::<Vec<Vec<(String, String)>>>().concat()
    });
    server.stop();
    assert_eq!(server.dir.names().len(), CLIENTS * EACH);
    let calls = trace.calls();
    let syncs = calls.iter().filter(|call| call.name == "fsync");
    let of_requests = |call: &&Call| !call.args.contains("/.data-server>");
    let syncs = syncs.filter(of_requests);
    let (names, values): (Vec<_>, Vec<_>) = syncs.partition(|c| c.args.contains(&directory));
    assert_eq!(values.len(), CLIENTS * EACH, "each value is on the disk");
    let is_right = (1..CLIENTS * EACH / 2).contains(&names.len());
    assert!(is_right, "{} syncs of the directory", names.len());
    if is_http2() || is_tls() {
        return; // what is framed or sealed shows no answer
    }
    for (key, etag) in stored {
        let linked = next(&calls, 0, &["linkat"], &format!("{directory}, \"{key}\""));
        let answered = next(&calls, 0, &["sendto", "sendmsg"], etag.trim_matches('"'));
        let is_between = |call: &&Call| call.began > linked.ended && call.ended < answered.began;
        let is_synced = names.iter().any(is_between);
        assert!(is_synced, "{key}: {linked:?}, {answered:?}");
    }
}

/// The first sync of each thread fails; strace counts them by thread.
#[test]
fn a_sync_that_fails_is_not_acknowledged_and_the_next_put_works() {
    directory_only!("durability");
    for size in [100, 700_000] {
        let options = ["-e", "trace=fsync", "-e", "inject=fsync:error=EIO:when=1"];
        let trace = needed!(Trace::with(&options, "syncs that fail"));
        let dir = DataDir::temporary();
        // A first start creates and syncs the directories.
        Launch::new(&[]).on(&dir).start().stop();
        dir.place("k", "old");
        let args = ["--threads", "1", "--durability", "disk", "--journal", "off"];
        let server = trace.around(Launch::new(&args).on(&dir)).start();
        let answer = server.put("k", pattern(1, size));
        assert_eq!(answer.status, 500, "the value was not synced: {answer:?}");
        assert_eq!(server.get("k").body, b"old", "the old value stays");
        eventually("nothing is left of it", || server.proc().staged() == 0);
        dir.assert_holds(&["k"]);

        // Now the publisher's first sync of the directory fails, and perhaps another thread's of the value.
        // strace injects one failure for each thread.
        let mut statuses = Vec::new();
        let mut last = 1;
        while statuses.len() < 100 && !statuses.ends_with(&[200; 3]) {
            last += 1;
            statuses.push(server.put("k", pattern(last, size)).status);
        }
        let is_right = statuses.contains(&500);
        assert!(is_right, "no sync of the directory failed: {statuses:?}");
        let is_right = statuses.iter().all(|status| matches!(status, 200 | 500));
        assert!(is_right, "{statuses:?}");
        assert!(statuses.ends_with(&[200; 3]), "{statuses:?}");
        assert!(server.get("k").body == pattern(last, size));
        assert!(dir.read("k") == pattern(last, size));
        dir.assert_holds(&["k"]);
    }
}
