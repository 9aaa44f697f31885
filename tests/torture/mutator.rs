//! Hostile input: sound and unsound requests, mutated at random and sent as raw bytes, each on a connection of its own.
//!
//! Held against them: every answer is one of a server that is well, nothing hangs, a canary key keeps its value,
//! nothing appears beside the data directory, and the server's memory, descriptors and log stay as they were. The seed
//! is printed; an input is made of nothing but the seed and its number.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::ops::Range;
use std::sync::atomic::AtomicU64;

use crate::prelude::*;

/// Connections that one sender has open at once.
const BATCH: u64 = 64;
const SENDERS: u64 = 4;

/// How long a connection may live that its client has finished: far above what the server needs, far below its
/// timeouts.
const LIMIT: Duration = Duration::from_secs(8);

/// How much memory may grow, in KiB.
const GROWTH: u64 = 16 << 10;

const CANARY: &str = "canary-7f3a9c51d2e84b60";
const SONG: &[u8] = b"still singing";

/// What inputs are made from: `|` ends a line.
const SEEDS: &[&str] = &[
    "GET /k HTTP/1.1|Host: t||",
    "HEAD /k HTTP/1.1|Host: t||",
    "DELETE /k HTTP/1.1|Host: t||",
    "OPTIONS * HTTP/1.1|Host: t||",
    "GET /k HTTP/1.0|Connection: keep-alive||",
    "PUT /k HTTP/1.1|Host: t|Content-Length: 5||value",
    "PUT /k HTTP/1.1|Host: t|Transfer-Encoding: chunked||5|value|0||",
    "PUT /k HTTP/1.1|Host: t|Transfer-Encoding: chunked|Trailer: content-md5||3;a=\"b\"|abc|0|Content-MD5: x||",
    "PUT /k HTTP/1.1|Host: t|Content-Length: 5|Transfer-Encoding: chunked||0||",
    "PUT /k HTTP/1.1|Host: t|Content-Length: 5|Content-Length: 5||value",
    "PUT /k HTTP/1.1|Host: t|Content-Length: 5|Expect: 100-continue||value",
    "PUT /k HTTP/1.1|Host: t|Content-Length: 5|If-None-Match: *||value",
    "PUT /k HTTP/1.1|Host: t|Content-Length: 5|If-Match: \"18ea04c1e2788651\"||value",
    "PUT /k HTTP/1.1|Host: t|Content-Length: 5|Content-Type: text/html; charset=\"x\"||value",
    "PUT /k HTTP/1.1|Host: t|Content-Length: 0|Content-Digest: sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:||",
    "GET /k HTTP/1.1|Host: t|Range: bytes=0-1, 3-, -1||",
    "GET /k HTTP/1.1|Host: t|If-None-Match: \"a\", W/\"b\"|If-Range: \"a\"|Range: bytes=0-||",
    "GET /k HTTP/1.1|Host: t|Accept: application/problem+json;q=0.5, text/plain|Accept-Encoding: gzip;q=0||",
    "GET /k HTTP/1.1|Host: t|Want-Repr-Digest: sha-256=5, sha-512=1||",
    "GET /?prefix=k&after=%20&limit=3 HTTP/1.1|Host: t||",
    "GET /%2e%2e%2foutside HTTP/1.1|Host: t||",
    "PUT /.data-server%2flock HTTP/1.1|Host: t|Content-Length: 1||x",
    "PUT /%F0%9F%A6%80 HTTP/1.1|Host: t|Content-Length: 1||x",
    "GET http://example.org/k HTTP/1.1|Host: example.org||",
    "CONNECT example.org:80 HTTP/1.1|Host: t||",
    "PRI * HTTP/2.0||SM||",
];

/// What is put in, between `~`: ends, separators, numbers at edges, fields that frame.
const WORDS: &str = "|~\n~\r~\0~ ~\t~:~,~;~#~%~%00~%2e~/~..~\"~=~||~\n\n~| ~0||~ffffffffffffffff~18446744073709551615~\
    9223372036854775808~-1~+1~0x1~00~Content-Length: 3|~Content-Length: 0|~Transfer-Encoding: chunked|~\
    Transfer-Encoding: gzip, chunked|~Host: t|~Host: |~Connection: close|~Upgrade: h2c|~HTTP/1.0~HTTP/9.9~GET ~PUT ~\u{e9}~\u{7f}";

#[test]
fn hostile_input_does_no_harm() {
    let inputs: u64 = scaled(20_000, 5_000_000);
    let ground = Ground::new();
    let seed = seed("mutator");
    let start = Instant::now();
    let warm_up = inputs / 10;
    let mut tally = attack(ground.server.addr, seed, 0..warm_up).expect("a server that is well");
    ground.is_unharmed().expect("no harm");
    let before = ground.server.proc().rss_kib();
    tally.add(attack(ground.server.addr, seed, warm_up..inputs).expect("a server that is well"));
    let growth = ground.server.proc().rss_kib().saturating_sub(before);
    assert!(growth < GROWTH, "seed {seed}: {growth} KiB more memory");
    let comes = || ground.server.proc().sockets() == ground.at_rest;
    eventually("nothing is left of the connections", comes);
    ground.is_unharmed().expect("no harm");
    let is_wild = tally.answers > inputs / 2 && tally.refused > inputs / 10;
    assert!(is_wild, "{tally:?}: too tame to tell");
    assert!(tally.done > inputs / 100, "{tally:?}: nothing gets through");
    counted!(
        "mutator: {inputs} inputs, {} answers, {} of them refusals; {growth} KiB more memory; {:.0?}; seed {seed}",
        tally.answers,
        tally.refused,
        start.elapsed()
    );
    ground.end();
}

/// The server under attack, and what must not change.
struct Ground {
    server: TestServer,
    /// Its sockets when nobody is connected.
    at_rest: usize,
}

impl Ground {
    fn new() -> Self {
        let dir = DataDir::in_memory();
        fs::write(dir.outside("outside"), SONG).expect("a file outside");
        let args = words("--threads 2 --cache 1MiB --max-body 1MiB --compress");
        let server = Launch::new(&args).on(&dir).start();
        let at_rest = server.proc().sockets();
        server.store(CANARY, SONG);
        Self { server, at_rest }
    }

    /// The canary as the server answers it and as it lies on disk; and nothing new or changed beside the directory.
    fn is_unharmed(&self) -> Result<(), String> {
        let (told, kept) = (self.server.get(CANARY).body, self.server.dir.get(CANARY));
        if told != SONG || kept.as_deref() != Some(SONG) {
            return Err("the canary is dead".to_owned());
        }
        let parent = self.server.dir.outside("");
        let entries = fs::read_dir(&parent).map_err(|error| error.to_string())?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let beside: BTreeSet<_> = names.collect();
        let outside = fs::read(parent.join("outside"));
        if !beside.iter().eq(["data", "outside"]) || outside.as_deref().unwrap_or_default() != SONG
        {
            return Err(format!("changed outside the directory: {beside:?}"));
        }
        Ok(())
    }

    fn end(mut self) {
        self.server.dir.assert_nothing_staged();
        self.server.stop();
        assert_eq!(troubles(&self.server.log()), [""; 0], "in the log");
    }
}

/// The lines of a log that tell of a panic or a failure.
fn troubles(log: &[String]) -> Vec<&str> {
    let is_trouble = |line: &&str| line.contains("panicked") || line.contains("\"ERROR\"");
    log.iter().map(String::as_str).filter(is_trouble).collect()
}

/// What the answers were.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    answers: u64,
    refused: u64,
    done: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.answers += other.answers;
        self.refused += other.refused;
        self.done += other.done;
    }

    /// Counts the answers of one connection; one that no server that is well would give is an error.
    fn count(&mut self, told: &[u8]) -> Result<(), String> {
        let text = String::from_utf8_lossy(told);
        let mut answers = text.split("HTTP/1.");
        let before = answers.next().unwrap_or_default();
        if !before.is_empty() {
            return Err(format!("no answer: {}", told.escape_ascii()));
        }
        // Where an answer ends is not looked for: a value of ours may mention a version, and never with a status.
        for status in answers.filter_map(status) {
            match status {
                100..=399 => self.done += 1,
                400..=499 | 501 | 505 => self.refused += 1,
                _ => return Err(format!("status {status}: {}", told.escape_ascii())),
            }
            self.answers += 1;
        }
        Ok(())
    }
}

/// The status, where this follows `HTTP/1.` in the first line of an answer.
fn status(text: &str) -> Option<u16> {
    let rest = text.strip_prefix("1 ").or(text.strip_prefix("0 "))?;
    rest.get(..4)?.strip_suffix(' ')?.parse().ok()
}

/// Sends the inputs of these numbers.
fn attack(addr: SocketAddr, seed: u64, numbers: Range<u64>) -> Result<Tally, String> {
    let next = AtomicU64::new(numbers.start);
    let sender = || -> Result<Tally, String> {
        let mut tally = Tally::default();
        loop {
            let first = next.fetch_add(BATCH, Ordering::Relaxed);
            let batch = first..numbers.end.min(first + BATCH);
            if batch.is_empty() {
                return Ok(tally);
            }
            send(addr, seed, batch, &mut tally)?;
        }
    };
    let mut all = Tally::default();
    thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS).map(|_| scope.spawn(sender)).collect();
        for sender in senders {
            all.add(sender.join().expect("a sender that ends")?);
        }
        Ok(all)
    })
}

fn send(addr: SocketAddr, seed: u64, batch: Range<u64>, tally: &mut Tally) -> Result<(), String> {
    let mut open = Vec::new();
    for number in batch {
        let input = input(&mut nth(seed, number));
        let mut stream = TcpStream::connect(addr).map_err(|error| format!("connect: {error}"))?;
        stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
        stream.set_write_timeout(Some(LIMIT)).expect("a timeout");
        // A server that refuses may have closed before it has all.
        let sent = stream.write_all(&input);
        let _ = sent.and_then(|()| stream.shutdown(Shutdown::Write));
        open.push((number, input, stream));
    }
    for (number, input, mut stream) in open {
        let mut told = Vec::new();
        let ended = match stream.read_to_end(&mut told) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(format!("still open after {LIMIT:?}"))
            }
            _ => tally.count(&told),
        };
        let input = input.escape_ascii();
        ended.map_err(|fault| format!("seed {seed}, input {number}, {input}: {fault}"))?;
    }
    Ok(())
}

/// One to three requests, mutated up to five times.
fn input(random: &mut Random) -> Vec<u8> {
    let mut input = Vec::new();
    for _ in 0..=random.u64(..3) {
        input.extend_from_slice(one_of(random, SEEDS).replace('|', "\r\n").as_bytes());
    }
    let words = WORDS.split('~').map(|word| word.replace('|', "\r\n"));
    let words: Vec<String> = words.collect();
    for _ in 0..random.u64(..6) {
        mutate(random, &mut input, &words);
    }
    input
}

/// Changes some bytes, or puts in one of these words. An empty input stays as it is.
pub(crate) fn mutate(random: &mut Random, input: &mut Vec<u8>, words: &[impl AsRef<[u8]>]) {
    if input.is_empty() {
        return;
    }
    let at = random.usize(..input.len());
    let end = input.len().min(at + 1 + random.usize(..12));
    let word = words[random.usize(..words.len())].as_ref();
    match random.u64(..8) {
        0 | 1 => drop(input.splice(at..at, word.iter().copied())),
        2 => drop(input.splice(at..end, word.iter().copied())),
        3 => drop(input.drain(at..end)),
        4 => {
            let span = input[at..end].to_vec();
            input.splice(at..at, span.repeat(1 + random.usize(..40)));
        }
        5 => input.truncate(at),
        6 => input[at] ^= 1 << random.u64(..8),
        _ => input[at] = random.u8(..),
    }
    if input.is_empty() {
        input.push(b'\n');
    }
}

/// Every watch of the harness sees the harm that it is there to see.
#[test]
fn a_planted_fault_is_found() {
    let ground = Ground::new();
    ground.is_unharmed().expect("no harm yet");
    attack(ground.server.addr, 1, 0..500).expect("a server that is well");

    ground.server.dir.place(CANARY, "croak");
    ground.is_unharmed().expect_err("a dead canary");
    ground.server.dir.place(CANARY, SONG);
    let stray = ground.server.dir.outside("stray");
    fs::write(&stray, "x").expect("a stray file");
    ground.is_unharmed().expect_err("a stray file");
    fs::remove_file(stray).expect("the stray file");
    ground.is_unharmed().expect("no harm left");
    ground.end();

    for (answer, fault) in [("hello", "no answer"), ("HTTP/1.1 500 X\r\n", "status 500")] {
        let found = Tally::default().count(answer.as_bytes());
        assert!(found.is_err_and(|found| found.contains(fault)), "{answer}");
    }
    let hangs = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let addr = hangs.local_addr().expect("its address");
    let found = attack(addr, 1, 0..1).expect_err("a server that hangs");
    assert!(found.contains("still open"), "{found}");
    let log = ["thread 'reactor-0' panicked at src/x.rs".to_owned()];
    assert_eq!(troubles(&log).len(), 1);
}
