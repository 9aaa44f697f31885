//! Proves the protection against web pages: DNS rebinding reaches nothing, pages of other origins cannot write, and stored
//! pages run no script. `media` tests the headers of stored pages.

use crate::support::prelude::*;

const APP: &str = "https://app.example";

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

#[test]
fn a_loopback_server_accepts_only_its_own_names() {
    let server = start(&[], "127.0.0.1:0");
    assert_eq!(status_for(&server, ""), 200);
    let own =
        "localhost localhost:PORT LocalHost.:1 127.0.0.1 127.0.0.1:PORT 127.9.9.9:80 [::1]:PORT";
    for own in words(own) {
        assert_eq!(status_for(&server, own), 200, "Host: {own}");
    }
    let foreign = "evil.example evil.example:PORT EVIL.example. localhost.evil.example \
                   127.0.0.1.evil.example:PORT 192.0.2.1:PORT [2001:db8::1]:PORT t";
    for foreign in words(foreign) {
        assert_eq!(status_for(&server, foreign), 421, "Host: {foreign}");
    }
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
fn options_environment_and_listen_address_add_names() {
    let args = words("--allowed-host store.example --allowed-host a,[2001:db8::1]");
    let server = start(&args, "127.0.0.1:0");
    for own in words("store.example:PORT STORE.example. A [2001:db8:0::1] localhost") {
        assert_eq!(status_for(&server, own), 200, "Host: {own}");
    }
    for foreign in ["b", "x.store.example", "evil.example"] {
        assert_eq!(status_for(&server, foreign), 421, "Host: {foreign}");
    }
    let any = start(&["--allowed-host", "*"], "localhost:0");
    assert_eq!(status_for(&any, "evil.example"), 200);
    let by_variable = Launch::new(&[])
        .env("DATA_SERVER_ALLOWED_HOST", "store.example")
        .start();
    by_variable.dir.place("here", "value");
    assert_eq!(status_for(&by_variable, "store.example"), 200);
    assert_eq!(status_for(&by_variable, "evil.example"), 421);
}

#[test]
fn a_server_beyond_loopback_accepts_any_name_by_default() {
    let open = start(&["--allow-anonymous"], "0.0.0.0:0");
    assert_eq!(status_for(&open, "store.example"), 200);
    let args = ["--allow-anonymous", "--allowed-host", "store.example"];
    let named = start(&args, "0.0.0.0:0");
    assert_eq!(status_for(&named, "store.example"), 200);
    assert_eq!(status_for(&named, "127.0.0.1:PORT"), 200);
    assert_eq!(status_for(&named, "evil.example"), 421);
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

/// The fields of a browser's write whose page belongs to this server (`OWN` is the server's authority).
const OWN_WRITES: [&str; 6] = [
    "",
    "Sec-Fetch-Site: same-origin\r\nOrigin: http://OWN\r\n",
    "Sec-Fetch-Site: none\r\n",
    // Behind a proxy that forwards another name.
    "Sec-Fetch-Site: same-origin\r\nOrigin: https://store.example\r\n",
    // Browsers without Sec-Fetch-Site.
    "Origin: http://OWN\r\n",
    "Origin: https://OWN\r\n",
];

/// The same of a page of others.
const FOREIGN_WRITES: [&str; 9] = [
    "Sec-Fetch-Site: cross-site\r\nOrigin: https://evil.example\r\n",
    "Sec-Fetch-Site: cross-site\r\n",
    "Sec-Fetch-Site: cross-site\r\nOrigin: http://OWN\r\n",
    "Sec-Fetch-Site: same-site\r\nOrigin: http://localhost:3000\r\n",
    "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Site: cross-site\r\n",
    "Sec-Fetch-Site: unheard-of\r\n",
    "Origin: https://evil.example\r\n",
    "Origin: http://OWN.evil.example\r\n",
    "Origin: null\r\n",
];

#[test]
fn pages_of_other_origins_write_nothing() {
    clear_only!("its pages are of http");
    for args in taken(&[&[], &["--compat"], &["--cors-origin", APP]]) {
        let server = start(args, "127.0.0.1:0");
        let own = server.addr.to_string();
        let writes = OWN_WRITES.map(|lines| (lines, true)).into_iter();
        for (lines, is_own) in writes.chain(FOREIGN_WRITES.map(|lines| (lines, false))) {
            let lines = lines.replace("OWN", &own);
            for method in ["PUT", "DELETE"] {
                if method == "DELETE" {
                    server.dir.place("k", "value");
                }
                let head = format!(
                    "{method} /k HTTP/1.1\r\nHost: {own}\r\nContent-Length: 5\r\n{lines}\r\nvalue"
                );
                let got = server.connect().ask(head);
                let expected = if is_own { 200 } else { 403 };
                assert_eq!(got.status, expected, "{args:?} {method} {lines}");
                let is_there = server.dir.get("k").is_some();
                assert_eq!(is_there, (method == "PUT") == is_own, "{method} {lines}");
                server.dir.remove("k");
            }
            let form = "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nx\r\n--B--\r\n";
            let kind = "Content-Type: multipart/form-data; boundary=B\r\n";
            let begins = "Upload-Complete: ?0\r\n";
            let is_compat = args.contains(&"--compat");
            for (request, fields, body, good) in [
                (
                    "POST /-/upload",
                    kind,
                    form,
                    if is_compat { 404 } else { 200 },
                ),
                (
                    "POST /up",
                    begins,
                    "",
                    if is_compat { 404 } else { by_engine(201, 501) },
                ),
            ] {
                let length = body.len();
                let head =
                    format!("{request} HTTP/1.1\r\nHost: {own}\r\nContent-Length: {length}\r\n");
                let got = server
                    .connect()
                    .ask(format!("{head}{fields}{lines}\r\n{body}"));
                let expected = if is_own { good } else { 403 };
                assert_eq!(got.status, expected, "{args:?} {request} {lines}");
                assert_eq!(
                    server.dir.get("f").is_some(),
                    got.status == 200,
                    "{request} {lines}"
                );
                server.dir.remove("f");
            }
            let request = format!("GET /here HTTP/1.1\r\nHost: {own}\r\n{lines}\r\n");
            let got = server.connect().ask(request);
            // The browser keeps it.
            assert_eq!(got.status, 200, "reading goes on: {lines}");
            assert_eq!(got.header("access-control-allow-origin"), None, "{lines}");
        }
        let form = format!("POST /here HTTP/1.1\r\nHost: {own}\r\nContent-Length: 0\r\n");
        let unknown = if args == ["--compat"] { 404 } else { 405 };
        let hidden = "X-HTTP-Method-Override: DELETE\r\n";
        for (lines, site, status) in [
            ("", "", unknown),
            ("", "Origin: https://evil.example\r\n", 403),
            (hidden, "Sec-Fetch-Site: cross-site\r\n", 403),
            (hidden, "", unknown),
        ] {
            let request = format!("{form}{lines}{site}\r\n");
            assert_eq!(server.connect().ask(&request).status, status, "{request}");
        }
        server.dir.assert_holds(&["here"]);
    }
}

/// The page in Chromium once its scripts have run; `None` without Chromium.
fn shown(url: &str) -> Option<String> {
    let profile = TempDir::new().expect("a directory");
    let browser = Command::new("timeout")
        .args(words("60 chromium --headless --no-sandbox --disable-gpu"))
        .arg(format!("--user-data-dir={}", profile.path().display()))
        // The owner of a name can point it to the loopback address.
        .arg("--host-resolver-rules=MAP evil.example 127.0.0.1")
        .args(["--virtual-time-budget=3000", "--dump-dom", url])
        .output();
    let output = browser.ok().filter(|output| output.status.success());
    if output.is_none() {
        let what = "what a browser does with stored pages";
        left_out(what, "chromium does not run here");
    }
    Some(String::from_utf8_lossy(&output?.stdout).into_owned())
}

#[test]
fn a_rebound_name_shows_nothing_in_a_browser() {
    clear_only!("its pages are of http");
    let server = start(&[], "127.0.0.1:0");
    server.dir.place("secret.txt", "the secret");
    let port = server.addr.port();
    for (host, told) in [("localhost", true), ("evil.example", false)] {
        let page = needed!(shown(&format!("http://{host}:{port}/secret.txt")));
        assert_eq!(page.contains("the secret"), told, "{host}: {page}");
        assert_eq!(page.contains("--allowed-host"), !told, "{host}: {page}");
    }
}
