//! Proves that memory does not grow with the values (64 uploads and 64 downloads at once), and that an idle connection
//! takes little of it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::prelude::*;

const CLIENTS: usize = 64;
const KEYS: usize = 4;
const BLOCK: usize = 64 * 1024;
const LIMIT_KIB: u64 = 96 * 1024;

/// Of each of the values, which together are more than three times the limit.
fn size() -> usize {
    scaled(6_000_000, 40_000_000)
}

#[test]
fn uploads_and_downloads_of_384_mb_at_once_stay_under_96_mb() {
    let server = TestServer::start(&[]);
    let block = pattern(1, BLOCK);
    at_once(|client, all_are_here| upload(&server, client % KEYS, &block, all_are_here));
    let after_puts = server.proc().peak_rss_kib();
    at_once(|client, all_are_here| download(&server, client % KEYS, &block, all_are_here));
    let after_gets = server.proc().peak_rss_kib();
    eprintln!(
        "peak RSS: {} MiB after {CLIENTS} PUTs at once, {} MiB after {CLIENTS} GETs",
        after_puts / 1024,
        after_gets / 1024
    );
    // A client of HTTP/2 may be a window ahead of the disk.
    let most = by_protocol(LIMIT_KIB, LIMIT_KIB + 32 * 1024);
    assert!(after_gets < most, "{after_gets} KiB resident");
    server.dir.assert_holds(&["0", "1", "2", "3"]);
}

/// Runs every client on a thread of its own. Each calls its second argument to wait until all have reached that point.
fn at_once(client: impl Fn(usize, &dyn Fn()) + Sync) {
    let here = AtomicUsize::new(0);
    let all_are_here = || {
        here.fetch_add(1, Ordering::AcqRel);
        let comes = || here.load(Ordering::Acquire) == CLIENTS;
        eventually("all clients are in the middle", comes);
    };
    thread::scope(|scope| {
        for n in 0..CLIENTS {
            let (client, all_are_here) = (&client, &all_are_here);
            scope.spawn(move || client(n, all_are_here));
        }
    });
}

fn upload(server: &TestServer, key: usize, block: &[u8], all_are_here: &dyn Fn()) {
    let mut connection = server.connect();
    connection.send(put_head(&key.to_string(), size()));
    for (n, start) in (0..size()).step_by(BLOCK).enumerate() {
        if n == 8 {
            all_are_here();
        }
        connection.send(&block[..BLOCK.min(size() - start)]);
    }
    assert_eq!(connection.answer().status, 200);
}

fn download(server: &TestServer, key: usize, block: &[u8], all_are_here: &dyn Fn()) {
    let mut connection = server.begin("GET", &format!("/{key}"), "");
    assert_eq!(connection.head().length(), size());
    all_are_here();
    let mut at = 0;
    let got = connection.stream_to(size(), &mut vec![0; BLOCK], |mut piece| {
        while !piece.is_empty() {
            let part = piece.len().min(BLOCK - at % BLOCK);
            let is_right = piece[..part] == block[at % BLOCK..][..part];
            assert!(is_right, "another value near byte {at}");
            at += part;
            piece = &piece[part..];
        }
    });
    assert_eq!(got, size());
}

/// What an idle connection takes of the server's memory, in bytes, by two looks at `count` of them each. All of them
/// are served in the end.
fn cost_of_idle(server: &TestServer, count: usize, connect: &dyn Fn() -> Raw) -> [u64; 2] {
    let mut idle = Vec::new();
    let looks = [(); 2].map(|()| {
        let before = server.proc().rss_kib();
        idle.extend((0..count).map(|_| connect()));
        server.proc().rss_kib().saturating_sub(before) * 1024 / count as u64
    });
    eprintln!("an idle connection costs {looks:?} bytes of memory");
    for raw in &mut idle {
        assert_eq!(raw.get("k").length(), 1024);
    }
    looks
}

/// So many in the clear, and fewer over TLS.
const IDLE: usize = 1000;

#[test]
fn an_idle_connection_costs_little_memory() {
    http1_only!("a connection of HTTP/2 keeps tables and windows");
    clear_only!("a session of TLS has a bound of its own");
    directory_only!("the cache");
    let room = 2 * IDLE as u64 + 500;
    let most = getrlimit(Resource::Nofile).maximum;
    if most.is_some_and(|most| most < room) {
        return left_out("the memory of idle connections", "fewer may be open here");
    }
    raise_limit_to(room);
    let authority = Authority::new();
    let own = authority.issue("own", &["127.0.0.1"]);
    let sealed = [
        &own.options()[..],
        &["--threads", "1", "--header-timeout", "5m"],
    ]
    .concat();
    let sealed = Launch::new(&sealed).listen("https://127.0.0.1:0").start();
    let clear = TestServer::start(&["--threads", "2"]);
    for (server, is_sealed, count, most) in [
        (&clear, false, IDLE, (8 << 10) - 1),
        (&sealed, true, 400, 12 << 10),
    ] {
        server.dir.place("k", pattern(1, 1024));
        let connect = || {
            let mut raw = if is_sealed {
                Raw::connect_tls(server.addr, &authority.client())
            } else {
                server.connect()
            };
            assert_eq!(raw.get("k").length(), 1024);
            raw
        };
        eventually("the value is kept", || {
            drop(connect());
            server.proc().has_open(&server.dir.file("k"))
        });
        // So many may keep the buffers of HTTP between requests: these do, in the middle of one.
        let mut first: Vec<Raw> = (0..300).map(|_| connect()).collect();
        for raw in &mut first {
            raw.send("GET /k HTTP/1.1\r\n");
        }
        // A reactor answers these after it has read those.
        (0..4).for_each(|_| drop(connect()));
        let [first, second] = cost_of_idle(server, count, &connect);
        // With two reactors a thread that starts meanwhile brings memory of its own, once.
        let each = if is_sealed {
            first.max(second)
        } else {
            first.min(second)
        };
        assert!(each <= most, "{each} bytes for each, over TLS: {is_sealed}");
    }
}

/// Raises this process's limit on open files to so many.
fn raise_limit_to(files: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < files) {
        let raised = Rlimit {
            current: Some(files),
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, raised).expect("a limit below the hard one");
    }
}
