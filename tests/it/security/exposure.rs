//! Proves that a server which other machines reach starts only when it is closed to them, or when it is said in words
//! that it is open; and that a server which they do not reach starts without either.

use crate::support::prelude::*;

/// What lets a server start that other machines reach.
const REMEDIES: [&str; 3] = ["--access FILE", "--read-only", "--allow-anonymous"];

/// Asserts that it was refused for this place, with each remedy, before anything was made.
#[track_caller]
fn assert_refused(ended: &Ended, place: &str) {
    let said = ended.stderr.trim_end();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{said}");
    let starts_with = format!("data-server: --listen {place}: other machines reach it");
    assert!(said.starts_with(&starts_with), "{said}");
    let is_right = REMEDIES.iter().all(|remedy| said.contains(remedy));
    assert!(is_right, "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// One that passes a socket of this address as descriptor 3.
fn passing(args: &[&str], address: &str) -> Launch {
    let socket = TcpListener::bind(address).expect("a port");
    Launch::new(args).passing(&socket)
}

#[test]
fn a_server_that_other_machines_reach_and_anyone_may_write_to_is_refused() {
    for place in ["0.0.0.0:0", "[::ffff:0.0.0.0]:0", "192.0.2.1:80"] {
        let place_in_the_clear = format!("http://{place}");
        let dir = TempDir::new().expect("a directory");
        let values = dir.path().join("values");
        let values_dir = values.to_str().expect("text");
        let places = ["--listen", "127.0.0.1:0", "--listen", &place_in_the_clear];
        let args = [&["--dir", values_dir][..], &places].concat();
        assert_refused(&Launch::new(&args).bare().run(), place);
        assert!(!values.exists(), "{place}");
    }
    assert_refused(&passing(&[], "0.0.0.0:0").in_the_clear().run(), "fd:3");
    let activated = TcpListener::bind("0.0.0.0:0").expect("a port");
    assert_refused(&Launch::new(&[]).activated_by(&activated).run(), "fd:3");
}

#[test]
fn it_starts_when_it_is_read_only_or_allowed_in_words() {
    let variable = |name| Launch::new(&[]).env(name, "1");
    for launch in [
        Launch::new(&["--read-only"]),
        Launch::new(&["--allow-anonymous"]),
        variable("DATA_SERVER_READ_ONLY"),
        variable("DATA_SERVER_ALLOW_ANONYMOUS"),
    ] {
        launch.listen("0.0.0.0:0").start().stop();
    }
    passing(&["--allow-anonymous"], "0.0.0.0:0").start().stop();
    let off = variable("DATA_SERVER_ALLOW_ANONYMOUS").env("DATA_SERVER_ALLOW_ANONYMOUS", "off");
    assert_refused(&off.listen("0.0.0.0:0").in_the_clear().run(), "0.0.0.0:0");
}

#[test]
fn what_does_not_serve_is_not_refused() {
    let server = Launch::new(&[]).in_the_clear().start();
    let everywhere = format!("0.0.0.0:{}", server.addr.port());
    let health = Launch::new(&["health"]).bare();
    let ended = health.env("DATA_SERVER_LISTEN", everywhere).run();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}
