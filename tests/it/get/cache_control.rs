//! Values had no Cache-Control, so browsers and proxies guessed how long they stay fresh, and showed the old value
//! after a replacement. Proves the field, and that Varnish shows the new value at once. The test with Chromium is in
//! `tests/browser`.

use std::process::Child;

use crate::support::prelude::*;

#[test]
fn listings_carry_no_cache_and_pages_and_errors_no_store() {
    for args in taken(&[&[], &["--compat"]]) {
        let server = TestServer::start(args);
        // RFC 9110, section 15.1: without the field a cache may choose how long to keep it.
        server.talk(
            "
            PUT /k value ; 200
            GET,HEAD /k ; 200 ; ; ; cache-control: no-cache
            GET,HEAD /gone ; 404 ; ; ; cache-control: no-store
            GET,HEAD /-/healthz ; 200 ; ; ; cache-control: no-store
            GET /k ; 416 ; Range: bytes=9- ; ; cache-control: no-store
            GET /k ; 412 ; If-Match: \"x\" ; ; cache-control: no-store",
        );
        server.talk(if args.is_empty() {
            "
            GET,HEAD / ; 200 ; ; ; cache-control: no-cache
            GET,HEAD / ; 200 ; Accept: text/plain ; ; cache-control: no-cache
            GET,HEAD / ; 200 ; Accept: text/html ; ; cache-control: no-cache
            POST /k ; 405 ; ; ; cache-control: no-store"
        } else {
            "POST /k ; 404 ; ; ; cache-control: no-store"
        });
    }
}

/// The field of a value, of a listing and of a 404, for a cached value and for an uncached one.
fn fields(server: &TestServer) -> Vec<Option<String>> {
    server.store("k", "value");
    let mut raw = server.connect();
    eventually("the value is kept", || {
        ask(&mut raw, "GET", "/k", "", b"");
        is_s3() || server.proc().has_open(&server.dir.file("k"))
    });
    let mut field = |target: &str, lines: &str| {
        let got = ask(&mut raw, "GET", target, lines, b"");
        got.header("cache-control").map(str::to_owned)
    };
    vec![
        field("/k", ""),
        field("/k", "X-Any: 1\r\n"),
        field("/", ""),
        field("/gone", ""),
        field("/", "Accept: text/html\r\n"),
    ]
}

#[test]
fn the_option_changes_only_values_and_listings() {
    const VARIABLE: &str = "DATA_SERVER_CACHE_CONTROL";
    let some = |value: &str| Some(value.to_owned());
    let told = |value: Option<&str>| {
        let value = value.map(str::to_owned);
        let others = [some("no-store"), some("no-cache")];
        [vec![value; 3], others.to_vec()].concat()
    };
    let long = "public, max-age=60, stale-while-revalidate=\"30\"";
    let server = TestServer::start(&["--cache-control", long]);
    assert_eq!(fields(&server), told(Some(long)));
    let server = TestServer::start(&["--cache-control", ""]);
    assert_eq!(fields(&server), told(None));
    let server = Launch::new(&[]).env(VARIABLE, "max-age=1").start();
    assert_eq!(fields(&server), told(Some("max-age=1")));
    let server = Launch::new(&[]).env(VARIABLE, "").start();
    assert_eq!(fields(&server), told(None));
    assert_eq!(fields(&TestServer::start(&[])), told(Some("no-cache")));
}

/// A Varnish in front of a server, with rules before those that it has built in.
struct Varnish {
    child: Child,
    home: TempDir,
}

impl Varnish {
    /// Starts Varnish, or says what is left out.
    fn start(server: &TestServer, rules: &str) -> Option<Self> {
        let home = TempDir::new().expect("a directory");
        let backend = format!(
            "vcl 4.1;\nbackend default {{ .host = \"127.0.0.1\"; .port = \"{}\"; }}\n{rules}",
            server.addr.port()
        );
        std::fs::write(home.path().join("rules.vcl"), backend).expect("its rules");
        let [state, rules] = ["state", "rules.vcl"].map(|name| home.path().join(name));
        let child = Command::new("varnishd")
            .args(words("-F -j none -a 127.0.0.1:0 -s default,16m"))
            .args(["-n", text(&state), "-f", text(&rules)])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        if child.is_err() {
            left_out("a replacement behind Varnish", "there is no varnishd");
        }
        Some(Self {
            child: child.ok()?,
            home,
        })
    }

    /// The address where it listens, once it does.
    fn addr(&self) -> SocketAddr {
        let mut found = None;
        eventually("varnishd listens", || {
            found = self.listens();
            found.is_some()
        });
        found.expect("an address")
    }

    fn listens(&self) -> Option<SocketAddr> {
        let text = String::from_utf8(self.admin("debug.listen_address").ok()?.stdout).ok()?;
        // "a0 127.0.0.1 35355"
        let mut words = text.split_whitespace().skip(1);
        format!("{}:{}", words.next()?, words.next()?).parse().ok()
    }

    fn admin(&self, command: &str) -> std::io::Result<std::process::Output> {
        let state = self.home.path().join("state");
        Command::new("varnishadm")
            .args(["-n", text(&state), command])
            .output()
    }
}

impl Drop for Varnish {
    fn drop(&mut self) {
        // SIGTERM has it end its own child too.
        let _ = self.admin("stop");
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn through(addr: SocketAddr, target: &str) -> Response {
    let mut raw = Raw::connect(addr);
    ask(&mut raw, "GET", target, "Connection: close\r\n", b"")
}

/// Reads a value until the proxy has it, replaces it, and reads it again; then the same with a key that is missing at
/// first.
fn assert_replacements_show(server: &TestServer, addr: SocketAddr) {
    for round in 0..3 {
        for length in [100, 100_000] {
            let (key, old, new) = (format!("v{length}"), vec![b'a'; length], vec![b'b'; length]);
            server.store(&key, &old);
            for _ in 0..2 {
                assert!(through(addr, &format!("/{key}")).body == old);
            }
            server.store(&key, &new);
            let got = through(addr, &format!("/{key}"));
            assert!(got.body == new, "round {round}: {length} old bytes");
        }
        let new = format!("/new{round}");
        assert_eq!(through(addr, &new).status, 404);
        server.store(&new[1..], "new");
        assert_eq!(through(addr, &new).status, 200, "a 404 was kept");
        let listing = through(addr, "/").body;
        let listing = String::from_utf8_lossy(&listing);
        assert!(listing.contains(&new[1..]), "an old listing: {listing}");
    }
}

#[test]
fn varnish_that_stores_values_revalidates_them_and_shows_a_new_one_at_once() {
    clear_only!("its client is another program");
    let mut server = TestServer::start(&["--access-log"]);
    // Store and revalidate, as in RFC 9111: the built-in rules do not store a response with no-cache. Varnish
    // revalidates only a response that was once fresh, if only for a microsecond.
    let rules = "sub vcl_backend_response {
        if (beresp.http.Cache-Control == \"no-cache\") {
            set beresp.ttl = 0.001ms;
            set beresp.grace = 0s;
            set beresp.keep = 10m;
            return (deliver);
        }
    }";
    let varnish = needed!(Varnish::start(&server, rules));
    let addr = varnish.addr();
    assert_replacements_show(&server, addr);
    server.store("kept", "value");
    for _ in 0..3 {
        let got = through(addr, "/kept");
        assert_eq!((got.status, &*got.body), (200, &b"value"[..]));
    }
    drop(varnish);
    server.stop();
    let mut asked = server.logged("access");
    asked.retain(|event| event.field("key") == "/kept" && event.field("method") == "GET");
    let statuses: Vec<u64> = asked.iter().map(|e| e.number("status")).collect();
    assert_eq!(statuses, [200, 304, 304]);
}
