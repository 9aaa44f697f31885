//! T10: thousands of slow connections (heads, bodies, readers) are held while others are served. The others do not
//! notice, each slow one is closed within its limit, and none costs more than 16 KiB of the server's memory.
//!
//! The answer times of the server under siege are compared with those of one that has peace, in turn, so that whatever
//! else the machine does meets both. A slow connection that is closed is opened again for as long as the siege lasts.

mod siege;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use self::siege::{Kind, Plan, besiege};
use crate::prelude::*;

/// The 99th percentile of 500 answers in a second.
fn p99(client: &mut Raw) -> Duration {
    const REQUESTS: u32 = 500;
    let start = Instant::now();
    let took = (0..REQUESTS).map(|n| {
        let due = start + Duration::from_secs(1) * n / REQUESTS;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let sent = Instant::now();
        let answer = client.ask("GET /here HTTP/1.1\r\nHost: t\r\n\r\n");
        assert_eq!(answer.status, 200);
        sent.elapsed()
    });
    let mut took: Vec<Duration> = took.collect();
    took.sort_unstable();
    took[took.len() * 99 / 100]
}

/// Medians of 5 runs of each, in turn: without the siege, and under it.
fn compare(quiet: &TestServer, besieged: &TestServer) -> (Duration, Duration) {
    let median = |mut all: Vec<Duration>| {
        all.sort_unstable();
        all[all.len() / 2]
    };
    let (mut at_peace, mut under_siege) = (quiet.connect(), besieged.connect());
    let runs = (0..5).map(|_| (p99(&mut at_peace), p99(&mut under_siege)));
    let (at_peace, under_siege) = runs.unzip();
    (median(at_peace), median(under_siege))
}

fn is_unhurt((quiet, besieged): (Duration, Duration)) -> bool {
    besieged <= quiet * 2 + Duration::from_millis(1)
}

/// Servers that allow a head so long, with what the tests ask for in place.
fn server(header_timeout: &str, more: &[&str]) -> TestServer {
    let args = words("--threads 2 --max-connections 60000 --body-timeout 10s --header-timeout");
    let server = TestServer::start(&[&args[..], &[header_timeout], more].concat());
    server.dir.place("here", pattern(1, 1024));
    server.dir.place("large", pattern(2, 8 << 20));
    server.dir.place("slow", "old");
    server
}

/// Lets this process, and the servers it starts, have `files` open; false where that is not permitted.
fn raise_descriptors(files: u64) -> bool {
    let now = getrlimit(Resource::Nofile);
    let enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= files);
    let raised = Rlimit {
        current: Some(files),
        maximum: now.maximum.map(|most| most.max(files)),
    };
    enough(now.current) || setrlimit(Resource::Nofile, raised).is_ok()
}

#[test]
fn thousands_of_slow_connections_hurt_nobody() {
    use Kind::{Head, LargeBody, Reader, SmallBody};
    let plan = Plan {
        kinds: &[Head, SmallBody, Reader, Head, LargeBody, Reader],
        connections: scaled(2_000, 10_000),
        header_limit: scaled(Duration::from_secs(12), Duration::from_secs(60)),
    };
    // Here one for each, and for the readers that are kept when their time is over; there also the large bodies' files.
    let can_hold = raise_descriptors(plan.connections as u64 * 19 / 10);
    let why = "so many descriptors are not permitted";
    only_where!(can_hold, "slow connections", why);
    let quiet = server("10s", &[]);
    let besieged = server(scaled("12s", "60s"), &[]);
    let hold = scaled(Duration::ZERO, Duration::from_secs(60));
    let mut figures = None;
    let start = Instant::now();
    let report = besiege(&besieged, &plan, || {
        // Other jobs of the machine may hit the one and not the other: a server that is hurt is hurt each time.
        while figures.is_none_or(|f| !is_unhurt(f)) && start.elapsed() < hold + DEADLINE * 2 {
            figures = Some(compare(&quiet, &besieged));
        }
        thread::sleep(hold.saturating_sub(start.elapsed()));
    });
    let figures = figures.expect("figures");
    let counts = format!(
        "{} slow connections held, {} opened in all, {} bytes each, p99 of others {:?} (quiet {:?})",
        plan.connections, report.opened, report.each, figures.1, figures.0
    );
    counted!("slow: {counts}");
    assert!(is_unhurt(figures), "{counts}");
    assert_eq!(report.judge(&plan), Ok(()), "{counts}");
    assert!(report.closed >= plan.connections / 2, "{report:?}");
    assert_eq!(besieged.get("slow").body, b"old");
    besieged.dir.assert_holds(&["here", "large", "slow"]);
}

#[test]
fn a_server_that_is_hurt_is_found_out() {
    let times = |quiet, besieged| [quiet, besieged].map(Duration::from_micros).into();
    assert!(is_unhurt(times(200, 1_400)) && is_unhurt(times(9_000, 19_000)));
    assert!(!is_unhurt(times(200, 1_401)) && !is_unhurt(times(9_000, 19_001)));
}
