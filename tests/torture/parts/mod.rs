//! Uploads in parts through the door of S3, of clients that go on at the next server when theirs is killed, or loses
//! its power, wherever it has come.
//!
//! A part that was acknowledged is listed afterwards, and completes its upload; of one that was not, all is there or
//! nothing. A value that was acknowledged is there whole; of one that was not, the old one or the new. What counts for
//! `--max-staged` is what lies on the disk, and nothing lies there that no list of uploads has.
//!
//! `DATA_SERVER_TORTURE_SEED=N tests/run --test torture parts` draws the same uploads again.

mod client;
mod power;

use std::fmt;

use self::client::{Uploader, element};
use crate::prelude::*;

/// Clients at once, each with a key of its own.
const CLIENTS: usize = 6;

/// Acknowledged requests, without which an end of the server counts for nothing.
const ENOUGH: usize = 20;

/// What was counted of all clients.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    ends: usize,
    /// Acknowledged parts and values, and uploads that were given up.
    parts: usize,
    values: usize,
    given_up: usize,
    /// Acknowledged parts that were still there after an end.
    kept: usize,
    /// Requests that got no answer, and which of them were done.
    unheard_parts: usize,
    unheard_values: usize,
    done_parts: usize,
    done_values: usize,
    /// The most that was staged after an end, in bytes.
    staged: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            ends,
            parts,
            values,
            ..
        } = self;
        write!(
            f,
            "{ends} ends; {parts} parts and {values} values acknowledged, {} uploads given up; {} parts found after an end; \
             unanswered: {} parts, {} of them done, {} values, {} of them done; at most {} bytes staged after an end",
            self.given_up,
            self.kept,
            self.unheard_parts,
            self.done_parts,
            self.unheard_values,
            self.done_values,
            self.staged
        )
    }
}

/// The clients, and the directory of their servers.
struct Run {
    dir: DataDir,
    args: Vec<&'static str>,
    clients: Vec<Uploader>,
    dice: Random,
    counts: Counts,
}

impl Run {
    fn new(dir: DataDir, durability: &'static str, mut dice: Random) -> Self {
        let clients = (0..CLIENTS).map(|n| Uploader::new(n, dice.fork()));
        // With a bound short parts count too.
        let args = vec!["--max-staged", "4GiB", "--max-staged-per-client", "0"];
        Self {
            dir,
            args: [args, vec!["--durability", durability]].concat(),
            clients: clients.collect(),
            dice,
            counts: Counts::default(),
        }
    }

    fn start(&self) -> TestServer {
        let launch = Launch::new(&self.args).on(&self.dir);
        let server = launch.listen("s3+http://127.0.0.1:0").start();
        let made = server.request("PUT", "/b", "", b"");
        assert!([200, 409].contains(&made.status), "{made:?}");
        server
    }

    /// Has all clients at work until the server ends.
    fn work(&mut self, mut server: TestServer, end: impl FnOnce(&mut TestServer)) {
        let (addr, done) = (server.addr, AtomicUsize::new(0));
        let enough = ENOUGH + self.dice.usize(..3 * ENOUGH);
        thread::scope(|scope| {
            for client in &mut self.clients {
                let done = &done;
                scope.spawn(move || client.work(addr, done));
            }
            let comes = || done.load(Ordering::Relaxed) >= enough;
            eventually("enough is done", comes);
            end(&mut server);
        });
        self.counts.ends += 1;
    }

    /// Looks at what is left, by the next server, and has every second client end what it had begun.
    fn look(&mut self) -> Result<(), String> {
        let server = self.start();
        self.counts.staged = self.counts.staged.max(assert_staged(&server)?);
        let mut known = BTreeSet::new();
        for client in &mut self.clients {
            client.look(server.addr)?;
            known.extend(client.id());
        }
        give_up_unheard(&server, &known);
        for client in self.clients.iter_mut().step_by(2) {
            client.finish(server.addr)?;
        }
        assert_staged(&server)?;
        Ok(())
    }

    /// Ends all uploads; nothing is left of them.
    fn finish(&mut self) -> Result<(), String> {
        let mut server = self.start();
        for client in &mut self.clients {
            client.finish(server.addr)?;
            self.counts.add(&client.counts);
        }
        let staged = assert_staged(&server)?;
        let left = fs::read_dir(self.dir.own("parts"))
            .expect("the parts")
            .count();
        if (staged, left) != (0, 0) {
            return Err(format!("{left} files and {staged} bytes are left"));
        }
        self.dir.assert_nothing_staged();
        server.stop();
        Ok(())
    }
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.parts += other.parts;
        self.values += other.values;
        self.given_up += other.given_up;
        self.kept += other.kept;
        self.unheard_parts += other.unheard_parts;
        self.unheard_values += other.unheard_values;
        self.done_parts += other.done_parts;
        self.done_values += other.done_values;
    }

    /// Refuses to have proved anything by ends that hit little.
    fn assert_proves(&self) {
        let each = [self.kept, self.unheard_parts, self.values / 2];
        let is_enough = each.into_iter().all(|number| number >= self.ends / 2);
        assert!(
            is_enough && self.staged > 0,
            "too few to prove anything: {self}"
        );
    }
}

/// What counts, what lies on the disk, and what is listed are the same; how many bytes those are.
fn assert_staged(server: &TestServer) -> Result<u64, String> {
    let dir = fs::read_dir(server.dir.own("parts")).expect("the parts");
    let files = dir.map(|entry| entry.expect("an entry"));
    let parts = files.filter(|file| file.path().extension().is_some_and(|it| it != "json"));
    let du: u64 = parts
        .map(|file| file.metadata().map_or(0, |it| it.len()))
        .sum();
    let mut counted = 0;
    // A disk thread drops what a request had.
    within(DEADLINE, || {
        counted = Scrape::of(server.addr).count("data_server_staged_bytes", &[]);
        counted == du
    });
    let mut listed = 0;
    for [key, id] in uploads(server) {
        let text = server
            .request("GET", &format!("/b/{key}?uploadId={id}"), "", b"")
            .text();
        let sizes = text.split("<Size>").skip(1);
        let sizes = sizes.filter_map(|rest| rest.split('<').next()?.parse::<u64>().ok());
        listed += sizes.sum::<u64>();
    }
    if (counted, listed) == (du, du) {
        return Ok(du);
    }
    Err(format!(
        "{du} bytes lie there, {counted} count, {listed} are listed"
    ))
}

/// The keys and identifiers of all uploads.
fn uploads(server: &TestServer) -> Vec<[String; 2]> {
    let text = server.request("GET", "/b?uploads", "", b"").text();
    let each = text.split("<Upload>").skip(1);
    let each =
        each.map(|upload| ["Key", "UploadId"].map(|name| element(upload, name).expect("text")));
    each.collect()
}

/// Gives up the uploads whose clients have not heard of them.
fn give_up_unheard(server: &TestServer, known: &BTreeSet<String>) {
    for [key, id] in uploads(server) {
        if !known.contains(&id) {
            let target = format!("/b/{key}?uploadId={id}");
            assert_eq!(server.request("DELETE", &target, "", b"").status, 204);
        }
    }
}

#[test]
fn parts_and_what_they_complete_outlive_kills() {
    let (seed, kills) = (seed("parts"), scaled(12, 400));
    for durability in ["os", "disk"] {
        let dice = Random::with_seed(seed);
        let mut run = Run::new(DataDir::temporary(), durability, dice);
        for _ in 0..kills / 2 {
            let server = run.start();
            run.work(server, TestServer::kill);
            let looked = run.look();
            looked.unwrap_or_else(|why| panic!("{durability}, {SEED}={seed}: {why}"));
        }
        run.finish()
            .unwrap_or_else(|why| panic!("{durability}, {SEED}={seed}: {why}"));
        counted!("parts, kills, {durability}: {}; seed {seed}", run.counts);
        run.counts.assert_proves();
    }
}

/// Has a server with unfinished uploads end, and a hand do this to the file of a part; what the look finds.
fn looked_after(plant: impl Fn(&Path)) -> Result<(), String> {
    let mut run = Run::new(
        DataDir::temporary(),
        "os",
        Random::with_seed(seed("parts, planted")),
    );
    let mut part = None;
    // A kill may come before the first answer.
    for _ in 0..20 {
        let server = run.start();
        run.work(server, TestServer::kill);
        part = run.clients.iter().find_map(Uploader::first_part);
        if part.is_some() {
            break;
        }
        run.look()?;
    }
    let (id, number) = part.expect("a part that was acknowledged");
    plant(&run.dir.own(&format!("parts/{id}.{number}")));
    run.look()?;
    run.finish()
}

#[test]
fn a_part_that_is_lost_or_changed_by_hand_is_found() {
    assert_eq!(looked_after(|_| {}), Ok(()));
    let is_lost = looked_after(|part| fs::remove_file(part).expect("a part"));
    assert!(is_lost.is_err(), "a part is lost");
    let is_changed = looked_after(|part| {
        let (old, mut bytes) = (
            fs::metadata(part).expect("a part"),
            fs::read(part).expect("it"),
        );
        bytes[0] ^= 1;
        fs::write(part, bytes).expect("another");
        let file = File::options().write(true).open(part).expect("it");
        let time = old.modified().expect("a time");
        file.set_modified(time).expect("its old time");
    });
    assert!(is_changed.is_err(), "a part has other bytes");
}
