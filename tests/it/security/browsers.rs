//! Proves the protection against web pages: DNS rebinding reaches nothing, pages of other origins cannot write, and
//! stored pages run no script. `media` tests the headers of stored pages.

use crate::support::prelude::*;

/// A server with the default rules for Host. Other tests run with a variable that allows any name.
fn start(args: &[&str], listen: &str) -> TestServer {
    let launch = Launch::new(args).listen(listen);
    let server = launch.env("DATA_SERVER_ALLOWED_HOST", "").start();
    server.dir.place("here", "value");
    server
}

/// The status of a GET with this Host, in which `PORT` stands for the server's port.
fn status_for(server: &TestServer, host: &str) -> u16 {
    let addr = SocketAddr::from(([127, 0, 0, 1], server.addr.port()));
    let host = host.replace("PORT", &server.addr.port().to_string());
    Raw::connect(addr)
        .ask(format!("GET /here HTTP/1.1\r\nHost: {host}\r\n\r\n"))
        .status
}

/// Where a server listens, its options, and the names that it is asked for, in which `PORT` stands for its port: those
/// that are its own, and those that are not. src/http/head/allowlists.rs has the others.
const HOSTS: &str = "
127.0.0.1:0 ; ; localhost:PORT LocalHost.:1 127.9.9.9:80 [::1]:PORT ; evil.example:PORT localhost.evil.example 192.0.2.1:PORT t
127.0.0.1:0 ; --allowed-host store.example --allowed-host a,[2001:db8::1] ; STORE.example. A [2001:db8:0::1] localhost ; b x.store.example
localhost:0 ; --allowed-host * ; evil.example
0.0.0.0:0 ; --allow-anonymous ; store.example
0.0.0.0:0 ; --allow-anonymous --allowed-host store.example ; store.example 127.0.0.1:PORT ; evil.example
";

#[test]
fn a_server_accepts_its_own_names_and_those_of_its_options() {
    for [listen, args, own, foreign] in table(HOSTS) {
        let server = start(&words(args), listen);
        for (names, status) in [(own, 200), (foreign, 421)] {
            for name in words(names) {
                assert_eq!(status_for(&server, name), status, "{listen} {args}: {name}");
            }
        }
        assert_eq!(status_for(&server, ""), 200);
    }
    let by_variable = Launch::new(&[]).env("DATA_SERVER_ALLOWED_HOST", "store.example");
    let by_variable = by_variable.start();
    by_variable.dir.place("here", "value");
    assert_eq!(status_for(&by_variable, "store.example"), 200);
    assert_eq!(status_for(&by_variable, "evil.example"), 421);
}

#[test]
fn no_request_for_another_host_is_performed() {
    let server = start(&[], "127.0.0.1:0");
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "POST"] {
        for target in ["/here", "/", "/a/b", "http://evil.example/here"] {
            let body = if method == "PUT" { "other" } else { "" };
            let got = server.request(method, target, "", body.as_bytes());
            assert_eq!(got.status, 421, "{method} {target}");
            assert_eq!(got.must("content-type"), "text/plain; charset=utf-8");
            assert_eq!(got.header("etag"), None);
        }
    }
    // RFC 9112, section 3.2.2: the host of a target in absolute form takes precedence.
    let status = |request: &str| server.connect().ask(request).status;
    let absolute = "GET http://evil.example/here HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(status(absolute), 421);
    let absolute = "GET http://localhost/here HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    assert_eq!(status(absolute), 200);
    let found = status("GET /here HTTP/1.0\r\n\r\n");
    assert_eq!(found, 200, "as load tests ask");
    let waiting = put_head("k", 5).replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(status(&waiting), 421, "no 100 before the refusal");
    server.dir.assert_holds(&["here"]);
    assert_eq!(server.dir.read("here"), b"value");
}

#[test]
fn the_admin_listener_accepts_its_own_address() {
    let metrics = |host: &str, admin: &str| {
        let server = start(&["--admin", admin], "127.0.0.1:0");
        let addr = SocketAddr::from(([127, 0, 0, 1], server.admin().port()));
        let port = addr.port();
        let request = format!("GET /-/healthz HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n");
        assert_eq!(status_for(&server, host), 421);
        Raw::connect(addr).ask(request).status
    };
    assert_eq!(metrics("node.example", "127.0.0.1:0"), 421);
    assert_eq!(metrics("node.example", "0.0.0.0:0"), 200);
}

/// What `--cors-origin` may be, each by its word.
const OPTIONS: &str = "
none ;
compat ; --compat
app ; --cors-origin https://app.example
list ; --cors-origin https://other.example,https://app.example
twice ; --cors-origin https://other.example --cors-origin https://app.example
null ; --cors-origin null
local ; --cors-origin http://localhost:3000
extension ; --cors-origin chrome-extension://abc
any ; --cors-origin *
";

/// What a browser tells of a page that asks, and the options by which that page is allowed to; `own` where it is the
/// server's own, whose authority `OWN` stands for. A page of http is of another origin than a server of https.
const PAGES: &str = "
 ; own
Sec-Fetch-Site: none ; own
Sec-Fetch-Site: same-origin|Origin: https://OWN ; own
Sec-Fetch-Site: same-origin|Origin: https://proxy.example ; own
Origin: https://OWN ; own
Origin: http://OWN ; own-in-the-clear
Sec-Fetch-Site: cross-site ;
Sec-Fetch-Site: unheard-of ;
Sec-Fetch-Site: same-origin|Sec-Fetch-Site: cross-site ;
Sec-Fetch-Site: cross-site|Origin: https://OWN ; any
Sec-Fetch-Site: cross-site|Origin: https://evil.example ; any
Origin: https://evil.example ; any
Origin: http://OWN.evil.example ; any
Origin: https://app.example ; app list twice any
Sec-Fetch-Site: cross-site|Origin: https://app.example ; app list twice any
Sec-Fetch-Site: same-site|Origin: https://app.example ; app list twice any
Origin: https://app.example.evil.example ; any
Origin: http://app.example ; any
Origin: https://app.example:8443 ; any
Origin: null ; null any
Sec-Fetch-Site: cross-site|Origin: null ; null any
Sec-Fetch-Site: same-site|Origin: http://localhost:3000 ; local any
Origin: chrome-extension://abc ; extension any
";

const FORM: &str = "Content-Type: multipart/form-data; boundary=B\r\n";
const FILE: &str = "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"k\"\r\n\r\nvalue\r\n--B--\r\n";
const BEGINS: &str = "Upload-Complete: ?0\r\n";

/// Each way to write: method, target, fields and body.
pub(crate) const WRITES: [(&str, &str, &str, &str); 5] = [
    ("PUT", "/k", "", "value"),
    ("DELETE", "/k", "", ""),
    ("POST", "/-/upload", FORM, FILE),
    ("POST", "/k", BEGINS, ""),
    ("POST", "/k", "X-HTTP-Method-Override: DELETE\r\n", ""),
];

/// What a write is answered where the page may do it.
fn good(target: &str, lines: &str, is_compat: bool) -> u16 {
    match (target, lines) {
        ("/k", BEGINS) if !is_compat => by_engine(201, 501),
        ("/k", "") => 200,
        _ if is_compat => 404,
        ("/-/upload", _) => 200,
        _ => 405,
    }
}

#[test]
fn pages_of_other_origins_write_nothing_and_read_nothing() {
    for [option, args] in table(OPTIONS) {
        let args = words(args);
        if taken(&[&args]).is_empty() {
            continue;
        }
        let server = start(&args, "127.0.0.1:0");
        let own = server.addr.to_string();
        let is_compat = option == "compat";
        for [page, allowed] in table(PAGES) {
            let page = page.replace('|', "\r\n").replace("OWN", &own);
            let origin = page
                .split_once("Origin: ")
                .map(|(_, origin)| origin.to_owned());
            // Over TLS that page is of another origin, as good as any.
            let allowed = match allowed {
                "own-in-the-clear" if is_tls() => "any",
                allowed => allowed,
            };
            let is_own = allowed.starts_with("own");
            let is_named = words(allowed).contains(&option);
            let shown = format!("{args:?} {page}");
            let page = format!("{page}{}", if page.is_empty() { "" } else { "\r\n" });
            let assert_tells = |got: &Response| {
                let told = got.header("access-control-allow-origin");
                let is_told =
                    told.is_some_and(|told| told == "*" || Some(told) == origin.as_deref());
                if is_named {
                    assert!(is_told, "{shown}: {told:?}");
                    let exposed = got.must("access-control-expose-headers").to_lowercase();
                    for name in ["etag", "content-range", "repr-digest", "link"] {
                        assert!(exposed.contains(name), "{shown}: {exposed}");
                    }
                    let varies = got.all("vary").to_lowercase().contains("origin");
                    assert!(told == Some("*") || varies, "{shown}");
                } else if option != "any" {
                    assert_eq!(told, None, "{shown}");
                }
                let seen = got.header("access-control-allow-credentials");
                assert_eq!(seen, None, "{shown}");
            };
            for (method, target, lines, body) in WRITES {
                server.dir.remove("k");
                if method == "DELETE" {
                    server.dir.place("k", "value");
                }
                let length = body.len();
                let got = server.connect().ask(format!(
                    "{method} {target} HTTP/1.1\r\nHost: {own}\r\nContent-Length: {length}\r\n{lines}{page}\r\n{body}"
                ));
                let is_done = is_own || is_named;
                let expected = if is_done {
                    good(target, lines, is_compat)
                } else {
                    403
                };
                assert_eq!(got.status, expected, "{shown} {method} {target}");
                let is_there = server.dir.get("k").is_some();
                let stays = is_there == ((method == "DELETE") != (expected == 200));
                assert!(stays, "{shown} {method} {target}");
                assert_tells(&got);
            }
            for method in ["GET", "HEAD"] {
                let request = format!("{method} /here HTTP/1.1\r\nHost: {own}\r\n{page}\r\n");
                let got = server.connect().ask(request);
                // The browser keeps it from the page.
                assert_eq!(got.status, 200, "reading goes on: {shown}");
                assert_tells(&got);
            }
        }
        server.dir.remove("k");
        server.dir.assert_holds(&["here"]);
    }
}
