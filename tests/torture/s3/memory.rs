//! An S3 store under a load that does not fit in memory.

use super::serve;
use crate::prelude::*;
use crate::support::s3::VersityGw;

const BLOCK: usize = 64 << 10;
const LIMIT_KIB: u64 = 96 << 10;

/// Clients at once, and the length of their values.
fn load() -> (usize, usize) {
    scaled((16, 10_000_000), (64, 40_000_000))
}

#[test]
fn uploads_and_downloads_at_once_stay_under_96_mib() {
    let store = needed!(VersityGw::start(1));
    // On a busy machine the store takes long to answer so many at once.
    let server = Launch::new(&["--threads", "2", "--s3-timeout", "60s"]);
    let server = server.on_bucket(&store.bucket).start();
    let (clients, len) = load();
    let mut peaks = Vec::new();
    let mut note = |what: &str| {
        let peak = server.proc().peak_rss_kib() >> 10;
        peaks.push(format!("{peak} MiB after {what}"));
    };
    at_once(clients, |client, here| {
        upload(&server, client % 4, len, false, here);
    });
    note("PUTs of known length");
    at_once(clients, |client, here| {
        download(&server, &format!("key-{}", client % 4), len, here);
    });
    note("GETs");
    at_once(clients, |client, here| {
        upload(&server, client % 4, len, true, here);
    });
    note("PUTs of unknown length");
    let peak = server.proc().peak_rss_kib();
    let peaks = peaks.join(", ");
    counted!("s3 memory: {clients} clients at once, {len} bytes each: {peaks}");
    assert!(peak < LIMIT_KIB, "{peak} KiB resident");
    assert_eq!(store.bucket.multipart_uploads(), 0);
}

/// Runs every client on a thread of its own. Each calls its second argument to wait until all have reached that point.
fn at_once(clients: usize, client: impl Fn(usize, &dyn Fn()) + Sync) {
    let here = AtomicUsize::new(0);
    let all_are_here = || {
        here.fetch_add(1, Ordering::AcqRel);
        let comes = || here.load(Ordering::Acquire) == clients;
        eventually("all clients are in the middle", comes);
    };
    thread::scope(|scope| {
        for n in 0..clients {
            let (client, all_are_here) = (&client, &all_are_here);
            scope.spawn(move || client(n, all_are_here));
        }
    });
}

/// Stores a value whose length is known before, or in chunks.
fn upload(server: &TestServer, key: usize, len: usize, is_chunked: bool, here: &dyn Fn()) {
    let (mut raw, block) = (server.connect(), pattern(1, BLOCK));
    let chunked_head = "Host: t\r\nTransfer-Encoding: chunked\r\n\r\n";
    raw.send(if is_chunked {
        format!("PUT /key-{key} HTTP/1.1\r\n{chunked_head}")
    } else {
        put_head(&format!("key-{key}"), len)
    });
    for (n, from) in (0..len).step_by(BLOCK).enumerate() {
        if n == 8 {
            here();
        }
        let block = &block[..BLOCK.min(len - from)];
        raw.send(if is_chunked {
            chunked([block])
        } else {
            block.to_vec()
        });
    }
    raw.send(if is_chunked { "0\r\n\r\n" } else { "" });
    assert_eq!(raw.answer().status, 200);
}

fn download(server: &TestServer, key: &str, len: usize, here: &dyn Fn()) {
    let mut raw = server.begin("GET", &format!("/{key}"), "");
    assert_eq!(raw.head().length(), len);
    here();
    assert_eq!(raw.stream_to(len, &mut vec![0; BLOCK], |_| {}), len);
}

#[test]
fn a_reader_that_stops_holds_less_than_a_mebibyte() {
    let store = needed!(VersityGw::start(1));
    let server = serve(&store.bucket);
    let (len, readers) = (scaled(20_000_000, 200_000_000), 16);
    store.bucket.place("key", pattern(1, len));
    // A first one has made what all of them share.
    download(&server, "key", len, &|| {});
    let before = server.proc().peak_rss_kib();
    let stopped = (0..readers).map(|_| {
        let mut raw = Raw::connect_narrow(server.addr);
        raw.send("GET /key HTTP/1.1\r\nHost: t\r\n\r\n");
        assert_eq!(raw.head().length(), len);
        raw
    });
    let stopped: Vec<_> = stopped.collect();
    // While one reads all of it, the others are sent what they do not read.
    download(&server, "key", len, &|| {});
    let more = server.proc().peak_rss_kib().saturating_sub(before);
    let each = more / readers;
    let stopped = stopped.len();
    counted!("s3 readers: {stopped} stopped in {len} bytes: {each} KiB each");
    assert!(each < 1 << 10, "{each} KiB each");
}
