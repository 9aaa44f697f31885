//! Proves the routes of the server's own pages under `/-/`: they are not keys, and they accept only GET and HEAD.

use crate::support::prelude::*;

#[test]
fn only_the_own_pages_answer_below_their_prefix() {
    // Decoded, it is no page; and no key begins so.
    TestServer::start(&["--threads", "1"]).talk(
        "
        GET /-/healthz ; 200 ; ; alive
        HEAD /-/healthz ; 200
        GET /-/ ; 404
        GET /-/nothing ; 404
        GET /-/healthz/ ; 404
        GET /-//healthz ; 404
        GET /%2d/healthz ; 400
        GET /-%2fhealthz ; 400
        PUT,DELETE,POST /-/healthz ; 405 ; ; ; allow: GET, HEAD, OPTIONS
        OPTIONS /-/healthz ; 204 ; ; ; allow: GET, HEAD, OPTIONS",
    );
}

#[test]
fn admin_has_a_listener_and_a_thread_of_its_own() {
    clear_only!("its line is of http");
    let args = "--threads 1 --admin 127.0.0.1:0 --access-log --log-level trace";
    let mut server = TestServer::start(&words(args));
    let admin = server.admin();
    assert_ne!(admin, server.addr);
    let threads = server.proc().threads();
    assert!(threads.iter().any(|(name, _)| name == "admin"));
    let on = |addr, method: &str, path: &str| {
        let line = format!("{method} /{path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
        Raw::connect(addr).ask(line).status
    };
    server.store("k", "v");
    for (page, beside_values) in [("-/healthz", 200), ("-/ready", 200), ("-/metrics", 404)] {
        assert_eq!(on(server.addr, "GET", page), beside_values, "{page}");
        assert_eq!(on(admin, "GET", page), 200, "{page}");
        assert_eq!(on(admin, "POST", page), 405, "{page}");
    }
    // The page lists the pages, and each of them answers.
    assert_eq!(on(admin, "POST", ""), 405);
    let index = Raw::connect(admin).get("");
    assert_eq!(index.must("content-type"), "text/plain; charset=utf-8");
    let index = index.text();
    assert_eq!(index, "/-/healthz /-/ready /-/metrics\n");
    for page in index.split_whitespace() {
        assert_ne!(on(admin, "PUT", &page[1..]), 404, "{page}");
    }
    for path in ["k", "a/b"] {
        for method in ["GET", "DELETE", "OPTIONS"] {
            assert_eq!(on(admin, method, path), 404, "{method} /{path}");
        }
    }
    // The feed is of the values, and stays with them.
    assert_eq!(on(admin, "GET", "-/watch"), 404);
    assert_eq!(on(server.addr, "POST", "-/watch"), 405);
    if is_s3() {
        assert_eq!(on(server.addr, "GET", "-/watch"), 501);
    } else {
        let mut events = Events::over(server.connect(), "", "");
        server.store("k", "v");
        assert_eq!(events.until("k").len(), 1);
        assert!(Scrape::of(admin).only("data_server_watch_subscribers") > 0.0);
    }
    let mut put = Raw::connect(admin);
    put.send(put_head("new", 1));
    assert_eq!(put.answer().status, 404);
    assert_eq!(server.get("k").body, b"v");
    server.dir.assert_holds(&["k"]);
    server.stop();
    let found = server.stdout();
    assert_eq!(found, [format!("listening on http://{}", server.addr)]);
}

/// strace holds the only reactor inside a system call. The own pages are still answered.
#[test]
fn the_pages_are_answered_while_the_reactor_is_blocked() {
    directory_only!("system calls on files");
    let options = words("-e trace=fstat -e inject=fstat:delay_enter=60000000:when=8+");
    let left_out = "the pages while all reactors are held";
    let trace = needed!(Trace::with(&options, left_out));
    let launch = Launch::new(&["--threads", "1", "--admin", "127.0.0.1:0"]);
    let server = trace.around(launch).start();
    let admin = server.admin();
    let mut held = server.connect();
    let mut other = server.connect();
    // After this answer the connection is accepted. A missing key needs no such call.
    other.get("gone");
    // Some of the first calls belong to the start; each GET of a hot value makes one.
    server.dir.place("hot", "value");
    held.send("GET /hot HTTP/1.1\r\nHost: t\r\n\r\n".repeat(20));
    eventually("the reactor is held", || {
        other.send("GET /gone HTTP/1.1\r\nHost: t\r\n\r\n");
        let is_held = other.silent_for(Duration::from_millis(500)).is_ok();
        if !is_held {
            other.answer();
        }
        is_held
    });
    let began = std::time::Instant::now();
    for page in ["healthz", "ready", "metrics"] {
        let line = format!("GET /-/{page} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
        assert_eq!(Raw::connect(admin).ask(line).status, 200, "{page}");
    }
    assert!(Scrape::of(admin).sum("data_server_connections_active", &[]) >= 2.0);
    let is_right = began.elapsed() < Duration::from_secs(50);
    assert!(is_right, "{:?}", began.elapsed());
    let is_right = other.silent_for(Duration::from_millis(1)).is_ok();
    assert!(is_right, "still held");
    server.proc().kill_tracer();
}
