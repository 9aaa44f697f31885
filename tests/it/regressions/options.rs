//! The server accepted `--cors-origin https://a.b/` and `a.b`, which matched no page, and refused `--listen :8080` without a
//! hint. Proves which values it accepts, and that its error messages say what to write.

use std::net::{IpAddr, Ipv6Addr};

use crate::support::prelude::*;

/// The answer of this server to a page of `origin`.
fn allowed(server: &TestServer, origin: &str) -> Option<String> {
    server.store("k", "value");
    let line = format!("Origin: {origin}\r\n");
    let got = server.request("GET", "/k", &line, b"");
    let allowed = got.header("access-control-allow-origin");
    allowed.map(str::to_owned)
}

#[test]
fn a_misspelled_origin_is_refused_with_the_right_spelling() {
    for (given, right) in [("https://a.b/", "https://a.b"), ("a.b", "https://a.b")] {
        let ended = Launch::new(&["--cors-origin", given]).run();
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{given}");
        let last = ended.stderr.lines().last().unwrap_or_default();
        assert!(last.contains(&format!("--cors-origin {given}:")), "{last}");
        assert!(last.ends_with(&format!("write {right}")), "{last}");
        // The origin from the message matches.
        let server = TestServer::start(&["--cors-origin", right]);
        assert_eq!(allowed(&server, right).as_deref(), Some(right));
        assert_eq!(allowed(&server, "https://evil.example"), None);
    }
    for bad in ["https://*.a.b", "https://a b", "https://", "file:///"] {
        let ended = Launch::new(&["--cors-origin", bad]).run();
        assert_eq!(ended.code, Some(2), "{bad}: {}", ended.stderr);
        let is_right = ended.stderr.contains("https://app.example");
        assert!(is_right, "{}", ended.stderr);
    }
    let ended = Launch::new(&[]).env("DATA_SERVER_CORS_ORIGIN", "https://c.d,a.b/");
    assert!(ended.run().stderr.contains("write https://a.b"));
}

/// An empty variable names no origin, so responses do not vary by it.
#[test]
fn an_empty_variable_is_no_origin() {
    let server = Launch::new(&[]).env("DATA_SERVER_CORS_ORIGIN", "").start();
    server.store("k", "value");
    assert_eq!(server.get("k").header("vary"), None);
}

/// The status of a GET at this address of the loopback network and this port.
fn status(ip: IpAddr, port: u16, page: &str) -> u16 {
    let mut raw = Raw::connect(SocketAddr::from((ip, port)));
    ask(&mut raw, "GET", page, "", b"").status
}

#[test]
fn a_port_alone_is_all_addresses() {
    let launch = Launch::new(&["--admin", ":0", "--allow-anonymous"]).listen(":0");
    let server = launch.env("DATA_SERVER_ALLOWED_HOST", "").start();
    let (values, pages) = (server.addr, server.admin());
    assert!(values.ip().is_unspecified() && pages.ip().is_unspecified());
    let mut addresses: Vec<IpAddr> = vec![[127, 0, 0, 1].into(), [127, 9, 9, 9].into()];
    if TcpListener::bind("[::1]:0").is_ok() {
        assert!(values.is_ipv6() && pages.is_ipv6());
        addresses.push(Ipv6Addr::LOCALHOST.into());
    } else {
        left_out("a port alone over IPv6", "which this machine has not");
    }
    for ip in addresses {
        assert_eq!(status(ip, values.port(), "/"), 200, "{ip}");
        assert_eq!(status(ip, pages.port(), "/-/healthz"), 200, "{ip}");
    }
}

#[test]
fn a_bad_address_is_refused_with_an_example() {
    for option in ["--listen", "--admin"] {
        for bad in ["8080", ":", ":x", ":65536", "localhost", "1.2.3.4"] {
            let dir = DataDir::temporary();
            let dir = dir.path().to_str().expect("text");
            let ended = Launch::new(&["--dir", dir, option, bad]).bare().run();
            assert_eq!(ended.code, Some(2), "{option} {bad}: {}", ended.stderr);
            let holds = ended.stderr.contains(&format!("{option} {bad}:"));
            assert!(holds, "{}", ended.stderr);
            let is_right = ended.stderr.contains(":8080 for all addresses");
            assert!(is_right, "{}", ended.stderr);
        }
    }
}
