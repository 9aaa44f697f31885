//! One client of the load: what it asks, and how it judges what comes of it.

use super::change::Change;
use super::{CLIENTS, KEYS, Load, Progress, Silence};
use crate::ledger::{Fault, Finding, Ledger, Number};
use crate::prelude::*;
use crate::value::value;

/// What became of a request.
enum Told {
    Answer(Response),
    /// Refused for a reason that the faults explain.
    Refused,
    /// No whole answer, which the faults explain.
    Nothing,
}

/// One client at work.
pub(super) struct Worker<'a> {
    pub(super) me: usize,
    pub(super) addr: SocketAddr,
    pub(super) load: &'a Load,
    pub(super) random: Random,
    pub(super) client: Client,
    pub(super) progress: &'a Progress,
}

impl Worker<'_> {
    /// Asks until it is told to end, the server has ended, or a promise is broken.
    pub(super) fn run(mut self) -> Result<(), Finding> {
        while !self.progress.over.is_said() {
            match self.step() {
                Ok(true) => {}
                Ok(false) => break,
                Err((fault, told)) => {
                    eprintln!("{fault:?}: {told}");
                    self.progress.broken.store(true, Ordering::Release);
                    return Err((fault, told));
                }
            }
        }
        Ok(())
    }

    /// Asks for one thing, judges what comes of it, and says whether to go on.
    fn step(&mut self) -> Result<bool, Finding> {
        let (other, n) = (self.random.usize(..CLIENTS), self.random.usize(..KEYS));
        match self.random.u64(..40) {
            0..=5 => self.read(self.me, n),
            6..=11 => self.read(other, n),
            12..=13 => self.read_part(other, n),
            14 => self.list(),
            15 => self.cut(n),
            _ => self.change(n),
        }
    }

    fn read(&mut self, client: usize, n: usize) -> Result<bool, Finding> {
        let (key, floor) = self.key_and_floor(client, n);
        match self.ask("GET", &key, "", &[])? {
            Told::Answer(answer) => self.judge((client, n), &key, floor, &answer).map(|()| true),
            other => Ok(self.goes_on_after(&other)),
        }
    }

    /// Reads a value, then a part of it: the same bytes, or all of a later one.
    fn read_part(&mut self, client: usize, n: usize) -> Result<bool, Finding> {
        let (key, floor) = self.key_and_floor(client, n);
        let whole = match self.ask("GET", &key, "", &[])? {
            Told::Answer(whole) => whole,
            other => return Ok(self.goes_on_after(&other)),
        };
        self.judge((client, n), &key, floor, &whole)?;
        if whole.body.is_empty() || whole.status != 200 {
            return Ok(true);
        }
        let (_, floor) = self.key_and_floor(client, n);
        let from = self.random.usize(..whole.body.len());
        let tag = whole.must("etag");
        let lines = format!("Range: bytes={from}-\r\nIf-Range: {tag}\r\n");
        match self.ask("GET", &key, &lines, &[])? {
            Told::Answer(part) if part.status == 206 => {
                let is_it = part.body == whole.body[from..];
                let told = format!("/{key}: another part than from {from} on");
                is_it.then_some(true).ok_or((Fault::Torn, told))
            }
            Told::Answer(later) => self.judge((client, n), &key, floor, &later).map(|()| true),
            other => Ok(self.goes_on_after(&other)),
        }
    }

    /// Its own keys are listed while they hold values, and only then.
    fn list(&mut self) -> Result<bool, Finding> {
        // Of all keys, as they lie in folders that clients share.
        let query = "?limit=10000";
        let answer = match self.ask("GET", query, "Accept: text/plain\r\n", &[])? {
            Told::Answer(answer) if answer.status == 200 => answer,
            Told::Answer(answer) => return Err(unexpected("the listing", &answer)),
            other => return Ok(self.goes_on_after(&other)),
        };
        // A file system without its disk may show less than it has: a listing on btrfs then lacked names that were
        // there.
        if self.progress.may_break() && self.progress.terms.silence != Silence::Passing {
            return Ok(true);
        }
        let text = String::from_utf8_lossy(&answer.body);
        let names: Vec<&str> = text.lines().collect();
        for n in 0..KEYS {
            let ledger = self.load.ledger(self.me, n);
            // As it stands in a query, too.
            let is_listed = names.contains(&&*ledger.key.replace('+', "%2B"));
            let fault = match (ledger.holds(), is_listed) {
                (Some(true), false) => Fault::Missing,
                (Some(false), true) => Fault::Resurrected,
                _ => continue,
            };
            return Err((fault, format!("/{}, in the listing", ledger.key)));
        }
        Ok(true)
    }

    /// Begins an upload and resets the connection: nothing is made of it.
    fn cut(&mut self, n: usize) -> Result<bool, Finding> {
        let mut ledger = self.load.ledger(self.me, n);
        let number = ledger.begin(false);
        ledger.refuse(number);
        let (key, value) = (ledger.key.clone(), value(&ledger.key, number));
        drop(ledger);
        if let Ok(mut raw) = Raw::try_connect(self.addr) {
            let head = put_head(&key, value.len() + 1);
            let _may_be_refused = raw.offer([head.as_bytes(), &value].concat());
            raw.reset();
        }
        self.read(self.me, n)
    }

    fn change(&mut self, n: usize) -> Result<bool, Finding> {
        let mut ledger = self.load.ledger(self.me, n);
        let change = Change::draw(&mut self.random, &mut ledger);
        let key = ledger.key.clone();
        drop(ledger);
        let told = if change.removes {
            self.ask("DELETE", &key, &change.condition, &[])?
        } else {
            let value = value(&key, change.number);
            self.ask("PUT", &key, &change.condition, &value)?
        };
        let mut ledger = self.load.ledger(self.me, n);
        match &told {
            Told::Answer(answer) if answer.status != change.status => {
                let what = format!("change {} of /{key} {}", change.number, change.condition);
                return Err(unexpected(what.trim_end(), answer));
            }
            Told::Answer(answer) if answer.status == 200 => {
                ledger.acknowledge(change.number, answer.header("etag").unwrap_or_default())?;
                self.progress.acknowledged.fetch_add(1, Ordering::AcqRel);
            }
            Told::Nothing if change.status == 200 => match self.progress.terms.silence {
                Silence::Unknown => {}
                Silence::NotMade => ledger.refuse(change.number),
                // It may be made at any later time: nothing more can be said of this key.
                Silence::Passing => {
                    let next = Ledger::new(format!("{key}+"));
                    let given_up = std::mem::replace(&mut *ledger, next);
                    let mut all = self.load.given_up.lock().expect("no panic under the lock");
                    all.push(given_up.key);
                }
            },
            Told::Refused if change.status == 200 => {}
            _ => ledger.refuse(change.number),
        }
        Ok(self.goes_on_after(&told))
    }

    fn key_and_floor(&self, client: usize, n: usize) -> (String, Number) {
        let ledger = self.load.ledger(client, n);
        (ledger.key.clone(), ledger.floor())
    }

    fn judge(
        &self,
        (client, n): (usize, usize),
        key: &str,
        floor: Number,
        answer: &Response,
    ) -> Result<(), Finding> {
        let mut ledger = self.load.ledger(client, n);
        // It may have been given up meanwhile.
        if ledger.key == key {
            ledger.judge(floor, answer)?;
        }
        Ok(())
    }

    fn goes_on_after(&self, told: &Told) -> bool {
        !matches!(told, Told::Nothing) || self.progress.terms.silence == Silence::Passing
    }

    fn ask(&mut self, method: &str, key: &str, lines: &str, body: &[u8]) -> Result<Told, Finding> {
        let progress = self.progress;
        let heard = self.client.hear(method, key, lines, body);
        let is_reading = method == "GET";
        let broken = match heard {
            Heard::Answer(answer) => return Ok(self.sort(answer)),
            _ if !progress.may_break() => "no answer while it should serve",
            Heard::Part(_) if progress.terms.silence == Silence::NotMade => "half an answer",
            // A head that came says what became of a change, whatever is missing of the body.
            Heard::Part(Some(answer)) if !is_reading => return Ok(self.sort(answer)),
            Heard::Unasked if progress.terms.silence != Silence::Passing => {
                return Ok(Told::Nothing);
            }
            Heard::Unasked => {
                // The server is being started again.
                thread::sleep(Duration::from_millis(20));
                ""
            }
            Heard::Nothing | Heard::Part(_) => "",
        };
        if !broken.is_empty() {
            return Err((Fault::Answer, format!("{method} /{key}: {broken}")));
        }
        progress.unanswered.fetch_add(1, Ordering::AcqRel);
        Ok(Told::Nothing)
    }

    fn sort(&self, answer: Response) -> Told {
        let progress = self.progress;
        progress.answered.fetch_add(1, Ordering::AcqRel);
        if (progress.terms.is_excused)(answer.status) {
            progress.refused.fetch_add(1, Ordering::AcqRel);
            return Told::Refused;
        }
        Told::Answer(answer)
    }
}

fn unexpected(what: &str, answer: &Response) -> Finding {
    let body = String::from_utf8_lossy(&answer.body[..answer.body.len().min(200)]);
    (Fault::Answer, format!("{what}: {}, {body}", answer.status))
}
