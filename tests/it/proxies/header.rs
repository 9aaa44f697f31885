//! Proves that a connection whose listener is for a proxy begins with a header of the PROXY protocol, that the address
//! in it counts as the client's, and that a connection without a valid one is closed, counted and logged.

use std::os::unix::net::UnixListener;

use super::{ANN, BOB, LOGGED, fails_alone, peers, policy, start};
use crate::support::prelude::*;

const LISTEN: [&str; 2] = ["--listen", "proxy+127.0.0.1:0"];
const GET: &str = "GET /k HTTP/1.1\r\nHost: t\r\n\r\n";
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// A server that listens for a proxy too.
fn launch(args: &[&str]) -> Launch {
    Launch::new(&[&LISTEN, args].concat())
}

/// A header of version 1.
fn v1(client: &str) -> Vec<u8> {
    format!("PROXY TCP4 {client} 198.51.100.1 4711 80\r\n").into_bytes()
}

/// A header of version 2, with these bytes behind its signature and its length before the rest.
fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let len = u16::try_from(rest.len()).expect("a length").to_be_bytes();
    [SIGNATURE, &[command, family], &len, rest].concat()
}

/// The addresses of version 2, from 192.0.2.1 port 4711, with `more` bytes behind them that mean nothing.
fn ipv4(more: usize) -> Vec<u8> {
    let addresses = [192, 0, 2, 1, 198, 51, 100, 1, 0x12, 0x67, 0, 80];
    addresses.into_iter().chain(padding(more)).collect()
}

/// So many bytes that mean nothing, with their type and their length; none, or three and more.
fn padding(len: usize) -> Vec<u8> {
    let Some(rest) = len.checked_sub(3) else {
        return Vec::new();
    };
    let [high, low] = u16::try_from(rest).expect("a length").to_be_bytes();
    [vec![4, high, low], vec![4; rest]].concat()
}

/// The same, with a byte that means nothing and this checksum behind them.
fn summed(sum: &[u8]) -> Vec<u8> {
    let len = u8::try_from(sum.len()).expect("a short one");
    [&ipv4(0)[..], &[4, 0, 1, 9], &[3, 0, len], sum].concat()
}

/// Its right checksum, by the bitwise CRC-32C of section 2.2.4.
const SUM: [u8; 4] = [0x5e, 0x9c, 0x3d, 0x90];

fn ipv6() -> Vec<u8> {
    let ip = |last| [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[last]].concat();
    [ip(1), ip(2), vec![0x12, 0x67, 0, 80]].concat()
}

/// A connection that begins with `header`.
fn connect(addr: SocketAddr, header: &[u8]) -> Raw {
    let mut raw = Raw::connect_clear(addr);
    raw.send(header);
    raw
}

fn status(raw: &mut Raw, lines: &str) -> u16 {
    ask_clear(raw, lines).status
}

fn ask_clear(raw: &mut Raw, lines: &str) -> Response {
    raw.ask(format!("GET /k HTTP/1.1\r\n{lines}\r\n"))
}

/// How many headers were refused.
fn refused(server: &TestServer) -> u64 {
    Scrape::of(server.addr).count("data_server_proxy_headers_refused_total", &[])
}

/// Valid headers, and the client that the log has then; none where it is the proxy.
fn headers() -> Vec<(Vec<u8>, Option<&'static str>)> {
    let ann = Some("192.0.2.1:4711");
    let six = Some("[2001:db8::1]:4711");
    let v1_six = "PROXY TCP6 2001:db8::1 2001:db8::2 4711 80\r\n";
    vec![
        (v1(ANN), ann),
        (v1_six.into(), six),
        ("PROXY UNKNOWN\r\n".into(), None),
        ("PROXY UNKNOWN 192.0.2.1 192.0.2.2 1 2\r\n".into(), None),
        (v2(0x21, 0x11, &ipv4(0)), ann),
        (v2(0x21, 0x21, &ipv6()), six),
        (v2(0x21, 0x11, &summed(&SUM)), ann),
        // With what else a proxy knows, as long as may be.
        (v2(0x21, 0x11, &ipv4(300)), ann),
        (v2(0x21, 0x11, &ipv4(4096 - 28)), ann),
        (v2(0x20, 0x00, &[]), None),
        (v2(0x20, 0x11, &ipv4(0)), None),
        (v2(0x21, 0x00, &[]), None),
        (v2(0x21, 0x00, &padding(9)), None),
        (v2(0x21, 0x31, &[0; 216]), None),
    ]
}

#[test]
fn the_log_has_the_client_of_each_header_and_the_proxy_where_there_is_none() {
    let (mut server, addr) = start(launch(&LOGGED));
    let mut expected = Vec::new();
    for (header, client) in headers() {
        // With requests in the same segment, and on their own.
        for behind in [[GET, GET].concat(), String::new()] {
            let mut raw = connect(addr, &[&header, behind.as_bytes()].concat());
            let asked = if behind.is_empty() { 1 } else { 3 };
            for _ in 1..asked {
                assert_eq!(raw.answer().status, 404);
            }
            assert_eq!(raw.get("k").status, 404);
            let client = client.map_or_else(|| raw.local_addr().to_string(), str::to_owned);
            expected.extend(std::iter::repeat_n(client, asked));
        }
    }
    assert_eq!(refused(&server), 0);
    let mut seen = peers(&mut server);
    // The last is the scrape.
    seen.pop();
    assert_eq!(seen, expected);
}

#[test]
fn a_header_may_come_in_pieces_cut_anywhere() {
    let (server, addr) = start(launch(&[]));
    server.store("k", "value");
    for header in [v1(ANN), v2(0x21, 0x11, &ipv4(9)), v2(0x20, 0, &[])] {
        let all = [&header, GET.as_bytes()].concat();
        for cut in 1..all.len() {
            let mut raw = Raw::connect_clear(addr);
            raw.send(&all[..cut]);
            eventually("the server has the piece", || raw.is_taken());
            raw.send(&all[cut..]);
            assert_eq!(raw.answer().body, b"value", "cut at {cut}");
        }
        let mut raw = Raw::connect_clear(addr);
        for byte in &all {
            raw.send([*byte]);
        }
        assert_eq!(raw.answer().body, b"value");
    }
}

#[test]
fn what_begins_with_no_valid_header_is_closed_counted_and_logged() {
    let mut long = b"PROXY UNKNOWN ".to_vec();
    long.resize(200, b'x');
    let cut = |cut: &[u8]| v2(0x21, 0x11, &[&ipv4(0), cut].concat());
    let bad: [(&[u8], &str); 25] = [
        (b"", "the connection ended"),
        (b"PROXY TCP4 192.0.2.1", "the connection ended"),
        (&SIGNATURE[..5], "the connection ended"),
        (GET.as_bytes(), ""),
        (
            b"PUT /k HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\n\r\nv",
            "",
        ),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ""),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", ""),
        (b"\r\nGET /k HTTP/1.1\r\n\r\n", ""),
        (b"PROXYTCP4 192.0.2.1 192.0.2.2 1 2\r\n", ""),
        (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n", ""),
        (b"PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n", ""),
        (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n", ""),
        (b"PROXY UNKNOWN \n", ""),
        (&long, "too long"),
        (&v2(0x21, 0x11, &ipv4(4097 - 28)), "too long"),
        (
            &v2(0x21, 0x11, &summed(&[0x5e, 0x9c, 0x3d, 0x91])),
            "checksum",
        ),
        (&v2(0x21, 0x11, &summed(&SUM[..3])), "checksum"),
        (&v2(0x21, 0x00, &[3, 0, 4, 1, 2, 3, 4]), "checksum"),
        (&v2(0x20, 0x00, &[3, 0, 4, 1, 2, 3, 4]), "checksum"),
        (&cut(&[4]), "cut off"),
        (&cut(&[4, 0, 2, 9]), "cut off"),
        (&cut(&[3, 0, 9, 1, 2, 3, 4]), "cut off"),
        (b"PROXY TCP4 192.0.2.1 192.0.2.2 +1234 +80\r\n", "a sign"),
        (&v2(0x31, 0x11, &ipv4(0)), ""),
        (&v2(0x21, 0x11, &[192, 0, 2, 1]), ""),
    ];
    let (server, addr) = start(launch(&["--log-level", "debug"]));
    for (counted, (bytes, why)) in (1..).zip(bad) {
        let mut raw = connect(addr, bytes);
        if why.contains("ended") {
            raw.finish();
        }
        raw.assert_closed();
        let shown = bytes.escape_ascii();
        eventually("it is counted", || refused(&server) == counted);
        let events = || server.events("no valid PROXY header");
        eventually("it is logged", || events().len() as u64 == counted);
        let error = events().pop().expect("an event").field("error");
        assert!(error.contains(why) && !error.is_empty(), "{shown}: {error}");
    }
    assert_eq!(server.get("k").status, 404, "nothing was stored");
}

#[test]
fn a_header_has_the_time_of_a_head() {
    let (server, addr) = start(launch(&["--header-timeout", "1s", "--idle-timeout", "1h"]));
    let all = v1(ANN);
    for begun in [0, 1, 20] {
        let begin = Instant::now();
        connect(addr, &all[..begun]).assert_closed();
        let took = begin.elapsed();
        assert!(took >= Duration::from_millis(900), "{begun}: {took:?}");
    }
    // The time is one for the header and for the head behind it.
    let mut raw = connect(addr, &all);
    let rest = raw.rest();
    assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"));
    assert_eq!(refused(&server), 3);
}

#[test]
fn connections_are_counted_by_the_client_in_the_header() {
    let args = ["--max-connections-per-ip", "2", "--threads", "2"];
    let (server, addr) = start(launch(&args));
    // The proxy itself has not so few, nor does it while their headers are on the way.
    let unknown: Vec<_> = (0..8).map(|_| connect(addr, b"PROXY")).collect();
    let mut open: Vec<_> = [ANN, BOB, ANN, BOB].map(|of| connect(addr, &v1(of))).into();
    assert!(open.iter_mut().all(|raw| status(raw, "Host: t\r\n") == 404));
    connect(addr, &v1(ANN)).assert_closed();
    connect(addr, &v2(0x21, 0x11, &ipv4(0))).assert_closed();
    let scrape = Scrape::of(server.addr);
    let found = scrape.count("data_server_connections_refused_total", &[]);
    assert_eq!(found, 2);
    let found = scrape.count("data_server_proxy_headers_refused_total", &[]);
    assert_eq!(found, 0);
    drop(open.remove(0));
    eventually("there is room again", || {
        let mut next = connect(addr, &v1(ANN));
        next.offer(GET).is_ok() && next.try_head().is_some()
    });
    drop(unknown);
}

#[test]
fn failures_are_counted_by_the_client_in_the_header() {
    let dir = DataDir::temporary();
    let (_server, addr) = start(policy(&dir, &LISTEN));
    fails_alone(&mut |client, lines| {
        let mut raw = connect(addr, &v1(client));
        status(&mut raw, &format!("Host: t\r\n{lines}"))
    });
}

#[test]
fn a_name_of_the_loopback_network_is_asked_of_its_clients_alone() {
    let (_server, addr) = start(launch(&[]).env("DATA_SERVER_ALLOWED_HOST", ""));
    for (header, expected) in [
        (v1(ANN), 404),
        (v1("127.0.0.1"), 421),
        (v2(0x20, 0, &[]), 421),
    ] {
        let mut raw = connect(addr, &header);
        assert_eq!(status(&mut raw, "Host: evil.example\r\n"), expected);
        let mut raw = connect(addr, &header);
        assert_eq!(status(&mut raw, "Host: localhost\r\n"), 404);
    }
}

#[test]
fn tls_begins_behind_the_header_whatever_comes_with_it() {
    let authority = Authority::new();
    let own = authority.issue("own", &["127.0.0.1"]);
    let listen = ["--listen", "proxy+https://127.0.0.1:0"];
    let args = [&listen[..], &LOGGED, &own.options()].concat();
    let (mut server, addr) = start(Launch::new(&args).in_the_clear());
    for header in [v1(ANN), v2(0x21, 0x11, &ipv4(0))] {
        let mut raw = Raw::connect_tls(addr, &authority.client());
        raw.send_clear(&header);
        assert_eq!(raw.get("k").status, 404);
        // Nothing of a session before it is a header.
        let mut raw = Raw::connect_tls(addr, &authority.client());
        assert!(raw.offer(GET).is_err() || raw.try_head().is_none());
    }
    assert_eq!(refused(&server), 2);
    let seen = peers(&mut server);
    assert_eq!(seen[..2], ["192.0.2.1:4711", "192.0.2.1:4711"]);
}

#[test]
fn a_unix_socket_and_one_that_is_passed_may_be_for_a_proxy() {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("socket");
    let held = UnixListener::bind(dir.path().join("held")).expect("a socket");
    let place = format!("proxy+unix:{}", path.display());
    let args = ["--access-log", "--listen", &place, "--listen", "proxy+fd:3"];
    let mut server = Launch::new(&args).with_third("", held.into()).start();
    assert_eq!(
        server.stdout_so_far()[..2],
        [
            format!("listening on {place}"),
            format!("listening on {}", place.replace("/socket", "/held")),
        ]
    );
    for path in [path, dir.path().join("held")] {
        let mut raw = Raw::connect_unix(&path);
        raw.send(v1(ANN));
        assert_eq!(status(&mut raw, "Host: t\r\n"), 404);
    }
    assert_eq!(peers(&mut server), ["192.0.2.1:4711", "192.0.2.1:4711"]);
}

#[test]
fn a_server_that_drains_waits_for_no_header() {
    let (mut server, addr) = start(launch(&["--header-timeout", "1h", "--log-level", "debug"]));
    let mut begun = connect(addr, b"PROXY TCP4 ");
    // What came before is accepted by now.
    assert_eq!(status(&mut connect(addr, &v1(ANN)), "Host: t\r\n"), 404);
    server.stop();
    begun.assert_closed();
    let log = server.log().concat();
    assert!(!log.contains("connections abandoned"), "{log}");
    assert!(!log.contains("no valid PROXY header"), "{log}");
}

#[test]
fn curl_stores_and_reads_and_is_known_by_the_header_that_it_sends() {
    only_where!(
        is_on_path("curl"),
        "curl with a PROXY header",
        "there is no curl"
    );
    let (mut server, addr) =
        start(launch(&[&LOGGED[..], &["--http2-clear"]].concat()).in_the_clear());
    let dir = TempDir::new().expect("a directory");
    let [given, got] = ["given", "got"].map(|name| dir.path().join(name));
    fs::write(&given, pattern(1, 1 << 20)).expect("a file");
    let mut expected = Vec::new();
    for (version, told) in [("--http1.1", "1.1"), ("--http2-prior-knowledge", "2")] {
        for (option, file) in [("--upload-file", &given), ("--output", &got)] {
            let out = Command::new("curl")
                .args(words("-sS --noproxy * --haproxy-protocol"))
                .args([version, option])
                .arg(file)
                .args(["-w", "%{stderr}%{http_version} %{http_code} %{local_port}"])
                .arg(format!("http://{addr}/{told}"))
                .output();
            let said = String::from_utf8(out.expect("curl").stderr).expect("text");
            let port = said.strip_prefix(&format!("{told} 200 "));
            expected.push(format!("127.0.0.1:{}", port.expect("an answer")));
        }
        assert!(fs::read(&got).expect("a value") == pattern(1, 1 << 20));
    }
    assert_eq!(peers(&mut server), expected);
}
