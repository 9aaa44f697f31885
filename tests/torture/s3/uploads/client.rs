//! A client of resumable uploads that goes on wherever it finds a server, and holds each answer to those before it.

use std::ops::RangeInclusive;

use crate::random::Random;
use crate::support::prelude::*;

/// How long a server is asked for where an upload stands before that is a fault.
const PATIENCE: Duration = Duration::from_secs(60);

/// A value that was uploaded, or was to be.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) key: String,
    seed: u64,
    len: usize,
    /// Whether a server has said that it is published. Else its last part was never sent.
    pub(super) is_acknowledged: bool,
}

impl Value {
    pub(super) fn new(key: String, seed: u64, len: usize) -> Self {
        Self {
            key,
            seed,
            len,
            is_acknowledged: false,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        pattern(self.seed, self.len)
    }

    /// Holds what was read of its key to what was answered.
    pub(super) fn judge(&self, read: Option<&[u8]>) -> Result<(), String> {
        let Self { key, len, .. } = self;
        match read {
            None if self.is_acknowledged => Err(format!("{key} is lost")),
            Some(_) if !self.is_acknowledged => Err(format!("{key} was never whole, and is there")),
            Some(read) if read != self.bytes() => {
                Err(format!("{key} has {} other bytes of {len}", read.len()))
            }
            _ => Ok(()),
        }
    }
}

/// What was counted.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) parts: usize,
    /// Requests whose outcome had to be asked for.
    pub(super) unknown: usize,
    pub(super) acknowledged: usize,
    pub(super) abandoned: usize,
    pub(super) cancelled: usize,
    pub(super) read_back: usize,
}

/// How an upload is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Published,
    Abandoned,
    Cancelled,
}

/// What a server says of an upload.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    At(usize),
    Complete,
    Gone,
}

impl State {
    /// How far an upload of `len` bytes is, or `None` at its end, where it has to be between what was answered and what was
    /// sent.
    pub(super) fn after(
        self,
        known: RangeInclusive<usize>,
        len: usize,
    ) -> Result<Option<usize>, String> {
        match self {
            Self::At(there) if known.contains(&there) => Ok(Some(there)),
            Self::Complete if *known.end() == len => Ok(None),
            other => Err(format!(
                "{other:?}, answered and sent were {known:?} of {len}"
            )),
        }
    }
}

pub(super) struct Uploader {
    clients: Vec<Client>,
    addrs: Vec<SocketAddr>,
    dice: Random,
    pub(super) counts: Counts,
}

impl Uploader {
    pub(super) fn new(addrs: &[SocketAddr], dice: Random) -> Self {
        Self {
            clients: addrs.iter().copied().map(Client::new).collect(),
            addrs: addrs.to_vec(),
            dice,
            counts: Counts::default(),
        }
    }

    /// A length that takes one of the ways through a server: short, long, with a part of its own, with parts on the way.
    pub(super) fn draw(&mut self, key: String) -> (Value, End) {
        let most = self
            .dice
            .one_of(&[100 << 10, 1 << 20, 4 << 20, 9 << 20, 20 << 20]);
        let (seed, len) = (self.dice.draw(), 1 + self.dice.place(most));
        let end = match self.dice.below(8) {
            0 => End::Abandoned,
            1 => End::Cancelled,
            _ => End::Published,
        };
        (Value::new(key, seed, len), end)
    }

    /// Uploads `value`; what is wrong with the answers.
    pub(super) fn upload(&mut self, value: &mut Value, end: End) -> Result<(), String> {
        let Some(upload) = self.create(&value.key) else {
            return Ok(());
        };
        let bytes = value.bytes();
        let stop = if end == End::Published {
            bytes.len()
        } else {
            self.dice.place(bytes.len())
        };
        let (mut offset, mut sent) = (0, 0);
        while end == End::Published || offset < stop {
            let to = offset
                + 1.max(self.dice.place(stop - offset + stop / 4))
                    .min(stop - offset);
            let is_last = to == bytes.len();
            sent = sent.max(to);
            self.counts.parts += 1;
            match self.append(&upload, offset, &bytes[offset..to], is_last)? {
                Some(State::Complete) => break,
                Some(State::At(there)) if there == to => offset = to,
                Some(_) => return Err(format!("not all of a part to {to} was taken")),
                None => match self.state(&upload)?.after(offset..=sent, bytes.len())? {
                    Some(there) => offset = there,
                    None => break,
                },
            }
        }
        self.end(value, &upload, end)
    }

    /// The end of what was sent.
    fn end(&mut self, value: &mut Value, upload: &Resumable, end: End) -> Result<(), String> {
        match end {
            End::Abandoned => self.counts.abandoned += 1,
            End::Cancelled => {
                let answer = self.hear("DELETE", &upload.path, "", b"");
                if answer.is_some_and(|answer| answer.status == 204) {
                    self.counts.cancelled += 1;
                    if !matches!(self.state(upload)?, State::Gone) {
                        return Err("it was cancelled, and is there".to_owned());
                    }
                }
            }
            End::Published => {
                self.counts.acknowledged += 1;
                value.is_acknowledged = true;
                let read = self.hear("GET", &format!("/{}", value.key), "", b"");
                match read {
                    Some(read) if read.status == 200 => {
                        self.counts.read_back += 1;
                        value.judge(Some(&read.body))?;
                    }
                    Some(read) if read.status == 404 => value.judge(None)?,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn create(&mut self, key: &str) -> Option<Resumable> {
        let mut lines = "Upload-Complete: ?0\r\n".to_owned();
        if self.dice.below(2) == 0 {
            // A write that is made twice would be refused the second time.
            lines.push_str("If-None-Match: *\r\n");
        }
        let created = self.hear("PUT", &format!("/{key}"), &lines, b"");
        created
            .filter(|created| created.status == 201)
            .map(|created| Resumable::of_key(&created, key))
    }

    /// Sends a part. `None`: it is not known what became of it.
    fn append(
        &mut self,
        upload: &Resumable,
        offset: usize,
        part: &[u8],
        is_last: bool,
    ) -> Result<Option<State>, String> {
        let head = upload.append_head(offset, is_last, part.len());
        let server = self.dice.place(self.addrs.len());
        let answer = if self.dice.below(8) == 0 {
            // Its client goes away in the middle.
            let some = &part[..self.dice.place(part.len() + 1)];
            if let Ok(mut raw) = Raw::try_connect(self.addrs[server]) {
                let _ = raw.offer([head.as_bytes(), some].concat());
            }
            None
        } else {
            self.ask(server, &[head.as_bytes(), part].concat())
        };
        match answer.as_ref().map(|answer| answer.status) {
            Some(200) if is_last => Ok(Some(State::Complete)),
            Some(204) if !is_last => Ok(Some(State::At(offset_of(answer.as_ref())?))),
            None | Some(409 | 502 | 503 | 504) => {
                self.counts.unknown += 1;
                Ok(None)
            }
            _ => Err(format!("a part at {offset}: {answer:?}")),
        }
    }

    /// Asks until a server says where the upload stands.
    fn state(&mut self, upload: &Resumable) -> Result<State, String> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let state = self.hear("HEAD", &upload.path, "", b"");
            match state.as_ref().map(|state| state.status) {
                Some(204) if state.as_ref().and_then(complete) == Some("?1") => {
                    return Ok(State::Complete);
                }
                Some(204) => return Ok(State::At(offset_of(state.as_ref())?)),
                Some(404) => return Ok(State::Gone),
                None | Some(409 | 502 | 503 | 504) => {}
                _ => return Err(format!("where it stands: {state:?}")),
            }
        }
        Err("nobody says where it stands".to_owned())
    }

    fn hear(&mut self, method: &str, path: &str, lines: &str, body: &[u8]) -> Option<Response> {
        let server = self.dice.place(self.addrs.len());
        let path = path.trim_start_matches('/');
        answer(self.clients[server].hear(method, path, lines, body))
    }

    fn ask(&mut self, server: usize, request: &[u8]) -> Option<Response> {
        answer(self.clients[server].exchange(request))
    }
}

fn answer(heard: Heard) -> Option<Response> {
    match heard {
        Heard::Answer(answer) => Some(answer),
        Heard::Nothing | Heard::Part(_) | Heard::Unasked => None,
    }
}

fn complete(state: &Response) -> Option<&str> {
    state.header("upload-complete")
}

fn offset_of(answer: Option<&Response>) -> Result<usize, String> {
    let offset = answer.and_then(|answer| answer.header("upload-offset")?.parse().ok());
    offset.ok_or_else(|| format!("no offset: {answer:?}"))
}
