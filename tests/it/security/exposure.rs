//! Proves that a server which other machines reach starts only when it is closed to them, or when it is said in words
//! that it is open; and that a server which they do not reach starts without either.

use crate::support::prelude::*;

/// What lets a server start that other machines reach.
const REMEDIES: [&str; 5] = [
    "--share",
    "--share=upload",
    "--access FILE",
    "--read-only",
    "--allow-anonymous",
];

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

/// Asks as a browser does.
fn page(server: &TestServer, path: &str) -> Response {
    server.request("GET", path, "Accept: text/html\r\n", b"")
}

#[test]
fn what_is_shared_is_read_by_everybody_and_changed_by_nobody() {
    let dir = DataDir::temporary();
    dir.place("photos/one.jpg", "1");
    dir.place(".env", "secret");
    for args in [&["--share"][..], &["--share=read"]] {
        let mut server = Launch::new(args).on(&dir).listen("0.0.0.0:0").start();
        assert_eq!(server.get("photos/one.jpg").body, b"1");
        for method in ["PUT", "DELETE"] {
            for key in ["photos/one.jpg", "new"] {
                let got = server.request(method, &format!("/{key}"), "Content-Length: 0\r\n", b"");
                assert_eq!(got.status, 403, "{method} {key}");
            }
        }
        assert_eq!(server.get(".env").status, 404);
        assert_eq!(server.request("GET", "/-/metrics", "", b"").status, 403);
        let page = page(&server, "/photos/");
        assert!(page.text().contains("data-server</title>"));
        assert!(page.text().contains("one.jpg") && !page.text().contains("sign-in"));
        server.stop();
    }
    // The folder is as it was.
    assert!(!dir.file(".data-server").exists());
    let all = Launch::new(&["--share", "--hide", ""]).on(&dir);
    assert_eq!(all.listen("0.0.0.0:0").start().get(".env").body, b"secret");
}

#[test]
fn what_is_shared_for_uploads_takes_files_that_replace_none() {
    directory_only!("hands in the directory");
    let dir = DataDir::temporary();
    dir.place("one", "1");
    let share = Launch::new(&["--share=upload"]).on(&dir);
    let server = share.listen("0.0.0.0:0").start();
    assert_eq!(server.put("new/two", "2").status, 200);
    assert_eq!(server.put("one", "x").status, 409);
    assert_eq!(server.put(".bashrc", "x").status, 404);
    for (method, path) in [("DELETE", "/one"), ("DELETE", "/new/"), ("MOVE", "/one")] {
        let lines = "Depth: infinity\r\nDestination: /three\r\n";
        let got = server.request(method, path, lines, b"");
        assert_eq!(
            (got.status, got.header("www-authenticate")),
            (403, None),
            "{method} {path}"
        );
    }
    // There is nobody to be: what a program sends beside means nothing.
    let known = server.request("GET", "/one", "Authorization: Bearer x\r\n", b"");
    assert_eq!(known.body, b"1");
    let page = page(&server, "/");
    assert!(page.text().contains("id=\"send\"") && !page.text().contains("sign-in"));
    assert_eq!(server.request("GET", "/-/metrics", "", b"").status, 403);
    dir.assert_holds(&["new/two", "one"]);
}

#[test]
fn who_shares_names_no_other_clients() {
    for other in [&["--access", "none.toml"][..], &["--allow-anonymous"]] {
        let args = [&["--share=upload"], other].concat();
        let ended = Launch::new(&args).in_the_clear().run();
        ended.says(2, &format!("--share and {}", other[0]));
    }
    for what in ["--share=write", "--share="] {
        Launch::new(&[what]).in_the_clear().run().says(2, "upload");
    }
}
