//! Proves the digests of RFC 9530 (and Content-MD5): an upload is compared with its digests before it is published, a
//! GET can ask for the digest of the value, and no reactor hashes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::Md5;
use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use rustix::time::{ClockId, clock_gettime};
use sha2::{Digest, Sha512};

use crate::support::prelude::*;

fn sha512(value: &[u8]) -> String {
    format!("sha-512=:{}:", STANDARD.encode(Sha512::digest(value)))
}

fn md5(value: &[u8]) -> String {
    STANDARD.encode(Md5::digest(value))
}

/// In memory, in a file of one piece, and of several; not larger, because hashing is slow in a debug build.
const UPLOADS: [usize; 3] = [5_000, 100_000, 300_000];

fn put(server: &TestServer, lines: &str, value: &[u8]) -> u16 {
    let lines = format!("{lines}\r\n");
    server.request("PUT", "/k", &lines, value).status
}

/// Digest fields of `value`, which are wrong for any other value.
fn fields(value: &[u8]) -> [String; 11] {
    let (short, long, md5) = (sha256(value), sha512(value), md5(value));
    [
        format!("Content-Digest: {short}"),
        format!("Repr-Digest: {short}"),
        format!("Content-Digest: {long}"),
        format!("Repr-Digest: {long}, {short}"),
        format!("Content-Digest: {short}\r\nRepr-Digest: {long}"),
        format!("Content-Digest: {short}\r\nContent-Digest: {long}"),
        format!("Content-MD5: {md5}"),
        format!("Content-MD5: {md5}\r\nRepr-Digest: {short}"),
        format!("Repr-Digest: md5=:{md5}:"),
        // RFC 3230, which RFC 9530 made obsolete.
        format!("Digest: MD5={md5},unixsum=AAAA"),
        format!("Content-Digest: crc32c=:AAAAAA==:, unixsum=7, {short}"),
    ]
}

#[test]
fn a_right_digest_is_accepted_and_a_wrong_one_stores_nothing() {
    let server = TestServer::start(&[]);
    for length in [1, 10].into_iter().chain(UPLOADS) {
        let (value, other) = (pattern(1, length), pattern(2, length));
        for (good, bad) in fields(&value).into_iter().zip(fields(&other)) {
            server.store("k", "old");
            let old = server.get("k").must("etag").to_owned();
            assert_eq!(put(&server, &bad, &value), 400, "{bad}");
            let now = server.get("k");
            let found = (now.must("etag"), &now.body[..]);
            assert_eq!(found, (&old[..], &b"old"[..]), "{bad}");
            server.dir.assert_holds(&["k"]);
            assert_eq!(put(&server, &good, &value), 200, "{good}");
            assert!(server.dir.read("k") == value, "{good}");
            server.dir.assert_holds(&["k"]);
        }
    }
    let found = put(&server, &format!("Repr-Digest: {}", sha256(b"")), b"");
    assert_eq!(found, 200);
    // One that is wrong among right ones.
    server.dir.clear();
    let value = b"value";
    let (good, bad) = (sha256(value), sha256(b"other"));
    let (good_md5, bad_md5) = (md5(value), md5(b"other"));
    for lines in [
        format!("Content-Digest: {good}, {}", sha512(b"other")),
        format!("Content-Digest: {good}\r\nRepr-Digest: {bad}"),
        format!("Content-Digest: {good}\r\nContent-MD5: {bad_md5}"),
        format!("Content-MD5: {good_md5}\r\nContent-MD5: {bad_md5}"),
    ] {
        assert_eq!(put(&server, &lines, value), 400, "{lines}");
        server.dir.assert_holds(&[]);
    }
    // What was refused is no longer counted: here a value that is there before the end of the upload.
    let value = pattern(1, 300_000);
    let staged = || Scrape::of(server.addr).count("data_server_staged_bytes", &[]);
    let head = put_head("k", value.len());
    let mut raw = server.connect();
    raw.send(head.replace("\r\n\r\n", "\r\nIf-None-Match: *\r\n\r\n"));
    raw.send(&value[1..]);
    eventually("it is counted", || is_s3() || staged() > 0);
    server.store("k", "first");
    assert_eq!(raw.ask(&value[..1]).status, 412);
    eventually("a value that lost is not", || staged() == 0);
    assert_eq!(put(&server, &format!("Repr-Digest: {bad}"), &value), 400);
    eventually("a value with a wrong digest is not", || staged() == 0);
}

#[test]
fn digests_that_cannot_be_checked_and_malformed_fields_are_refused() {
    let server = TestServer::start(&[]);
    assert_eq!(put(&server, "Content-Digest:", b"v"), 200);
    assert_eq!(server.ask("DELETE", "k").status, 200);
    // Of each kind one: src/http/values/digest_fields.rs has the grammar.
    let malformed = r"
        Content-Digest: unixsum=30637
        Repr-Digest: md5=:AAAA:
        Digest: SHA-256=AAAA
        Content-MD5: AAAA";
    for [lines] in table(malformed) {
        let mut raw = server.ask_to_put("k", 1, &format!("{lines}\r\n"));
        assert_eq!(raw.answer().status, 400, "{lines}");
        server.dir.assert_holds(&[]);
    }
}

/// A chunked upload with these lines in its head and behind its body.
fn put_with_trailers(server: &TestServer, head: &str, trailers: &str, value: &[u8]) -> u16 {
    let lines = format!("Transfer-Encoding: chunked\r\n{head}");
    let mut raw = server.begin("PUT", "/k", &lines);
    raw.send(chunked(value.chunks(50_000)));
    raw.ask(format!("0\r\n{trailers}\r\n")).status
}

/// RFC 9110, section 6.6.2: a client should announce its trailers. The digests of one that does not are compared too.
#[test]
fn a_digest_may_follow_as_a_trailer_and_is_compared_before_publishing() {
    let server = TestServer::start(&[]);
    for length in [5].into_iter().chain(UPLOADS) {
        let (value, other) = (pattern(1, length), pattern(2, length));
        let announced = "Trailer: Repr-Digest, content-digest, Content-MD5\r\n";
        let told = format!("Content-Digest: {}\r\n", sha256(&value));
        for head in [announced, "", &told] {
            for (good, bad) in fields(&value).into_iter().zip(fields(&other)) {
                server.store("k", "old");
                for (trailer, status, now) in [(bad, 400, &b"old"[..]), (good, 200, &value)] {
                    let what = format!("{length} bytes, {head:?} then {trailer:?}");
                    let got = put_with_trailers(&server, head, &format!("{trailer}\r\n"), &value);
                    assert_eq!(got, status, "{what}");
                    assert!(server.dir.read("k") == now, "{what}");
                    server.dir.assert_nothing_staged();
                }
            }
        }
    }
    let [right, wrong] = [b"value", b"other"].map(|value| sha256(value));
    let [long, wrong_long] = [b"value", b"other"].map(|value| sha512(value));
    // The digest in the head, what follows, and the status.
    let rows = format!(
        "
        {right} ; Repr-Digest: {right} ; 200
        {right} ; Repr-Digest: {long} ; 200
        {right} ; Repr-Digest: {wrong_long} ; 400
        {wrong} ; Repr-Digest: {right} ; 400
        {right} ; Repr-Digest: {wrong} ; 400
        {right} ; Content-Digest: sha-256=x ; 400
        {right} ; Content-Digest: unixsum=1 ; 400
        {right} ; x-amz-checksum-xxhash64: AAAA ; 400
        {right} ; X-Other: y ; 200"
    );
    for [digest, trailer, status] in table(&rows) {
        let head = format!("Trailer: Content-Digest, Repr-Digest\r\nContent-Digest: {digest}\r\n");
        let got = put_with_trailers(&server, &head, &format!("{trailer}\r\n"), b"value");
        assert_eq!(got.to_string(), status, "{digest} then {trailer}");
    }
    let none = put_with_trailers(&server, "Trailer: Content-Digest\r\n", "", b"value");
    assert_eq!(none, 200, "what was announced does not come");
}

fn want(server: &TestServer, method: &str, key: &str, lines: &str) -> Response {
    server.request(method, &format!("/{key}"), &format!("{lines}\r\n"), b"")
}

/// The SHA-256 of `/k`, as the server tells it.
#[track_caller]
fn told(server: &TestServer, method: &str) -> String {
    let got = want(server, method, "k", WISH);
    got.must("repr-digest").to_owned()
}

#[test]
fn want_repr_digest_works_with_get_head_and_ranges() {
    directory_only!("compression");
    Classes::each(&["--compress"], ".txt", |classes| {
        for (key, value) in &classes.values {
            let (short, long) = (Some(sha256(value)), Some(sha512(value)));
            for (wish, expected) in [
                ("sha-256=1", &short),
                ("sha-512=1", &long),
                ("sha-512=3, sha-256=10", &short),
                ("sha-512=10, sha-256=3, md5=9", &long),
                ("sha-256=0, sha-512=1", &long),
                ("sha-256=0", &None),
                ("md5=10, unixsum=1", &None),
                ("sha-256", &None),
                ("nonsense=", &None),
            ] {
                let wish = format!("Want-Repr-Digest: {wish}");
                for method in ["GET", "HEAD"] {
                    let got = want(&classes.server, method, key, &wish);
                    let seen = got.header("repr-digest");
                    assert_eq!(seen, expected.as_deref(), "{method} /{key} {wish}");
                    assert!(method == "HEAD" || got.body == *value, "/{key} {wish}");
                }
                for range in ["bytes=1-4", "bytes=0-1,1000-1001"] {
                    let text = format!("{wish}\r\nRange: {range}");
                    let got = want(&classes.server, "GET", key, &text);
                    assert_eq!(got.status, 206);
                    let seen = got.header("repr-digest");
                    assert_eq!(seen, expected.as_deref(), "/{key} {wish} {range}");
                }
            }
            // RFC 9530, 3: the digest is of the representation that is sent, coded or not.
            let lines = format!("{WISH}\r\nAccept-Encoding: gzip");
            let got = want(&classes.server, "GET", key, &lines);
            assert_eq!(got.must("repr-digest"), sha256(&got.body), "/{key}");
            let unasked = want(&classes.server, "GET", key, "X: y");
            assert_eq!(unasked.header("repr-digest"), None);
        }
        assert_eq!(want(&classes.server, "GET", "gone", WISH).status, 404);
    });
}

const KEPT: &str = "user.data-server.sha-256";

fn kept(dir: &DataDir) -> Option<Vec<u8>> {
    let mut buf = [0; 256];
    let len = fgetxattr(File::open(dir.file("k")).expect("k"), KEPT, &mut buf).ok()?;
    Some(buf[..len].to_vec())
}

/// Lengths whose digests are kept: those of shorter values are computed each time.
const KEPT_LENGTHS: [usize; 2] = [70_000, 300_000];

/// Replaces the kept digest by a wrong one that counts.
fn falsify(dir: &DataDir) -> String {
    let mut bytes = kept(dir).expect("a kept digest");
    let (head, digest) = bytes.split_at_mut(24 + 16);
    digest.fill(7);
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let until = since.expect("a time") + Duration::from_millis(5);
    head[24..].copy_from_slice(&until.as_nanos().to_be_bytes());
    let file = File::open(dir.file("k")).expect("k");
    fsetxattr(&file, KEPT, &bytes, XattrFlags::empty()).expect("an attribute");
    format!("sha-256=:{}:", STANDARD.encode([7; 32]))
}

const WISH: &str = "Want-Repr-Digest: sha-256=1";

#[test]
fn the_computed_digest_of_a_large_value_is_kept_with_its_version_across_restarts() {
    directory_only!("hands in the directory");
    for length in KEPT_LENGTHS {
        let mut server = TestServer::start(&[]);
        let value = pattern(5, length);
        server.store("k", &value);
        let before = server.get("k").must("etag").to_owned();
        assert_eq!(told(&server, "GET"), sha256(&value));
        // Computing is no write.
        assert_eq!(server.get("k").must("etag"), before);
        // A wrong kept digest shows that the answer comes from there.
        let planted = falsify(&server.dir);
        for method in ["GET", "HEAD"] {
            assert_eq!(told(&server, method), planted);
        }
        let dir = server.dir.clone();
        server.stop();
        let server = Launch::new(&[]).on(&dir).start();
        assert_eq!(told(&server, "GET"), planted, "restarted");
        // The next version does not use it.
        server.store("k", &value);
        assert_eq!(told(&server, "GET"), sha256(&value));
        server.store("k", "a short value");
        assert_eq!(told(&server, "GET"), sha256(b"a short value"));
        assert_eq!(kept(&server.dir), None);
    }
}

/// Times of files repeat: mtime 1 of Nix, whole seconds of tar and git. Other bytes with the old time had the old
/// digest.
#[test]
fn other_bytes_never_have_the_kept_digest() {
    let server = needed!(TestServer::of_directory("hands in the directory", &[]));
    let dir = &server.dir;
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600);
    let set = |value: &[u8], time: Option<SystemTime>| {
        dir.edit("k", value);
        if let Some(time) = time {
            dir.date("k", time);
        }
    };
    for (seed, length) in (0..).step_by(10).zip(KEPT_LENGTHS) {
        for time in [None, Some(time)] {
            server.store("k", pattern(seed, length));
            set(&pattern(seed + 1, length), time);
            // At once after the last answer, of the same length and longer.
            for longer in [0, 0, 1] {
                let before = dir.read("k");
                assert_eq!(told(&server, "GET"), sha256(&before));
                let is_kept = kept(dir);
                assert!(is_kept.is_some());
                let other = pattern(seed + 2 + u64::from(before[0]), length + longer);
                set(&other, time);
                assert_eq!(kept(dir), is_kept);
                for method in ["HEAD", "GET"] {
                    assert_eq!(told(&server, method), sha256(&other), "{time:?}");
                }
            }
        }
        // Nor does an edit right after the PUT that gave the digest.
        let value = pattern(seed, length);
        let line = format!("Repr-Digest: {}", sha256(&value));
        assert_eq!(put(&server, &line, &value), 200);
        set(&pattern(seed + 1, length), Some(dir.modified("k")));
        assert_eq!(told(&server, "GET"), sha256(&pattern(seed + 1, length)));
    }
}

#[test]
fn a_read_only_server_computes_digests_and_keeps_none() {
    directory_only!("hands in the directory");
    let dir = DataDir::temporary();
    dir.place("k", "value");
    let server = Launch::new(&["--read-only"]).on(&dir).start();
    assert_eq!(told(&server, "GET"), sha256(b"value"));
    assert_eq!(kept(&dir), None);
}

/// Reading is work of the reactors, and each version has a digest of its own, so that no kept one is used.
#[test]
fn hashing_runs_on_compute_threads_and_not_on_reactors() {
    const ROUNDS: u64 = 4;
    let server = Launch::new(&["--threads", "2"]).on(&DataDir::in_memory());
    let server = server.start();
    let value = pattern(9, by_engine(40_000_000, 25_000_000));
    let digest = sha512(&value);
    let own = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("a time");
    let computing = |work: &dyn Fn(u64)| {
        let before = server.proc().cpu_of("compute-");
        (0..ROUNDS).for_each(work);
        server.proc().cpu_of("compute-").saturating_sub(before)
    };
    let upload = |digest: &str, status: u16| {
        let lines = format!("Repr-Digest: {digest}");
        assert_eq!(put(&server, &lines, &value), status);
        server.dir.assert_nothing_staged();
    };
    let plain = computing(&|_| server.store("k", &value));
    let uploads = computing(&|_| upload(&digest, 200));
    upload(&sha512(b"other"), 400);
    let reads = computing(&|round| {
        if !is_s3() {
            let time = Duration::from_secs(1_000_000_000 + round);
            server.dir.date("k", SystemTime::UNIX_EPOCH + time);
        }
        let told = want(&server, "HEAD", "k", "Want-Repr-Digest: sha-512=1");
        assert_eq!(told.must("repr-digest"), digest);
    });
    // What the same hashes cost here, by the clock of this thread, which stands still while others run.
    let before = own();
    (0..ROUNDS).for_each(|_| assert_eq!(sha512(&value), digest));
    let cost = own().saturating_sub(before);
    // Had reactors made half of them, it would be half of that.
    let is_right = uploads * 4 > cost * 3;
    assert!(is_right, "who hashed? {uploads:?} of {cost:?}");
    let is_right = is_s3() || reads * 4 > cost * 3;
    assert!(is_right, "who hashed? {reads:?} of {cost:?}");
    assert!(plain <= uploads / 4, "nothing to hash: {plain:?}");
}
