//! One client: it uploads one value after the other under its key, in parts, and remembers what it was told.

use super::Counts;
use crate::prelude::*;
use crate::support::Client as Session;

/// The text of the first element of this name.
pub(super) fn element(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    Some(rest.split('<').next()?.replace("&quot;", "\""))
}

/// Its value, as the number of the upload; `None` of no value.
type Value = Option<u64>;

pub(super) struct Uploader {
    key: String,
    dice: Random,
    /// The number of the last upload.
    number: u64,
    upload: Option<Upload>,
    /// What its key may have: what was acknowledged last, and what may have come since.
    may_have: Vec<Value>,
    pub(super) counts: Counts,
}

struct Upload {
    id: String,
    number: u64,
    /// The entity tags of the parts that were acknowledged.
    parts: BTreeMap<u16, String>,
    /// Those that got no answer.
    unheard: BTreeSet<u16>,
    /// It was asked to be completed, without an answer.
    may_be_complete: bool,
}

/// How many parts the upload of this number has.
fn parts_of(number: u64) -> u16 {
    2 + u16::try_from(number % 5).expect("few")
}

/// The bytes of a part: in memory, in a file, and in several writes.
fn part(number: u64, part: u16) -> Vec<u8> {
    let which = number.wrapping_mul(31) + u64::from(part);
    let len = [1, 40_000, 66_000, 300_000, 900_000][usize::try_from(which % 5).expect("few")];
    pattern(which, len + usize::from(part))
}

fn value(number: u64) -> Vec<u8> {
    (1..=parts_of(number))
        .flat_map(|n| part(number, n))
        .collect()
}

impl Uploader {
    pub(super) fn new(n: usize, mut dice: Random) -> Self {
        Self {
            key: format!("b/{n}/value"),
            number: dice.u64(..1 << 40) * 64,
            dice,
            upload: None,
            may_have: vec![None],
            counts: Counts::default(),
        }
    }

    /// The identifier of the upload that it has begun and not ended.
    pub(super) fn id(&self) -> Option<String> {
        self.upload.as_ref().map(|upload| upload.id.clone())
    }

    /// An acknowledged part of an upload that was not asked to be completed.
    pub(super) fn first_part(&self) -> Option<(String, u16)> {
        let upload = self.upload.as_ref().filter(|it| !it.may_be_complete)?;
        Some((upload.id.clone(), *upload.parts.first_key_value()?.0))
    }

    /// Works until there is no server; counts what is acknowledged in `done`.
    pub(super) fn work(&mut self, addr: SocketAddr, done: &AtomicUsize) {
        let session = &mut Session::new(addr);
        while self.step(addr, session, true) {
            done.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Begins an upload, sends its parts, completes it or gives it up; false where that was not acknowledged.
    fn step(&mut self, addr: SocketAddr, session: &mut Session, gives_up: bool) -> bool {
        let Some(upload) = &mut self.upload else {
            return self.begin(session);
        };
        if upload.parts.len() < usize::from(parts_of(upload.number)) {
            return self.send(addr);
        }
        if gives_up && !upload.may_be_complete && self.dice.u64(..8) == 0 {
            return self.give_up(session);
        }
        self.complete(session)
    }

    fn begin(&mut self, session: &mut Session) -> bool {
        let heard = post(session, &format!("{}?uploads", self.key), b"");
        let Some(answer) = acknowledged(heard) else {
            return false;
        };
        self.number += 1;
        self.upload = Some(Upload {
            id: element(&answer.text(), "UploadId").expect("an id"),
            number: self.number,
            parts: BTreeMap::new(),
            unheard: BTreeSet::new(),
            may_be_complete: false,
        });
        true
    }

    /// Sends the next parts that are missing, two at once.
    fn send(&mut self, addr: SocketAddr) -> bool {
        let (key, upload) = (&self.key, self.upload.as_mut().expect("an upload"));
        let missing = (1..=parts_of(upload.number)).filter(|n| !upload.parts.contains_key(n));
        let mut next: Vec<u16> = missing.collect();
        self.dice.shuffle(&mut next);
        next.truncate(2);
        let (id, number) = (&upload.id, upload.number);
        let one = |n: u16| {
            let path = format!("{key}?partNumber={n}&uploadId={id}");
            let heard = Session::new(addr).hear("PUT", &path, "", &part(number, n));
            acknowledged(heard).map(|answer| answer.must("etag").to_owned())
        };
        let told: Vec<_> = thread::scope(|scope| {
            let one = &one;
            let sent = next.iter().map(|&n| scope.spawn(move || one(n)));
            let sent: Vec<_> = sent.collect();
            sent.into_iter()
                .map(|it| it.join().expect("an end"))
                .collect()
        });
        let mut are_all = true;
        for (n, told) in next.into_iter().zip(told) {
            if let Some(tag) = told {
                self.counts.parts += 1;
                upload.unheard.remove(&n);
                upload.parts.insert(n, tag);
            } else {
                self.counts.unheard_parts += 1;
                upload.unheard.insert(n);
                are_all = false;
            }
        }
        are_all
    }

    fn give_up(&mut self, session: &mut Session) -> bool {
        let upload = self.upload.as_mut().expect("an upload");
        let path = format!("{}?uploadId={}", self.key, upload.id);
        let heard = session.hear("DELETE", &path, "", b"");
        let is_done = matches!(&heard, Heard::Answer(answer) if answer.status == 204);
        // Where there was no answer nothing is known of it any more: what is left is given up again.
        self.upload = None;
        self.counts.given_up += usize::from(is_done);
        is_done
    }

    fn complete(&mut self, session: &mut Session) -> bool {
        let upload = self.upload.as_mut().expect("an upload");
        let list = upload
            .parts
            .iter()
            .map(|(n, tag)| format!("<Part><PartNumber>{n}</PartNumber><ETag>{tag}</ETag></Part>"));
        let list: String = list.collect();
        let list = format!("<CompleteMultipartUpload>{list}</CompleteMultipartUpload>");
        let path = format!("{}?uploadId={}", self.key, upload.id);
        let number = upload.number;
        self.may_have.push(Some(number));
        if acknowledged(post(session, &path, list.as_bytes())).is_none() {
            self.counts.unheard_values += 1;
            upload.may_be_complete = true;
            return false;
        }
        self.counts.values += 1;
        (self.may_have, self.upload) = (vec![Some(number)], None);
        true
    }

    /// What is there after an end is what was acknowledged.
    pub(super) fn look(&mut self, addr: SocketAddr) -> Result<(), String> {
        let session = &mut Session::new(addr);
        self.look_at_value(session)?;
        let Some(upload) = &mut self.upload else {
            return Ok(());
        };
        let answer = session.ask("GET", &format!("{}?uploadId={}", self.key, upload.id));
        if answer.status == 404 && self.may_have == [Some(upload.number)] {
            self.upload = None;
            return Ok(());
        }
        if answer.status != 200 {
            return Err(format!("an upload is gone: {}", answer.text()));
        }
        let mut found = BTreeMap::new();
        for text in answer.text().split("<Part>").skip(1) {
            let [n, tag, size] =
                ["PartNumber", "ETag", "Size"].map(|it| element(text, it).expect("text"));
            let (n, size): (u16, usize) =
                (n.parse().expect("a number"), size.parse().expect("one"));
            if size != part(upload.number, n).len() {
                return Err(format!("part {n} has {size} bytes"));
            }
            found.insert(n, tag);
        }
        for (n, tag) in &upload.parts {
            if found.remove(n).as_ref() != Some(tag) {
                return Err(format!("part {n} of {} is lost", upload.number));
            }
            self.counts.kept += 1;
        }
        for (n, tag) in found {
            if !upload.unheard.contains(&n) {
                return Err(format!("part {n} was not sent"));
            }
            self.counts.done_parts += 1;
            // It is as good as one that was acknowledged.
            upload.parts.insert(n, tag);
        }
        upload.unheard.clear();
        Ok(())
    }

    /// The value is one that the key may have; it stays.
    fn look_at_value(&mut self, session: &mut Session) -> Result<(), String> {
        let answer = session.ask("GET", &self.key);
        let found = self.may_have.iter().find(|may_be| match may_be {
            None => answer.status == 404,
            Some(number) => answer.status == 200 && answer.body == value(*number),
        });
        let Some(&found) = found else {
            let (key, status, len) = (&self.key, answer.status, answer.body.len());
            return Err(format!("{key} is another value: {status}, {len} bytes"));
        };
        let is_new = self.may_have.len() > 1 && self.may_have.last() == Some(&found);
        self.counts.done_values += usize::from(is_new);
        self.may_have = vec![found];
        Ok(())
    }

    /// Sends what is missing, and completes the upload, if it has one.
    pub(super) fn finish(&mut self, addr: SocketAddr) -> Result<(), String> {
        let session = &mut Session::new(addr);
        while self.upload.is_some() {
            if !self.step(addr, session, false) {
                return Err(format!("{}: an upload cannot be ended", self.key));
            }
        }
        self.look_at_value(session)
    }
}

fn post(session: &mut Session, path: &str, body: &[u8]) -> Heard {
    let length = format!("Content-Length: {}\r\n", body.len());
    session.hear("POST", path, &length, body)
}

/// The answer that something was done. A server whose disk has failed may say that it was not.
fn acknowledged(heard: Heard) -> Option<Response> {
    match heard {
        Heard::Answer(answer) if answer.status == 200 => Some(answer),
        Heard::Answer(answer) => {
            assert!(answer.status >= 500, "{}: {}", answer.status, answer.text());
            None
        }
        _ => None,
    }
}
