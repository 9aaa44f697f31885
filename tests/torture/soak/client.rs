//! One client of the soak: writes keys of its own, reads everybody's, and judges each answer.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use socket2::SockRef;

use super::ledger::{Ledger, number_of, value};
use crate::random::Random;
use crate::session::{Heard, Session};
use crate::support::{DataDir, Response};

pub(super) const CLIENTS: usize = 6;
pub(super) const KEYS: usize = 8;

/// Keys that are written once, for listings.
pub(super) const FIXED: [&str; 3] = ["fixed-a", "fixed-b", "fixed-c"];

/// What all clients know: the ledger of every key, and counts.
#[derive(Debug, Default)]
pub(super) struct Common {
    ledgers: [[Ledger; KEYS]; CLIENTS],
    pub(super) answered: AtomicU64,
    pub(super) written: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) unanswered: AtomicU64,
}

pub(super) fn key(client: usize, key: usize) -> String {
    format!("k-{client}-{key}")
}

pub(super) struct Client<'a> {
    me: usize,
    addr: SocketAddr,
    common: &'a Common,
    random: Random,
    session: Session,
    /// The key written without conditions, and its last acknowledged write.
    plain_key: usize,
    plain_writes: u64,
}

impl<'a> Client<'a> {
    pub(super) fn new(me: usize, addr: SocketAddr, common: &'a Common, seed: u64) -> Self {
        Self {
            me,
            addr,
            common,
            random: Random::new(seed ^ (me as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            session: Session::new(addr),
            plain_key: 0,
            plain_writes: 0,
        }
    }

    /// Does one thing; what is wrong with what came of it.
    pub(super) fn act(&mut self) -> Result<(), String> {
        let (other, n) = (self.random.place(CLIENTS), self.random.place(KEYS));
        match self.random.place(100) {
            0..60 => self.read(other, n),
            60..75 => self.write(n, false),
            75..85 => self.write_plainly(),
            85..90 => self.write(n, true),
            90..95 => self.read_part(other, n),
            95..98 => self.list(),
            _ => self.cut(n),
        }
    }

    /// Writes the first of its keys; the value that is in the directory then.
    pub(super) fn write_until_acknowledged(&mut self, dir: &DataDir) -> Vec<u8> {
        let written = self.common.written.load(Ordering::Relaxed);
        assert_eq!(self.write(0, false), Ok(()));
        assert_eq!(self.common.written.load(Ordering::Relaxed), written + 1);
        dir.read(key(self.me, 0))
    }

    /// Reads every key.
    pub(super) fn read_all(&mut self) -> Result<(), String> {
        for client in 0..CLIENTS {
            for n in 0..KEYS {
                self.read(client, n)?;
            }
        }
        self.list()
    }

    fn read(&mut self, client: usize, n: usize) -> Result<(), String> {
        let (key, ledger) = (key(client, n), &self.common.ledgers[client][n]);
        let floor = ledger.floor();
        match self.ask("GET", &key, "", &[]) {
            Some(Answer {
                status: 200, body, ..
            }) => ledger.judge(&key, floor, Some(&body)),
            Some(Answer { status: 404, .. }) => ledger.judge(&key, floor, None),
            other => self.excused(&format!("GET /{key}"), other),
        }
    }

    /// Compare-and-swap, so that a write whose answer was lost can do nothing once another was acknowledged.
    fn write(&mut self, n: usize, is_removal: bool) -> Result<(), String> {
        let (key, ledger) = (key(self.me, n), &self.common.ledgers[self.me][n]);
        let floor = ledger.floor();
        let condition = match self.ask("GET", &key, "", &[]) {
            Some(Answer {
                status: 200,
                etag: Some(etag),
                body,
            }) => {
                ledger.judge(&key, floor, Some(&body))?;
                format!("If-Match: {etag}\r\n")
            }
            Some(Answer { status: 404, .. }) => {
                ledger.judge(&key, floor, None)?;
                "If-None-Match: *\r\n".to_owned()
            }
            other => return self.excused(&format!("GET /{key}"), other),
        };
        if is_removal && condition.starts_with("If-None") {
            return Ok(());
        }
        let number = ledger.begin(is_removal);
        let len = match self.random.place(40) {
            0 => 300_000,
            1..4 => 30_000,
            _ => self.random.place(3_000),
        };
        let answer = if is_removal {
            self.ask("DELETE", &key, &condition, &[])
        } else {
            self.ask("PUT", &key, &condition, &value(&key, number, len))
        };
        match answer {
            Some(Answer { status: 200, .. }) => {
                ledger.acknowledge(number);
                self.common.written.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            // A write whose answer was lost came between.
            Some(Answer { status: 412, .. }) => Ok(()),
            Some(Answer { status: 404, .. }) if is_removal => Ok(()),
            other => self.excused(&format!("write {number} of /{key}"), other),
        }
    }

    /// A write without conditions of a key that nobody else writes, and a look at it. One whose answer was lost may be
    /// made at any time: the key is left to it, and another taken.
    fn write_plainly(&mut self) -> Result<(), String> {
        let number = self.plain_writes + 1;
        let key = format!("p-{}-{}", self.me, self.plain_key);
        let len = self.random.place(20_000);
        match self.ask("PUT", &key, "", &value(&key, number, len)) {
            Some(Answer { status: 200, .. }) => {
                self.plain_writes = number;
                self.common.written.fetch_add(1, Ordering::Relaxed);
            }
            None => {
                (self.plain_key, self.plain_writes) = (self.plain_key + 1, 0);
                return self.excused("a write", None);
            }
            refused => self.excused(&format!("PUT /{key}"), refused)?,
        }
        match self.ask("GET", &key, "", &[]) {
            Some(Answer {
                status: 200, body, ..
            }) => match number_of(&key, &body)? {
                found if found == self.plain_writes => Ok(()),
                found => Err(format!("/{key}: write {found}, not {}", self.plain_writes)),
            },
            Some(Answer { status: 404, .. }) if self.plain_writes == 0 => Ok(()),
            other => self.excused(&format!("GET /{key}"), other),
        }
    }

    /// Reads a value, then a part of it: the same bytes, or all of a later version.
    fn read_part(&mut self, client: usize, n: usize) -> Result<(), String> {
        let (key, ledger) = (key(client, n), &self.common.ledgers[client][n]);
        let Some(Answer {
            status: 200,
            etag: Some(etag),
            body: whole,
        }) = self.ask("GET", &key, "", &[])
        else {
            return Ok(());
        };
        let from = self.random.place(whole.len());
        let floor = ledger.floor();
        let lines = format!("Range: bytes={from}-\r\nIf-Range: {etag}\r\n");
        match self.ask("GET", &key, &lines, &[]) {
            Some(Answer {
                status: 206, body, ..
            }) if body == whole[from..] => Ok(()),
            Some(Answer { status: 206, .. }) => Err(format!("/{key}: another part than asked for")),
            Some(Answer {
                status: 200, body, ..
            }) => ledger.judge(&key, floor, Some(&body)),
            Some(Answer { status: 404, .. }) => ledger.judge(&key, floor, None),
            other => self.excused(&format!("GET a part of /{key}"), other),
        }
    }

    fn list(&mut self) -> Result<(), String> {
        match self.ask("GET", "", "Accept: text/plain\r\n", &[]) {
            Some(Answer {
                status: 200, body, ..
            }) => {
                let text = String::from_utf8_lossy(&body);
                let names: Vec<&str> = text.lines().collect();
                match FIXED.iter().find(|name| !names.contains(name)) {
                    Some(name) => Err(format!("/{name} is not in the listing: {names:?}")),
                    None => Ok(()),
                }
            }
            other => self.excused("the listing", other),
        }
    }

    /// Begins an upload and resets the connection: the ledger never hears of it.
    fn cut(&mut self, n: usize) -> Result<(), String> {
        let key = key(self.me, n);
        if let Ok(mut stream) = TcpStream::connect(self.addr) {
            let head = format!("PUT /{key} HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\n\r\n");
            let _ = stream.write_all(&[head.as_bytes(), &vec![0; 50_000]].concat());
            let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
        }
        self.read(self.me, n)
    }

    /// Whether the faults of the soak explain this answer, or that there is none.
    fn excused(&self, what: &str, answer: Option<Answer>) -> Result<(), String> {
        match answer.map(|answer| (answer.status, answer.body)) {
            None => self.common.unanswered.fetch_add(1, Ordering::Relaxed),
            // Out of descriptors; out of space.
            Some((503 | 507, _)) => self.common.refused.fetch_add(1, Ordering::Relaxed),
            Some((status, body)) => {
                let body = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
                return Err(format!("{what}: {status}, {body}"));
            }
        };
        Ok(())
    }

    /// One request, on the connection there is; `None` when there was no whole answer.
    fn ask(&mut self, method: &str, key: &str, lines: &str, body: &[u8]) -> Option<Answer> {
        match self.session.ask(method, key, lines, body) {
            Heard::Answer(answer) => {
                self.common.answered.fetch_add(1, Ordering::Relaxed);
                Some(answer.into())
            }
            Heard::Nothing | Heard::Part(_) => None,
            Heard::Unasked => {
                // The server is being started again.
                thread::sleep(Duration::from_millis(20));
                None
            }
        }
    }
}

/// What matters of an answer.
struct Answer {
    status: u16,
    etag: Option<String>,
    body: Vec<u8>,
}

impl From<Response> for Answer {
    fn from(answer: Response) -> Self {
        Self {
            status: answer.status,
            etag: answer.header("etag").map(str::to_owned),
            body: answer.body,
        }
    }
}

/// The value of a key that is written once.
pub(super) fn fixed(key: &str) -> Vec<u8> {
    value(key, 1, 1_000)
}

/// Reads what lies in the directory by hand: every file is a whole write of its key.
pub(super) fn judge_files(
    files: impl Iterator<Item = (Vec<u8>, Vec<u8>)>,
) -> Result<usize, String> {
    let mut count = 0;
    for (name, bytes) in files {
        number_of(&String::from_utf8_lossy(&name), &bytes)?;
        count += 1;
    }
    Ok(count)
}
