//! On mergerfs and bindfs every new key was 500, although the start had no error and `/-/ready` was 200: a rename
//! without replacing is EINVAL there. The start now tries the ways to publish, and readiness tries the chosen one
//! again.

use crate::support::prelude::*;

fn mounted(program: Fuse) -> Option<Mount> {
    Mount::fuse(program, &format!("values on {program:?}"))
}

/// A PUT with these header lines.
fn put_with(server: &TestServer, key: &str, lines: &str, value: &[u8]) -> Response {
    let lines = format!("{lines}Content-Length: {}\r\n", value.len());
    let mut raw = server.begin("PUT", &format!("/{key}"), &lines);
    // The server reads only the beginning of a refused value.
    let _ = raw.offer(value);
    raw.answer()
}

/// On some of these file systems a file that is removed while open keeps a name until it is closed.
fn assert_comes_to_hold<K: AsRef<[u8]>>(server: &TestServer, keys: &[K]) {
    let mut expected: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
    expected.sort_unstable();
    eventually("the directory holds the keys alone", || {
        server.dir.names() == expected
            && fs::read_dir(server.dir.staging()).is_ok_and(|dir| dir.count() == 0)
    });
}

/// The contract of the store, with values that stay in memory until they are published, and with larger ones.
pub(crate) fn assert_contract(server: &TestServer) {
    let (status, text) = server.ready();
    let is_right = status == 200 && text.starts_with("ready");
    assert!(is_right, "{status} {text}");
    assert_contract_below(server, "");
    assert_contract_below(server, "in/folders/");
}

/// The same, of keys that begin with `folder`.
fn assert_contract_below(server: &TestServer, folder: &str) {
    let keys = ["chunked", "created", "k", "typed"].map(|name| format!("{folder}{name}"));
    let [chunked, created, k, typed] = &keys;
    for &size in scaled(&[0, 20_000, 400_000][..], &[0, 100, 20_000, 5_000_000]) {
        let (old, new) = (pattern(1, size), pattern(2, size));
        assert_eq!(server.put(k, &old).status, 200, "a new key, {size}");
        assert!(server.get(k).body == old, "{size}");
        let replaced = server.put(k, &new);
        assert_eq!(replaced.status, 200, "a replaced key, {size}");
        let got = server.get(k);
        assert!(got.body == new && server.dir.read(k) == new);
        // The file keeps the version that it was given.
        assert_eq!(got.must("etag"), replaced.must("etag"), "{size}");

        let create = "If-None-Match: *\r\n";
        assert_eq!(put_with(server, k, create, &old).status, 412, "{size}");
        assert_eq!(put_with(server, created, create, &old).status, 200);
        let etag = server.get(k).must("etag").to_owned();
        let known = format!("If-Match: {etag}\r\n");
        assert_eq!(put_with(server, k, &known, &old).status, 200, "{size}");
        assert_eq!(put_with(server, k, &known, &new).status, 412, "{size}");
        assert!(server.get(k).body == old, "{size}");

        assert_eq!(server.put_chunked(chunked, &new).status, 200, "{size}");
        assert!(server.get(chunked).body == new, "{size}");
        let own_type = "Content-Type: text/x-own\r\n";
        assert_eq!(put_with(server, typed, own_type, &new).status, 200);
        let got = server.get(typed);
        assert!(got.body == new && got.must("content-type") == "text/x-own");
        assert_comes_to_hold(server, &keys);

        for key in &keys {
            assert_eq!(server.ask("DELETE", key).status, 200, "{key}, {size}");
            assert_eq!(server.get(key).status, 404, "{key}, {size}");
        }
        assert_comes_to_hold::<&str>(server, &[]);
    }
}

/// Readers of a value that is replaced all the time get it whole, without errors.
fn assert_readers_meet_no_error(server: &TestServer) {
    let done = Done::default();
    thread::scope(|scope| {
        let _done = done.when_dropped();
        for size in [3_000, 100_000] {
            let done = &done;
            scope.spawn(move || {
                let key = format!("hot-{size}");
                let mut connection = server.connect();
                let mut seed = 0;
                while !done.is_said() {
                    seed += 1;
                    assert_eq!(connection.put(&key, pattern(seed, size)).status, 200);
                }
            });
        }
        let mut connection = server.connect();
        let mut found = 0;
        while found < scaled(200, 600) {
            for size in [3_000, 100_000] {
                let got = connection.get(&format!("hot-{size}"));
                assert!(matches!(got.status, 200 | 404), "{got:?}");
                found += usize::from(got.status == 200);
                assert!(got.status == 404 || got.body.len() == size);
            }
        }
    });
    for key in ["hot-3000", "hot-100000"] {
        assert_eq!(server.ask("DELETE", key).status, 200);
    }
}

/// The contract, a restart, and kill -9 in the middle of uploads.
fn assert_serves(program: Fuse) {
    let mount = needed!(mounted(program));
    let mut server = Launch::new(&["--min-free", "0"]).on(&mount.dir()).start();
    assert_contract(&server);
    let tried = server.event("tried the directory");
    assert!(tried.field("file_system").starts_with("fuse"), "{tried:?}");
    assert_eq!(tried.field("publishing"), "named file, linked");
    assert_readers_meet_no_error(&server);

    let value = pattern(7, 300_000);
    server.store("kept", &value);
    let etag = server.get("kept").must("etag").to_owned();
    server.stop();
    let mut server = Launch::new(&["--min-free", "0"]).on(&mount.dir()).start();
    let got = server.get("kept");
    assert!(got.body == value && got.must("etag") == etag, "{etag}");

    let mut half = server.connect();
    half.send(put_head("half", 2_000_000));
    half.send(pattern(0, 1_000_000));
    let staged = || fs::read_dir(server.dir.staging()).expect("staging").count();
    eventually("the upload is in staging", || staged() > 0);
    server.kill();
    let mut server = Launch::new(&["--min-free", "0"]).on(&mount.dir()).start();
    assert_comes_to_hold(&server, &["kept"]);
    assert!(server.get("kept").body == value);
    assert_eq!(server.ask("DELETE", "kept").status, 200);
    assert_contract(&server);
    server.stop();
}

#[test]
fn file_systems_of_fuse_have_the_same_contract() {
    directory_only!("the file system");
    for program in [Fuse::Mergerfs, Fuse::Bindfs, Fuse::Overlayfs] {
        assert_serves(program);
    }
}

/// The kernel reports success for a sync of a directory if the FUSE program does not implement it.
#[test]
fn durability_disk_is_refused_without_directory_syncs() {
    directory_only!("the file system");
    for program in [Fuse::Mergerfs, Fuse::Bindfs] {
        let mount = needed!(mounted(program));
        let ended = Launch::new(&["--durability", "disk"]).on(&mount.dir());
        ended.run().says(1, "syncs directories");
    }
    let mount = needed!(mounted(Fuse::Overlayfs));
    let args = ["--durability", "disk", "--min-free", "0"];
    assert_contract(&Launch::new(&args).on(&mount.dir()).start());
}

/// strace injects the errors of a file system that supports no way to publish.
#[test]
fn a_directory_without_a_way_to_publish_is_exit_code_1() {
    directory_only!("the file system");
    tracing_only!("a directory without a way to publish");
    let inject = "inject=linkat:error=EINVAL";
    let strace = ["strace", "-D", "-f", "-o", "/dev/null", "-e", inject];
    let ended = Launch::new(&[]).through(&strace).run();
    ended.says(1, "values cannot be published in");
    ended.says(1, "named file, linked (publish: Invalid argument");
}

/// NFS and FUSE answer so where a file is replaced between the look at its name and the use of it: a GET of a value
/// that was replaced without rest on mergerfs was 500.
#[test]
fn a_stale_name_is_looked_up_again() {
    directory_only!("the file system");
    tracing_only!("stale names");
    let server = TestServer::start(&["--min-free", "0", "--cache", "0"]);
    let inject = "inject=openat2,unlinkat:error=ESTALE:when=2+3";
    let tracer = Attached::to(&server, &["-e", inject]);
    for size in [1, 3_000, 100_000] {
        for seed in 1..20 {
            let value = pattern(seed, size);
            assert_eq!(server.put("a/b", &value).status, 200, "{size}, {seed}");
            assert!(server.get("a/b").body == value, "{size}, {seed}");
        }
        assert_eq!(server.ask("DELETE", "a/b").status, 200, "{size}");
        assert_eq!(server.get("a/b").status, 404, "{size}");
    }
    tracer.detach();
}

/// A server that can stage a value but not publish it is not ready.
#[test]
fn a_server_that_cannot_publish_is_not_ready() {
    directory_only!("the file system");
    tracing_only!("publishing that fails");
    let server = TestServer::start(&["--min-free", "0"]);
    assert_eq!(server.ready().0, 200);
    let tracer = Attached::to(&server, &["-e", "inject=linkat,renameat2:error=EINVAL"]);
    assert_eq!(server.put("new", "value").status, 500);
    eventually("it is not ready", || {
        server.ready()
            == (
                503,
                "not ready: the disk refuses writes: the file system failed (publish)\n".to_owned(),
            )
    });
    tracer.detach();
    eventually("it is ready again", || server.ready().0 == 200);
    server.store("new", "value");
    server.dir.assert_holds(&["new"]);
}

/// A probe finds it, without a PUT that failed.
#[test]
fn a_server_that_can_no_longer_publish_is_not_ready() {
    directory_only!("the file system");
    let (dir, left_out) = (DataDir::temporary(), "a directory that loses its rights");
    let server = needed!(served_by_nobody(&dir, left_out));
    for (mode, status) in [(0o777, 200), (0o555, 503), (0o777, 200)] {
        chmod(dir.path(), mode);
        eventually("the change shows", || server.ready().0 == status);
    }
}
