//! Signals: SIGTERM sent twice, as `timeout` does, and signals that ended the server without a drain.

use crate::support::prelude::*;

const STOPS: usize = 12;

/// Half an upload: a drain waits for its other half.
fn half_put(server: &TestServer) -> Raw {
    let mut writer = server.connect();
    writer.send(put_head("k", 4));
    writer.send("va");
    eventually("the server's kernel has it", || writer.is_taken());
    writer
}

#[track_caller]
fn finish_put(writer: &mut Raw) {
    writer.send("lu");
    assert_eq!(writer.answer().status, 200);
}

/// One stop with a second signal during the drain: the time between the signals, and the exit code.
fn doubled(again: Signal) -> (Duration, Option<i32>) {
    let mut server = TestServer::start(&["--threads", "1"]);
    let mut writer = half_put(&server);
    let start = Instant::now();
    server.signal(Signal::TERM);
    server.event("draining");
    server.signal(again);
    let apart = start.elapsed();
    let _ = writer.offer("lu");
    // Not an assertion: the exit code shows whether the server has ended.
    let _ = writer.try_head();
    (apart, server.exit())
}

#[test]
fn a_signal_sent_twice_within_half_a_second_is_one() {
    let stops = (0..STOPS * 20).map(|n| doubled([Signal::TERM, Signal::INT][n % 2]));
    // On a busy machine the signals may be further apart, and then they count as two: others are tried.
    let in_time = stops.filter(|(apart, _)| *apart < Duration::from_millis(400));
    let codes: Vec<_> = in_time.take(STOPS).map(|(_, code)| code).collect();
    let drained = codes.iter().filter(|&&code| code == Some(0)).count();
    assert_eq!(drained, codes.len(), "{codes:?}");
    assert_eq!(codes.len(), STOPS, "stops in time");
}

/// `timeout` signals the server, and then its process group.
#[test]
fn stops_by_timeout_are_drains() {
    let stops = by_engine(STOPS, 4);
    let stop = || {
        // The start on a store tries it first.
        let timeout = ["timeout", "--preserve-status", by_engine("3", "8")];
        let mut server = Launch::new(&["--threads", "2"]).through(&timeout).start();
        let mut writer = half_put(&server);
        eventually("the drain has begun", || server.refuses_connections());
        writer.send("lu");
        let answer = writer.try_head().map(|answer| answer.status);
        (server.exit(), answer)
    };
    let codes: Vec<_> = thread::scope(|scope| {
        let stopping: Vec<_> = (0..stops).map(|_| scope.spawn(stop)).collect();
        let codes = stopping.into_iter().map(|s| s.join().expect("a stop"));
        codes.collect()
    });
    assert_eq!(codes, vec![(Some(0), Some(200)); stops]);
}

#[test]
fn sigquit_drains() {
    let mut server = TestServer::start(&[]);
    let mut writer = half_put(&server);
    server.signal(Signal::QUIT);
    eventually("the drain has begun", || server.refuses_connections());
    finish_put(&mut writer);
    assert_eq!(server.exit(), Some(0));
    assert_eq!(server.dir.read("k"), b"valu");
}

#[test]
fn sighup_sigusr1_and_sigusr2_are_logged_and_ignored() {
    clear_only!("SIGHUP rereads the certificates");
    let mut server = TestServer::start(&[]);
    let mut writer = half_put(&server);
    server.signal(Signal::HUP);
    server.event("reload: nothing to reread; options change with a restart");
    for (signal, name) in [(Signal::USR1, "SIGUSR1"), (Signal::USR2, "SIGUSR2")] {
        let ignored = || server.events("signal ignored: it has no meaning here");
        let before = ignored().len();
        server.signal(signal);
        eventually("the signal is logged", || ignored().len() > before);
        assert_eq!(ignored()[before].field("signal"), name);
    }
    finish_put(&mut writer);
    server.stop();
}

/// From the line on standard output on, a signal drains the server.
#[test]
fn a_signal_right_after_the_start_drains() {
    for signal in [Signal::TERM, Signal::QUIT, Signal::HUP, Signal::USR1] {
        let mut server = TestServer::start(&["--threads", "1"]);
        server.signal(signal);
        if matches!(signal, Signal::HUP | Signal::USR1) {
            assert_eq!(server.get("gone").status, 404);
            server.signal(Signal::TERM);
        }
        assert_eq!(server.exit(), Some(0), "{signal:?}");
    }
}
