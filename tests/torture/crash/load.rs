//! The load that every crash meets: clients that write, replace, delete, swap and read, and judge each answer at once.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::ledger::{Fault, Finding, Page, Write, is_whole};
use crate::random::Random;
use crate::session::{Heard, Session};
use crate::support::Response;

/// Clients at once.
pub(crate) const CLIENTS: usize = 10;

/// Keys of each client.
const KEYS: usize = 12;

/// More than any client does in a cycle: an end for a test that has failed to make one.
const MOST_STEPS: usize = 1_000_000;

/// The longest body of a PUT that is to be refused: the server takes no more of it than it must.
const SMALL: usize = 64 << 10;

/// What all clients of a cycle know of it.
#[derive(Default)]
pub(crate) struct Cycle {
    pub(crate) acknowledged: AtomicUsize,
    /// From now on a connection may break.
    pub(crate) ending: AtomicBool,
    /// Whether whatever the server began it also answers: then what is not answered was not done.
    pub(crate) orderly: bool,
    pub(crate) unheard: AtomicUsize,
}

/// One client's keys, from the first cycle to the last.
pub(crate) struct Book {
    pub(crate) pages: Vec<Page>,
}

impl Book {
    pub(crate) fn all() -> Vec<Self> {
        let pages = |client| (0..KEYS).map(move |key| Page::new(name(client, key)));
        let book = |client| Self {
            pages: pages(client).collect(),
        };
        (0..CLIENTS).map(book).collect()
    }
}

fn name(client: usize, key: usize) -> String {
    format!("client-{client}-{key}")
}

/// A change, what is told when all is well, and what the key holds then.
struct Change {
    method: &'static str,
    condition: String,
    body: Vec<u8>,
    status: u16,
    then: Option<Write>,
}

impl Change {
    fn put((write, body): (Write, Vec<u8>), condition: String, status: u16) -> Self {
        Self {
            method: "PUT",
            condition,
            body,
            status,
            then: Some(write),
        }
    }

    fn delete(condition: &str, status: u16) -> Self {
        Self {
            method: "DELETE",
            condition: condition.to_owned(),
            body: Vec::new(),
            status,
            then: None,
        }
    }

    fn draw(dice: &mut Random, page: &mut Page) -> Self {
        const NEW: &str = "If-None-Match: *\r\n";
        const STALE: &str = "If-Match: \"stale\"\r\n";
        let there = page.holds.is_some();
        match dice.below(12) {
            0..=5 => Self::put(page.next(), String::new(), 200),
            6..=7 => Self::delete("", if there { 200 } else { 404 }),
            8 if there => Self::delete(STALE, 412),
            8..=9 if there => Self::put(page.next(), format!("If-Match: {}\r\n", page.tag), 200),
            8..=9 => Self::put(page.next(), NEW.to_owned(), 200),
            _ => {
                let refused = if there { NEW } else { STALE };
                Self::put(small(page), refused.to_owned(), 412)
            }
        }
    }
}

/// A write that is to be refused.
fn small(page: &mut Page) -> (Write, Vec<u8>) {
    loop {
        let (write, body) = page.next();
        if body.len() <= SMALL {
            return (write, body);
        }
    }
}

/// One client in one cycle.
pub(crate) struct Client<'a> {
    session: Session,
    book: &'a mut Book,
    dice: Random,
    cycle: &'a Cycle,
}

impl<'a> Client<'a> {
    pub(crate) fn new(
        addr: SocketAddr,
        book: &'a mut Book,
        dice: Random,
        cycle: &'a Cycle,
    ) -> Self {
        Self {
            session: Session::new(addr),
            book,
            dice,
            cycle,
        }
    }

    /// Asks until the server ends, or breaks a promise.
    pub(crate) fn run(mut self) -> Result<(), Finding> {
        for _ in 0..MOST_STEPS {
            let goes_on = match self.dice.below(10) {
                0..=1 => self.read_own()?,
                2 => self.read_other()?,
                _ => self.change()?,
            };
            if !goes_on {
                return Ok(());
            }
        }
        Err((Fault::Process, "the server did not end".to_owned()))
    }

    /// Reads what nobody else writes: it must be what was written last.
    fn read_own(&mut self) -> Result<bool, Finding> {
        let place = self.dice.place(KEYS);
        let key = self.book.pages[place].key.clone();
        let Some(answer) = self.ask("GET", &key, "", &[])? else {
            return Ok(false);
        };
        self.book.pages[place].judge(&answer)?;
        Ok(true)
    }

    /// Reads what another may be writing: it must be whole.
    fn read_other(&mut self) -> Result<bool, Finding> {
        let key = name(self.dice.place(CLIENTS), self.dice.place(KEYS));
        let Some(answer) = self.ask("GET", &key, "", &[])? else {
            return Ok(false);
        };
        match answer.status {
            404 => Ok(true),
            200 if is_whole(&key, &answer.body) => Ok(true),
            200 => {
                let told = format!("/{key}: {} bytes, read meanwhile", answer.body.len());
                Err((Fault::Torn, told))
            }
            status => Err((Fault::Answer, format!("GET /{key}: {status}"))),
        }
    }

    fn change(&mut self) -> Result<bool, Finding> {
        let place = self.dice.place(KEYS);
        let page = &mut self.book.pages[place];
        let change = Change::draw(&mut self.dice, page);
        let key = page.key.clone();
        let answer = self.ask(change.method, &key, &change.condition, &change.body)?;
        let page = &mut self.book.pages[place];
        let Some(answer) = answer else {
            if change.status == 200 && !self.cycle.orderly {
                page.unknown(change.then);
            }
            return Ok(false);
        };
        if answer.status != change.status {
            let told = format!(
                "{} /{key} {}: {}, not {}: {}",
                change.method,
                change.condition.trim_end(),
                answer.status,
                change.status,
                String::from_utf8_lossy(&answer.body),
            );
            return Err((Fault::Answer, told));
        }
        if change.status == 200 {
            page.done(change.then, answer.header("etag").unwrap_or_default())?;
            self.cycle.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        Ok(true)
    }

    /// The whole answer, or none when the server has ended and may leave one out.
    fn ask(
        &mut self,
        method: &str,
        key: &str,
        lines: &str,
        body: &[u8],
    ) -> Result<Option<Response>, Finding> {
        let heard = self.session.ask(method, key, lines, body);
        if let Heard::Answer(answer) = heard {
            return Ok(Some(answer));
        }
        if !self.cycle.ending.load(Ordering::Acquire) {
            let told = format!("{method} /{key}: no answer while the server should serve");
            return Err((Fault::Answer, told));
        }
        match heard {
            Heard::Unasked => {}
            Heard::Part(_) if self.cycle.orderly => {
                return Err((Fault::Answer, format!("{method} /{key}: half an answer")));
            }
            // A head that came is an acknowledgement, whatever is missing of the body.
            Heard::Part(Some(answer)) if method != "GET" => return Ok(Some(answer)),
            _ => {
                self.cycle.unheard.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(None)
    }
}
