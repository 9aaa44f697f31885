//! Proves the metrics: well formed in both formats, exact for known traffic, and without text that a client chose.

#![expect(
    clippy::float_cmp,
    reason = "counts are whole, small, and exact in a float"
)]

use crate::support::prelude::*;

const OPEN: &str =
    "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";

/// Cumulative buckets with growing bounds, the last of them infinite and equal to the count.
fn assert_histograms(scrape: &Scrape) -> usize {
    let mut series: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for sample in &scrape.samples {
        let Some(name) = sample.name.strip_suffix("_bucket") else {
            continue;
        };
        let bound = sample.labels["le"].replace("+Inf", "inf");
        let reactor = sample.labels.get("reactor").map_or("", String::as_str);
        let key = format!("{name} {reactor}");
        let bucket = (bound.parse().expect("a bound"), sample.value);
        series.entry(key).or_default().push(bucket);
    }
    for (key, buckets) in &series {
        let (name, reactor) = key.split_once(' ').expect("both");
        let grows = |pair: &[(f64, f64)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
        assert!(buckets.windows(2).all(grows), "{key}: {buckets:?}");
        let last = buckets.last().expect("a bucket");
        let labels = [("reactor", reactor)];
        let is_of_all = reactor.is_empty();
        let labels = if is_of_all { &[][..] } else { &labels[..] };
        let count = scrape.sum(&format!("{name}_count"), labels);
        let is_right = last.0.is_infinite() && last.1 == count;
        assert!(is_right, "{key}: {last:?} of {count}");
    }
    series.len()
}

#[test]
fn both_formats_are_well_formed() {
    let durability = by_engine(&["--durability", "disk"][..], &[]);
    let server = TestServer::start(&[&["--threads", "2"][..], durability].concat());
    server.store("k", pattern(1, 5000));
    server.get("k");
    server.get("gone");
    let open = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let plain = "text/plain; version=0.0.4; charset=utf-8";
    for (accept, is_open) in [
        (OPEN, true),
        ("application/openmetrics-text", true),
        ("*/*", false),
        ("text/plain, application/openmetrics-text;q=0.5", false),
        ("application/openmetrics-text;q=0", false),
        ("application/openmetrics-text;version=9.9.9", false),
    ] {
        let media_type = if is_open { open } else { plain };
        let scrape = Scrape::accepting(server.addr, accept);
        assert_eq!(scrape.media_type, media_type, "{accept}");
        // promtool judges the rest: OpenMetrics has an end, and names counters without `_total` where it declares them.
        assert_eq!(scrape.text.ends_with("\n# EOF\n"), is_open, "{accept}");
        let declared = scrape
            .text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"));
        let mut declared = declared.inspect(|name| {
            let is_right = scrape.samples.iter().any(|it| it.name.starts_with(name));
            assert!(is_right, "{name}");
        });
        let is_right = declared.all(|name| name.ends_with("_total") != is_open);
        assert!(is_right, "{accept}");
        // A directory has four of its own; to a store each reactor has one, and so have the server's own pages.
        let own = by_engine(4, 3);
        assert_eq!(assert_histograms(&scrape), 3 * 2 + own, "{accept}");
        assert_eq!(scrape.only("data_server_ready"), 1.0);
        let build = scrape.all("data_server_build_info", &[]).next();
        let version = &build.expect("one").labels["version"];
        assert_eq!(version, env!("CARGO_PKG_VERSION"));
    }
}

/// promtool is the judge where it is installed.
#[test]
fn promtool_reports_nothing() {
    only_where!(
        is_on_path("promtool"),
        "the judgement of promtool",
        "there is no promtool"
    );
    let server = TestServer::start(&["--threads", "2"]);
    server.store("k", "v");
    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut promtool = promtool.expect("promtool");
    let text = Scrape::of(server.addr).text;
    let mut stdin = promtool.stdin.take().expect("its input");
    stdin.write_all(text.as_bytes()).expect("it reads");
    drop(stdin);
    let said = promtool.wait_with_output().expect("it ends");
    let words = [said.stdout, said.stderr].concat();
    let words = String::from_utf8_lossy(&words);
    assert!(said.status.success() && words.trim().is_empty(), "{words}");
}

/// Long bodies of GET and PUT count, by direction; short ones, bodies that are not sent, and refused heads do not.
#[test]
fn takeovers_are_counted_by_direction() {
    http1_only!("no socket is taken over");
    directory_only!("bodies between sockets and files");
    let long = pattern(1, 300_000);
    for (setting, expected) in [("on", [2.0, 3.0]), ("off", [0.0, 0.0])] {
        let server = Launch::new(&[])
            .env("DATA_SERVER_TAKEOVER", setting)
            .start();
        server.store("short", "value");
        server.store_each("long longer", long.clone());
        for key in ["short", "long", "longer", "long", "gone"] {
            server.get(key);
        }
        let head = "HEAD /long HTTP/1.1\r\nHost: t\r\n\r\n";
        assert_eq!(server.connect().ask(head.as_bytes()).status, 200);
        assert_eq!(server.connect().ask(b"nonsense\r\n\r\n").status, 400);
        let scrape = Scrape::of(server.addr);
        let taken_over = |way| scrape.sum("data_server_takeovers_total", &[("direction", way)]);
        let found = [taken_over("receive"), taken_over("send")];
        assert_eq!(found, expected, "{setting}");
    }
}

#[test]
fn no_client_can_add_a_series() {
    let server = TestServer::start(&["--threads", "1"]);
    let series = |scrape: &Scrape| -> BTreeSet<String> {
        let of = |s: &crate::support::Sample| format!("{} {:?}", s.name, s.labels);
        scrape.samples.iter().map(of).collect()
    };
    assert_eq!(server.ask("M0", "k0").status, 405);
    let before = series(&Scrape::of(server.addr));
    for i in 1..50 {
        let lines =
            format!("M{i} /k{i} HTTP/1.1\r\nHost: h{i}\r\nUser-Agent: u{i}\r\nX-{i}: {i}\r\n\r\n");
        assert_eq!(server.connect().ask(lines).status, 405);
    }
    let scrape = Scrape::of(server.addr);
    assert_eq!(series(&scrape), before);
    let others = [("method", "other"), ("status", "4xx")];
    assert_eq!(scrape.sum("data_server_requests_total", &others), 50.0);
    let known = words("reactor method status direction result limit version le reason");
    for sample in &scrape.samples {
        let is_right = sample.labels.keys().all(|key| known.contains(&&**key));
        assert!(is_right, "{sample:?}");
    }
}

/// The first byte goes at once, the last when the reader takes it.
#[test]
fn the_first_byte_is_not_the_last() {
    let server = TestServer::start(&["--threads", "1"]);
    server.store("large", pattern(1, 40_000_000));
    let before = Scrape::of(server.addr);
    let mut slow = Raw::connect_narrow(server.addr);
    slow.send("GET /large HTTP/1.1\r\nHost: t\r\n\r\n");
    slow.head();
    // The response has begun and cannot end, because it waits for this reader.
    pass(Duration::from_millis(100));
    let during = Scrape::of(server.addr);
    let gets = |scrape: &Scrape| scrape.sum("data_server_requests_total", &[("method", "GET")]);
    assert_eq!(gets(&during) - gets(&before), 1.0, "the scrape alone");
    slow.take(40_000_000);
    let comes = || gets(&Scrape::of(server.addr)) - gets(&before) >= 3.0;
    eventually("the download is counted", comes);
    let scrape = Scrape::of(server.addr);
    let sum = |of: &str| scrape.only(&format!("data_server_{of}_seconds_sum"));
    let (first, last) = (sum("time_to_first_byte"), sum("request_duration"));
    assert!(last - first >= 0.1, "{first} {last}");
}

#[test]
fn syncs_and_batches_are_counted() {
    directory_only!("durability");
    let server = TestServer::start(&["--durability", "disk", "--journal", "off", "--threads", "1"]);
    for i in 0..5 {
        server.store(&format!("k{i}"), "v");
    }
    let scrape = Scrape::of(server.addr);
    assert_eq!(scrape.only("data_server_publish_batch_size_sum"), 5.0);
    // Each value, and its name.
    assert_eq!(scrape.only("data_server_sync_duration_seconds_count"), 10.0);
}

/// Heads that are refused before hyper sees a request are counted too.
#[test]
fn refused_heads_are_counted() {
    http1_only!("malformed heads");
    let server = TestServer::start(&["--threads", "1", "--header-timeout", "200ms"]);
    let others = |status| {
        let labels = [("method", "other"), ("status", status)];
        Scrape::of(server.addr).sum("data_server_requests_total", &labels)
    };
    let refused = |head: &str| {
        let mut raw = server.connect();
        raw.send(head);
        raw.answer().status
    };
    // Refused by the framing guard, by hyper, and by the time limit.
    let twice = "PUT /k HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n";
    assert_eq!(refused(twice), 400);
    assert_eq!(refused("GET /k HTTP/1.1\r\nHost: \u{1}\r\n\r\n"), 400);
    assert_eq!(refused("GET /k HTTP/1.1\r\nHost: "), 408);
    eventually("the three are counted", || others("4xx") == 3.0);
    let coded = "PUT /k HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: gzip, chunked\r\n\r\n";
    assert_eq!(refused(coded), 501);
    eventually("and the fourth", || others("5xx") == 1.0);
    assert_eq!(others("4xx"), 3.0);
}

/// Each bound has its own figures: an operator sees which cache misses, and which one evicts.
#[test]
fn a_bound_tells_its_hits_misses_evictions_and_fullest_names() {
    directory_only!("bounds are of a directory");
    let (mut words, bounds) = (
        Vec::new(),
        [
            r#"prefix = "a/", max-size = "8KiB""#,
            r#"prefix = "b/", max-size = "1MiB""#,
            r#"prefix = "home/{name}/", max-size = "100KiB", full = "refuse""#,
        ],
    );
    for bound in bounds {
        words.extend(["--bound", bound]);
    }
    let server = Launch::new(&words).on(&DataDir::in_memory()).start();
    let block = pattern(1, 4096);
    server.store_each("a/1 a/2 a/3 b/1 free", block.clone());
    for key in ["a/3", "a/3", "a/1", "b/1", "free", "none"] {
        server.get(key);
    }
    let tag = server.get("b/1").must("etag").to_owned();
    let head = format!("HEAD /b/1 HTTP/1.1\r\nHost: t\r\nIf-None-Match: {tag}\r\n\r\n");
    assert_eq!(server.connect().ask(head).status, 304);
    for (name, blocks) in (0..12).map(|n| (n, n % 6 + 1)).chain([(12, 20)]) {
        server.store(&format!("home/n{name}/k"), pattern(2, blocks * 4096));
    }
    server.store("home/%22q%5C/k", pattern(3, 24 * 4096));
    let scrape = Scrape::of(server.addr);
    let of = |name: &str, prefix| {
        let name = format!("data_server_bound_{name}");
        let labels = [("prefix", prefix)];
        let samples = scrape.all(&name, &labels);
        samples.map(|it| it.value).collect::<Vec<_>>()
    };
    // Hits, and then misses.
    assert_eq!(of("requests_total", "a/"), [2.0, 1.0]);
    assert_eq!(of("requests_total", "b/"), [3.0, 0.0]);
    assert_eq!(of("evicted_total", "a/"), [1.0]);
    assert_eq!(of("evicted_bytes_total", "a/"), [4096.0]);
    assert_eq!(of("last_evicted_idle_seconds", "a/"), [0.0]);
    assert_eq!(of("evicted_total", "b/"), [0.0]);
    assert_eq!(of("last_evicted_idle_seconds", "b/"), [0.0; 0]);
    // The sum has no limit beside it; of 14 names the 10 fullest have.
    let sum = f64::from((0..12).map(|n| n % 6 + 1).sum::<i32>() + 20 + 24) * 4096.0;
    assert_eq!(of("bytes", "home/{name}/"), [sum]);
    assert_eq!(of("max_bytes", "home/{name}/"), [0.0; 0]);
    assert_eq!(of("bytes", "home/n12/"), [20.0 * 4096.0]);
    assert_eq!(of("max_bytes", "home/n12/"), [102_400.0]);
    assert_eq!(of("bytes", "home/n0/"), [0.0; 0]);
    let max = scrape.all("data_server_bound_max_bytes", &[]).count();
    assert_eq!(max, 2 + 10);
    let escaped = r#"data_server_bound_bytes{prefix="home/\"q\\/"} 98304"#;
    assert!(scrape.text.contains(escaped), "{}", scrape.text);
}
