//! Proves health and readiness: alive while the process runs, ready only while a value can be stored, and one line with
//! the reason when it is not ready.

use crate::support::prelude::*;

#[track_caller]
fn assert_alive(server: &TestServer) {
    assert_eq!(server.get("-/healthz").status, 200);
}

#[test]
fn a_server_that_serves_is_ready() {
    let server = TestServer::start(by_engine(&["--min-free", "1"], &[]));
    assert_eq!(server.ready(), (200, "ready\n".to_owned()));
    server.dir.assert_holds(&[]);
    server.dir.assert_nothing_staged();
    assert_eq!(server.get("-/ready").must("cache-control"), "no-store");
}

#[test]
fn below_min_free_the_server_is_ready_for_reads_and_refuses_uploads() {
    directory_only!("free space");
    let server = TestServer::start(&["--min-free", "1000TB"]);
    server.dir.place("placed", "value");
    let (status, why) = server.ready();
    assert_eq!(status, 200);
    assert!(
        why.starts_with("ready for reads: uploads are refused: ") && why.contains("--min-free"),
        "{why}"
    );
    assert_eq!(why.lines().count(), 1, "{why}");
    let metric = "data_server_uploads_refused_for_space";
    assert_eq!(Scrape::of(server.addr).count(metric, &[]), 1);
    assert_alive(&server);
    assert_eq!(server.get("placed").body, b"value");
    for len in [0, 1, 100_000] {
        assert_eq!(server.put("k", vec![b'x'; len]).status, 507, "{len}");
    }
    assert_eq!(server.ask("DELETE", "placed").status, 200);
}

#[test]
fn free_space_is_of_the_values_file_system_and_measured_again() {
    directory_only!("free space");
    let mount = needed!(Mount::tmpfs("size=4m", "readiness on a disk that fills up"));
    let server = Launch::new(&["--min-free", "2MiB"]).on(&mount.dir());
    let server = server.start();
    assert_eq!(server.ready().0, 200);
    server.store("large", vec![0; 3 << 19]);
    let fill = server.dir.outside("fill");
    std::fs::write(&fill, vec![0; 1 << 20]).expect("another program's file");
    let is_missed = || server.ready().1.starts_with("ready for reads: ");
    assert_eq!(server.put("other", vec![0; 1 << 20]).status, 507);
    eventually("the space is missed", is_missed);
    assert_eq!(server.ask("DELETE", "large").status, 200);
    eventually("the space is back", || !is_missed());
    server.store("other", vec![0; 1 << 19]);
}

#[test]
fn a_disk_that_refuses_writes_is_not_ready() {
    directory_only!("free space");
    let mount = needed!(Mount::ext4("readiness on a disk that became read-only"));
    let server = Launch::new(&["--min-free", "0"]).on(&mount.dir()).start();
    assert_eq!(server.ready().0, 200);
    mount.fail();
    eventually("the disk's refusal shows", || server.ready().0 == 503);
    let why = server.ready().1;
    let expected = "not ready: the disk refuses writes: the file system is read-only\n";
    assert_eq!(why, expected);
    assert_alive(&server);
}

#[test]
fn without_the_journal_that_disk_should_have_the_server_is_ready_and_says_what_that_costs() {
    directory_only!("the journal");
    let left_out = "readiness without a journal";
    let unknown = "it is not known that this file system tells whether files could be written";
    let small = "its file system is too small for one";
    let mounts = [
        (Mount::tmpfs("size=64m", left_out), unknown),
        (Mount::ext4(left_out), small),
    ];
    for (mount, why) in mounts {
        let Some(mount) = mount else { continue };
        let args = ["--durability", "disk", "--min-free", "0"];
        let server = Launch::new(&args).on(&mount.dir()).start();
        let text =
            format!("ready, but without a journal, as {why}: each write is synced by itself\n");
        assert_eq!(server.ready(), (200, text));
        server.event(&format!(
            "no journal: {why}; with --durability disk each write is now synced by itself, which makes small ones 3 to 6 times slower than with one"
        ));
        drop(server);
        // Who wants none is told of none.
        let args = [&args[..], &["--journal", "off"]].concat();
        let server = Launch::new(&args).on(&mount.dir()).start();
        assert_eq!(server.ready(), (200, "ready\n".to_owned()));
    }
}

#[test]
fn a_full_disk_is_ready_for_reads_alone_also_without_a_minimum() {
    directory_only!("free space");
    let mount = needed!(Mount::tmpfs("size=2m", "readiness on a full disk"));
    let server = Launch::new(&["--min-free", "0"]).on(&mount.dir()).start();
    let _ = std::fs::write(server.dir.outside("fill"), vec![0; 4 << 20]);
    eventually("the full disk shows", || {
        server.ready()
            == (
                200,
                "ready for reads: uploads are refused: no space left on the device\n".to_owned(),
            )
    });
}

#[test]
fn a_read_only_server_does_not_probe_the_disk() {
    directory_only!("free space");
    let dir = DataDir::temporary();
    dir.place("k", "v");
    let server = Launch::new(&["--read-only", "--min-free", "1000TB"]);
    let server = server.on(&dir).start();
    assert_eq!(server.ready().0, 200);
}

/// With any number of requests the server probes the disk at most once a second.
#[test]
fn many_requests_share_one_probe_of_the_disk() {
    directory_only!("free space");
    let left_out = "how often the disk is asked";
    let trace = needed!(Trace::with(&["-e", "trace=openat2"], left_out));
    let mut server = trace
        .around(Launch::new(&["--threads", "1", "--min-free", "0"]))
        .start();
    let mut raw = server.connect();
    let began = std::time::Instant::now();
    for _ in 0..1000 {
        assert_eq!(raw.get("-/ready").status, 200);
    }
    let seconds = usize::try_from(began.elapsed().as_secs()).expect("few");
    drop(raw);
    server.stop();
    let calls = trace.calls();
    let staged = calls.iter().filter(|call| call.args.contains("O_TMPFILE"));
    // One more was the probe at the start.
    let asked = staged.count() - 1;
    let is_right = (1..=seconds + 1).contains(&asked);
    assert!(is_right, "{asked} times in {seconds} s");
}

/// During a drain readiness reports it until the end.
#[test]
fn a_draining_server_is_alive_and_not_ready() {
    let mut server = TestServer::start(&["--threads", "1", "--admin", "127.0.0.1:0"]);
    let admin = server.admin();
    let ready = || {
        let answer = Raw::connect(admin).get("-/ready");
        (answer.status, answer.text())
    };
    assert_eq!(ready().0, 200);
    let mut upload = server.connect();
    upload.send(put_head("k", 10));
    upload.send("half ");
    let in_flight = || Scrape::of(admin).only("data_server_uploads_in_flight");
    eventually("the upload is in flight", || in_flight() > 0.0);
    server.signal(rustix::process::Signal::TERM);
    let comes = || ready() == (503, "not ready: draining\n".to_owned());
    eventually("it drains", comes);
    let alive =
        Raw::connect(admin).ask("GET /-/healthz HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
    assert_eq!(alive.status, 200);
    upload.send("value");
    assert_eq!(upload.answer().status, 200);
    assert_eq!(server.exit(), Some(0));
}

/// A disk that hangs blocks one thread and one probe. The server is ready again once the disk answers.
#[test]
fn a_disk_that_does_not_answer_is_not_ready() {
    directory_only!("free space");
    // The first call of each thread: at the start, which takes longer for it, and on the disk thread of the probe.
    let options = words("-e trace=fstatfs -e inject=fstatfs:delay_enter=4000000:when=1");
    let trace = needed!(Trace::with(&options, "readiness on a disk that hangs"));
    let server = trace.around(Launch::new(&["--threads", "1"])).start();
    let silent = (
        503,
        "not ready: the disk has not answered for 2 s\n".to_owned(),
    );
    assert_eq!(server.ready(), silent);
    assert_alive(&server);
    server.store("k", "v");
    eventually("the disk answers", || server.ready().0 == 200);
}
