//! T12: uploads and downloads over a network that cuts, resets, stalls and crawls, at every sixteenth of a body.
//!
//! What was acknowledged is there and equal; of what was not, the old value is, unless the server had seen all of it.
//! No half value is ever read or taken for whole, and nothing stays staged.

mod lossy;
mod transfer;
mod vanished;

use self::transfer::{LENGTHS, Transfer};
use crate::prelude::*;
use crate::support::relay::{GOOD, Relay};

/// What a key may hold, after all that happened.
type Allowed = BTreeMap<String, Vec<Vec<u8>>>;

#[derive(Debug, Default)]
struct Counts {
    acknowledged: AtomicUsize,
    broken: AtomicUsize,
    open: AtomicUsize,
    read: AtomicUsize,
    /// Ended by the patience of the client or by a limit of the server, although the network lets all through in the
    /// end.
    given_up: AtomicUsize,
}

struct Bench {
    server: TestServer,
    /// Packets are lost on every connection: what is not tried here goes by the directory, and transfers may be given
    /// up.
    is_lossy: bool,
    at_rest: usize,
    allowed: Mutex<Allowed>,
    counts: Counts,
}

impl Bench {
    fn over(is_lossy: bool) -> Self {
        let server = TestServer::start(&["--threads", "2"]);
        for len in LENGTHS {
            let value = pattern(len as u64, len);
            server.dir.place(&format!("down-{len}"), value);
        }
        let at_rest = server.proc().in_flight();
        Self {
            server,
            is_lossy,
            at_rest,
            allowed: Mutex::default(),
            counts: Counts::default(),
        }
    }

    /// Makes these transfers, some at a time; what is wrong with them.
    fn all(&self, transfers: &[Transfer]) -> Vec<String> {
        const AT_ONCE: usize = 16;
        let next = AtomicUsize::new(0);
        let take = || transfers.get(next.fetch_add(1, Ordering::Relaxed));
        let make = || {
            let mut faults = Vec::new();
            while let Some(&transfer) = take() {
                faults.extend(self.transfer(transfer).err());
            }
            faults
        };
        thread::scope(|scope| {
            let clients: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(make)).collect();
            let clients = clients.into_iter();
            let faults = clients.flat_map(|client| client.join().expect("a client"));
            faults.collect()
        })
    }

    fn transfer(&self, transfer: Transfer) -> Result<(), String> {
        let (key, old) = (transfer.key(), transfer.old());
        if transfer.is_upload && self.is_lossy {
            self.server.dir.place(&key, old);
        } else if transfer.is_upload {
            self.server.store(&key, old);
        }
        let relay = Relay::to(self.server.addr, move || transfer.faults);
        // Whole, or cut off in its body.
        let answer = match transfer.exchange(relay.addr()) {
            Heard::Answer(answer) | Heard::Part(Some(answer)) => Some(answer),
            _ => None,
        };
        relay.end();
        let passed = relay.passed_up();
        let judged = if transfer.is_upload {
            self.uploaded(transfer, answer, passed)
        } else {
            self.downloaded(transfer, answer)
        };
        judged.map_err(|fault| format!("{transfer:?}: {fault}"))
    }

    fn uploaded(
        &self,
        transfer: Transfer,
        answer: Option<Response>,
        passed: usize,
    ) -> Result<(), String> {
        let status = answer.map(|answer| answer.status);
        let (allowed, count) = if status == Some(200) {
            (vec![transfer.sent()], &self.counts.acknowledged)
        } else if passed < transfer.request().len() {
            (vec![transfer.old()], &self.counts.broken)
        } else {
            (vec![transfer.old(), transfer.sent()], &self.counts.open)
        };
        count.fetch_add(1, Ordering::Relaxed);
        if transfer.must_succeed() && status != Some(200) {
            self.give_up(format!("not acknowledged: {status:?}"))?;
        }
        self.holds(&transfer.key(), &allowed)?;
        let mut all = self.allowed.lock().expect("no panic under the lock");
        all.insert(transfer.key(), allowed);
        Ok(())
    }

    fn downloaded(&self, transfer: Transfer, answer: Option<Response>) -> Result<(), String> {
        let value = pattern(transfer.len as u64, transfer.len);
        let Some(answer) = answer else {
            if transfer.must_succeed() {
                self.give_up("no answer".to_owned())?;
            }
            return Ok(());
        };
        let (body, len) = (&answer.body, answer.length());
        if (answer.status, len) != (200, value.len()) {
            return Err(format!("{}, of {len} bytes", answer.status));
        }
        if !value.starts_with(body) {
            return Err("bytes of another value".to_owned());
        }
        if transfer.must_succeed() && body.len() < len {
            return self.give_up(format!("cut after {} bytes", body.len()));
        }
        self.counts.read.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn give_up(&self, what: String) -> Result<(), String> {
        if !self.is_lossy {
            return Err(what);
        }
        eprintln!("{what}");
        self.counts.given_up.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Reads `key` over a good network, or where there is none from the directory.
    fn holds(&self, key: &str, allowed: &[Vec<u8>]) -> Result<(), String> {
        let (status, body) = if self.is_lossy {
            (200, self.server.dir.read(key))
        } else {
            let got = self.server.get(key);
            (got.status, got.body)
        };
        if status == 200 && allowed.contains(&body) {
            return Ok(());
        }
        let lengths: Vec<usize> = allowed.iter().map(Vec::len).collect();
        let told = format!("/{key} is {status} of {} bytes", body.len());
        Err(format!("{told}, not one of {lengths:?}"))
    }

    /// When all is over: every key is what it may be, and nothing is left of what was cut.
    fn settle(&self, patience: Duration) -> Result<(), String> {
        let left = || {
            let staged = fs::read_dir(self.server.dir.staging()).map_or(0, Iterator::count);
            let in_flight = self.server.proc().in_flight();
            (in_flight.saturating_sub(self.at_rest), staged)
        };
        if !within(patience, || left() == (0, 0)) {
            return Err(format!("left open, left in staging: {:?}", left()));
        }
        let all = self.allowed.lock().expect("no panic under the lock");
        let mut all = all.iter();
        all.try_for_each(|(key, allowed)| self.holds(key, allowed))
    }
}

#[test]
fn what_a_bad_network_cuts_is_old_or_new_and_never_half() {
    let count = scaled(30, 1_000);
    let mut random = Random::with_seed(seed("network"));
    let transfers: Vec<_> = (0..count).map(|n| Transfer::of(n, &mut random)).collect();
    let bench = Bench::over(false);
    let faults = bench.all(&transfers);
    assert!(faults.is_empty(), "{faults:#?}");
    assert_eq!(bench.settle(DEADLINE), Ok(()));
    let c = bench.counts;
    let counts = [c.acknowledged, c.broken, c.open, c.read];
    let [acknowledged, broken, open, read] = counts.map(AtomicUsize::into_inner);
    let uploads = format!("{acknowledged} uploads acknowledged, {broken} cut, {open} unheard of");
    counted!("network: {count} transfers: {uploads}; {read} downloads read");
    assert!(acknowledged >= count / 10 && broken >= count / 10 && read >= count / 10);
    assert!(open > 0, "no answer was lost");
}

/// The harness is shown to fail.
#[test]
fn another_value_and_a_leftover_are_found_out() {
    let bench = Bench::over(false);
    let transfer = |is_upload| Transfer {
        number: 1,
        len: 60_000,
        is_upload,
        is_chunked: false,
        faults: GOOD,
    };
    let (download, upload) = (transfer(false), transfer(true));
    let mut answer = bench.server.get("down-60000");
    assert_eq!(bench.downloaded(download, Some(answer.clone())), Ok(()));
    answer.body[30_000] ^= 1;
    let fault = bench.downloaded(download, Some(answer));
    assert_eq!(fault, Err("bytes of another value".to_owned()));

    assert_eq!(bench.transfer(upload), Ok(()));
    let dir = &bench.server.dir;
    let settles = |expected: &str| {
        let settled = bench.settle(Duration::from_millis(300));
        let fault = settled.expect_err(expected);
        assert!(fault.contains(expected), "{fault}");
    };
    dir.place(&upload.key(), &upload.sent()[..30_000]);
    settles("not one of");
    dir.place(&upload.key(), upload.sent());
    assert_eq!(bench.settle(DEADLINE), Ok(()));
    fs::write(dir.staging().join("7"), "left").expect("a leftover");
    settles("staging");
    fs::remove_file(dir.staging().join("7")).expect("no leftover");
    let mut held = bench.server.connect();
    held.send(put_head("held", 300_000));
    let comes = || bench.server.proc().staged() > 0;
    eventually("an upload is on its way", comes);
    settles("left open");
}
