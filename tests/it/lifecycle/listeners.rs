//! Proves that a server listens at several places at once, each under the same rules, and what a unix socket is like:
//! its file comes and goes with the server, and its clients are known by their processes.

use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::process;

use rustix::process::getuid;

use crate::support::prelude::*;

/// A directory for a socket, its path, and the place of it.
fn place() -> (TempDir, PathBuf, String) {
    let dir = TempDir::new().expect("a temporary directory");
    let path = dir.path().join("socket");
    let place = format!("unix:{}", path.display());
    (dir, path, place)
}

/// A server at this unix socket, and on a port of its own.
fn start(place: &str, args: &[&str]) -> TestServer {
    Launch::new(&[args, &["--listen", place]].concat()).start()
}

fn status(raw: &mut Raw, host: &str) -> u16 {
    let request = format!("GET /none HTTP/1.1\r\nHost: {host}\r\n\r\n");
    raw.ask(request).status
}

#[test]
fn every_place_serves_with_each_dispatch() {
    clear_only!("its places are of http");
    for (dispatch, threads) in [
        ("round-robin", "1"),
        ("round-robin", "2"),
        ("reuse-port", "1"),
        ("reuse-port", "2"),
    ] {
        let (_dir, path, place) = place();
        let second = ["--listen", "http://127.0.0.1:0/"];
        let options = ["--dispatch", dispatch, "--threads", threads];
        let mut server = start(&place, &[&second[..], &options].concat());
        server.store("k", "value");
        eventually("all lines are there", || server.stdout_so_far().len() == 3);
        let lines = server.stdout_so_far();
        let ports = lines
            .iter()
            .filter_map(|l| l.strip_prefix("listening on http://"));
        let ports: Vec<_> = ports.collect();
        assert_eq!(ports.len(), 2, "{lines:?}");
        let expected = format!("listening on {place}");
        assert_eq!(lines[1], expected, "in the order of the options");
        for _ in 0..8 {
            for port in &ports {
                let mut raw = Raw::connect(port.parse().expect("an address"));
                assert_eq!(raw.get("k").body, b"value", "{dispatch} {threads} {port}");
            }
            let body = Raw::connect_unix(&path).get("k").body;
            assert_eq!(body, b"value", "{dispatch}");
        }
        server.stop();
        assert_eq!(server.stdout().len(), 3);
        assert!(!path.exists(), "{dispatch} {threads}: the file is left");
    }
}

#[test]
fn long_values_pass_a_unix_socket_both_ways() {
    let value = pattern(17, 3 << 20);
    for args in [&[][..], &["--discard"]] {
        let (_dir, path, place) = place();
        let server = start(&place, args);
        let mut raw = Raw::connect_unix(&path);
        for len in [1, 100 << 10, 300 << 10, 3 << 20] {
            assert_eq!(raw.put("k", &value[..len]).status, 200, "{len}");
            let got = raw.get("k");
            let is_right = got.status == 404 || got.body == value[..len];
            assert!(is_right && (got.status == 404) != args.is_empty(), "{len}");
        }
        assert_eq!(server.get("k").status == 200, args.is_empty(), "over TCP");
    }
}

/// Asserts that a server does not start at `place`, and says why.
fn assert_refused(place: &str, why: &str) {
    let ended = Launch::new(&["--listen", place]).run();
    ended.says(4, &format!("cannot listen on {place}: {why}"));
}

#[test]
fn a_path_where_no_socket_can_be_is_told_with_what_to_do() {
    let (dir, _, _) = place();
    let at = dir.path().display();
    let long = format!("unix:{at}/{}", "x".repeat(108));
    let missing = format!("unix:{at}/missing/socket");
    let too_long = "the path of a unix socket has at most 107 bytes".to_owned();
    let no_folder = format!("make the folder {at}/missing");
    for (place, advice) in [(long, too_long), (missing, no_folder)] {
        Launch::new(&["--listen", &place]).run().says(4, &advice);
    }
}

#[test]
fn a_socket_left_by_a_dead_server_is_replaced_and_a_live_one_is_not() {
    let (_dir, path, place) = place();
    let mut first = start(&place, &[]);
    assert_refused(&place, "another process listens there");
    assert!(first.get("none").status == 404 && path.exists());
    first.kill();
    let is_socket =
        |path: &Path| fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    assert!(is_socket(&path), "nobody removed it");
    let mut second = start(&place, &[]);
    assert_eq!(status(&mut Raw::connect_unix(&path), "t"), 404);
    second.stop();
    assert!(!path.exists());
    File::create(&path).expect("a file");
    assert_refused(&place, "there is a file, and it is no socket");
    assert!(path.exists());
}

#[test]
fn the_log_names_the_process_behind_a_unix_socket() {
    let (_dir, path, place) = place();
    let mut server = start(&place, &["--access-log"]);
    status(&mut Raw::connect_unix(&path), "t");
    server.stop();
    let event = server.logged("access").remove(0);
    let peer = format!("unix:uid={},pid={}", getuid().as_raw(), process::id());
    assert_eq!(event.field("peer"), peer);
}

#[test]
fn each_place_has_its_own_rule_for_names() {
    clear_only!("its places are of http");
    let (_dir, path, place) = place();
    for (allowed, elsewhere) in [("", 404), ("other.example", 421)] {
        let args = ["--listen", "127.0.0.1:0", "--listen", &place];
        let launch = Launch::new(&[&args[..], &["--allow-anonymous"]].concat()).listen("0.0.0.0:0");
        let server = launch.env("DATA_SERVER_ALLOWED_HOST", allowed).start();
        eventually("all lines are there", || server.stdout_so_far().len() == 3);
        let last = server.stdout_so_far().remove(2);
        let port = last.strip_prefix("listening on http://0.0.0.0:");
        let port: u16 = port.and_then(|port| port.parse().ok()).expect("a port");
        let everywhere = ([127, 0, 0, 1], port).into();
        let status_of = |raw: Raw, host| status(&mut { raw }, host);
        for _ in 0..2 {
            // What one place allows is not remembered for another.
            let evil = "evil.example";
            assert_eq!(status_of(Raw::connect(everywhere), evil), elsewhere);
            assert_eq!(status_of(Raw::connect_unix(&path), evil), elsewhere);
            assert_eq!(status_of(server.connect(), evil), 421);
            assert_eq!(status_of(server.connect(), "localhost"), 404);
        }
    }
}

#[test]
fn a_unix_socket_can_be_passed() {
    let (_dir, path, place) = place();
    let held = UnixListener::bind(&path).expect("a socket");
    let launch = Launch::new(&["--listen", "fd:3"]).with_third("", held.into());
    let mut server = launch.start();
    assert_eq!(status(&mut Raw::connect_unix(&path), "t"), 404);
    server.stop();
    assert_eq!(server.stdout()[0], format!("listening on {place}"));
    assert!(path.exists(), "it is not the server's to remove");
}

#[test]
fn each_socket_that_is_passed_is_listened_on_but_that_of_the_admin_pages() {
    for (args, lines) in [(&[][..], 2), (&["--admin", "fd:4"], 1)] {
        let held = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let variables = "export LISTEN_PID=$$ LISTEN_FDS=2; exec 4<&0;";
        let launch = Launch::new(args).with_third(variables, held.into());
        let mut server = launch.listen("").start();
        assert_eq!(server.get("none").status, 404);
        server.stop();
        assert_eq!(server.stdout().len(), lines, "{:?}", server.stdout());
    }
}

/// Two servers of different directories shared the clients of one address: of 40 acknowledged keys 22 were 404.
#[test]
fn two_servers_never_share_an_address() {
    for first in ["reuse-port", "round-robin"] {
        let server = TestServer::start(&["--dispatch", first]);
        for second in ["reuse-port", "round-robin"] {
            let second = Launch::new(&["--dispatch", second]).listen(&server.addr.to_string());
            second.run().says(4, "");
        }
    }
}

/// The address of both families alone is both, so it leaves IPv4 to the other where both are named.
#[test]
fn the_addresses_of_both_families_are_listened_on_together() {
    let (v4, v6) = (
        SocketAddr::from(([127, 0, 0, 1], 0)),
        SocketAddr::from(([0_u16, 0, 0, 0, 0, 0, 0, 1], 0)),
    );
    if TcpListener::bind(v6).is_err() {
        data_server_testing::left_out("IPv6", "this machine has none");
        return;
    }
    for dispatch in ["round-robin", "reuse-port"] {
        let options = ["--allow-anonymous", "--dispatch", dispatch];
        let alone = Launch::new(&options).in_the_clear();
        let server = alone.listen("[::]:0").start();
        // A port that is free in both families.
        let port = server.addr.port();
        let ask_both = |_: &TestServer| {
            for mut at in [v4, v6] {
                at.set_port(port);
                let mut socket = TcpStream::connect(at).expect("a connection");
                socket
                    .write_all(get_head("k").as_bytes())
                    .expect("a request");
                let mut begin = [0; 12];
                socket.read_exact(&mut begin).expect("an answer");
                assert_eq!(&begin, b"HTTP/1.1 404", "{at}");
            }
        };
        ask_both(&server);
        drop(server);
        for [first, second] in [["[::]", "0.0.0.0"], ["0.0.0.0", "[::]"]] {
            let places = [first, second].map(|ip| format!("{ip}:{port}"));
            let args = [&options[..], &["--listen", &places[0]]].concat();
            ask_both(&Launch::new(&args).in_the_clear().listen(&places[1]).start());
        }
    }
}
