//! Proves with the programs themselves, `haproxy` and nginx, that the address of their clients arrives, by each way
//! that they have to say it.

use super::{LOGGED, peers, start};
use crate::support::prelude::*;

/// A client's address, which no proxy has.
const CLIENT: [u8; 4] = [127, 0, 0, 5];

/// Asks the proxy for a value, with these lines: from where.
#[track_caller]
fn asks(proxy: &Proxy, lines: &str) -> SocketAddr {
    let mut raw = Raw::connect_from(CLIENT, proxy.addr);
    let answer = raw.ask(format!("GET /k HTTP/1.1\r\nHost: t\r\n{lines}\r\n"));
    assert_eq!((answer.status, &*answer.body), (200, &b"value"[..]));
    raw.local_addr()
}

/// A server that has a value.
fn with_value(server: (TestServer, SocketAddr)) -> (TestServer, SocketAddr) {
    server.0.dir.place("k", "value");
    server
}

#[test]
fn haproxy_says_whom_each_connection_is_for() {
    directory_only!("its value is placed");
    clear_only!("its client is another program");
    let authority = Authority::new();
    let own = authority.issue("own", &["localhost"]);
    let ca = authority.file();
    let sealed = format!("ssl verifyhost localhost ca-file {}", ca.display());
    for (place, options) in [
        ("proxy+127.0.0.1:0", "send-proxy"),
        ("proxy+127.0.0.1:0", "send-proxy-v2"),
        (
            "proxy+https://127.0.0.1:0",
            &*format!("send-proxy {sealed}"),
        ),
        (
            "proxy+https://127.0.0.1:0",
            &*format!("send-proxy-v2-ssl-cn proxy-v2-options crc32c,unique-id alpn h2 {sealed}"),
        ),
    ] {
        let tls = own.options();
        let tls = if place.contains("https") {
            &tls[..]
        } else {
            &[]
        };
        let args = [&LOGGED[..], &["--listen", place], tls].concat();
        let (mut server, addr) = with_value(start(Launch::new(&args).in_the_clear()));
        let proxy = Proxy::haproxy("", &format!("{addr} {options}"));
        let proxy = needed!(proxy);
        let asked = [
            asks(&proxy, ""),
            asks(&proxy, "X-Forwarded-For: 192.0.2.9\r\n"),
        ];
        drop(proxy);
        let seen = peers(&mut server);
        assert_eq!(seen, asked.map(|of| of.to_string()), "{options}");
    }
}

/// nginx 1.22 gives its client a 104 as the answer; `HAProxy` knows it as an interim response. With `--interim off`
/// neither sees one.
#[test]
fn an_upload_passes_proxies_with_interim_off() {
    directory_only!("its uploads are resumable");
    clear_only!("its client is another program");
    let body = pattern(1, 300_000);
    let head = "Upload-Draft-Interop-Version: 8\r\nUpload-Complete: ?1\r\nConnection: close\r\n";
    let put = put_head("k", body.len()).replace("\r\n\r\n", &format!("\r\n{head}\r\n"));
    for (interim, first) in [("off", "200"), ("on", "104")] {
        let server = Launch::new(&["--interim", interim]).in_the_clear().start();
        let streamed = "proxy_http_version 1.1; proxy_request_buffering off;";
        let pass = format!("proxy_pass http://{}; {streamed}", server.addr);
        let nginx = needed!(Proxy::nginx("/", &pass));
        let haproxy = needed!(Proxy::haproxy("", &server.addr.to_string()));
        for (proxy, is_nginx) in [(&nginx, true), (&haproxy, false)] {
            let mut raw = Raw::connect(proxy.addr);
            raw.send(&put);
            raw.send(&body);
            let all = raw.rest();
            let all = String::from_utf8_lossy(&all);
            let of_first = all.split("\r\n\r\n").next().expect("a head");
            assert!(of_first.starts_with(&format!("HTTP/1.1 {first}")), "{all}");
            let is_answer = of_first.to_lowercase().contains("connection: close");
            assert_eq!(is_answer, is_nginx || interim == "off", "{all}");
            assert!(all.contains("HTTP/1.1 200"), "{all}");
        }
    }
}

/// What it asks for itself, it asks with LOCAL.
#[test]
fn haproxy_checks_the_server_in_its_own_name() {
    directory_only!("its value is placed");
    clear_only!("its client is another program");
    let args = ["--access-log", "--listen", "proxy+127.0.0.1:0"];
    let (mut server, addr) = with_value(start(Launch::new(&args)));
    let check = "check inter 50ms send-proxy-v2\n option httpchk GET /-/healthz";
    let proxy = needed!(Proxy::haproxy("", &format!("{addr} {check}")));
    let checks = || {
        server
            .events("")
            .iter()
            .filter(|event| is_check(event))
            .count()
    };
    eventually("it is checked", || checks() > 2);
    let client = asks(&proxy, "").to_string();
    drop(proxy);
    let refused = Scrape::of(server.addr).count("data_server_proxy_headers_refused_total", &[]);
    assert_eq!(refused, 0);
    let seen = peers(&mut server);
    assert_eq!(seen.iter().filter(|peer| **peer == client).count(), 1);
    let own = seen.iter().filter(|peer| peer.starts_with("127.0.0.1:"));
    assert_eq!(own.count(), seen.len() - 1, "{seen:?}");
}

fn is_check(event: &Event) -> bool {
    event.target == "access" && event.field("key") == "/-/healthz"
}

/// Also where the client says it for another.
#[test]
fn each_program_says_whom_each_request_is_for() {
    directory_only!("its value is placed");
    clear_only!("its client is another program");
    let nginx = |addr: SocketAddr, value: &str| {
        let pass = format!("proxy_pass http://{addr}; proxy_set_header X-Forwarded-For {value};");
        Proxy::nginx("/", &pass)
    };
    let starts: [&dyn Fn(SocketAddr) -> Option<Proxy>; 3] = [
        &|addr| Proxy::haproxy("option forwardfor", &addr.to_string()),
        &|addr| nginx(addr, "$proxy_add_x_forwarded_for"),
        &|addr| nginx(addr, "$remote_addr"),
    ];
    for start in starts {
        let mut server = TestServer::start(&["--access-log", "--trusted-proxy", "127.0.0.1"]);
        server.dir.place("k", "value");
        let Some(proxy) = start(server.addr) else {
            continue;
        };
        asks(&proxy, "");
        asks(&proxy, "X-Forwarded-For: 192.0.2.9\r\n");
        assert_eq!(peers(&mut server), ["127.0.0.5", "127.0.0.5"]);
    }
}
