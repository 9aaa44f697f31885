//! What each key may hold: the judge of every answer, and of what is there after a crash.
//!
//! A key has one writer, so its changes have one order, and at most the last of them has an unknown outcome. Values tell
//! which write of which key they are, all of them, so that a torn or mixed one shows. Nothing here knows how the server
//! works.

use std::collections::HashMap;

use crate::random::Random;
use crate::support::{Response, pattern};

/// The number of a write of a key, from 1.
pub(crate) type Write = u32;

/// A broken promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A value that nobody wrote.
    Torn,
    /// An acknowledged write is not there, nor is anything later.
    Lost,
    /// A value is back that was deleted.
    Resurrected,
    /// A change was made that was refused, or that an orderly end left unanswered.
    Unheard,
    /// Two writes of a key have one `ETag`, or one write has two.
    Tag,
    /// A file is there that is no value.
    Litter,
    /// A wrong answer, or none while the server should serve.
    Answer,
    /// A start or an end took too long, or went wrong.
    Process,
}

pub(crate) type Finding = (Fault, String);

/// What a key holds if a change was made.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Unheard(Option<Write>);

/// What is known of one key.
pub(crate) struct Page {
    pub(crate) key: String,
    last: Write,
    /// The write that it holds, if the change under way was not made.
    pub(crate) holds: Option<Write>,
    /// The change whose outcome nobody heard.
    unheard: Option<Unheard>,
    pub(crate) tag: String,
    tags: HashMap<String, Write>,
}

impl Page {
    pub(crate) fn new(key: String) -> Self {
        Self {
            key,
            last: 0,
            holds: None,
            unheard: None,
            tag: String::new(),
            tags: HashMap::new(),
        }
    }

    /// A write that was never asked for, and its value.
    pub(crate) fn next(&mut self) -> (Write, Vec<u8>) {
        self.last += 1;
        (self.last, value(&self.key, self.last))
    }

    /// The change was acknowledged.
    pub(crate) fn done(&mut self, then: Option<Write>, tag: &str) -> Result<(), Finding> {
        self.holds = then;
        match then {
            Some(write) => self.name(write, tag),
            None => Ok(()),
        }
    }

    /// Nobody heard what became of the change.
    pub(crate) fn unknown(&mut self, then: Option<Write>) {
        self.unheard = Some(Unheard(then));
    }

    /// Judges the answer to a GET, and takes what it tells as what the key holds.
    pub(crate) fn judge(&mut self, answer: &Response) -> Result<(), Finding> {
        let unheard = self.unheard.take();
        let (seen, is_new) = match answer.status {
            404 => (None, false),
            200 => {
                let (write, is_new) = self.identify(answer, unheard.and_then(|change| change.0))?;
                (Some(write), is_new)
            }
            status => return Err((Fault::Answer, format!("GET /{}: {status}", self.key))),
        };
        let held = std::mem::replace(&mut self.holds, seen);
        if seen == held || unheard == Some(Unheard(seen)) {
            return Ok(());
        }
        let fault = match (held, seen) {
            _ if is_new => Fault::Unheard,
            (None, _) => Fault::Resurrected,
            (Some(_), _) => Fault::Lost,
        };
        let told = format!(
            "/{} held {held:?}, unheard {unheard:?}; now {seen:?}",
            self.key
        );
        Err((fault, told))
    }

    /// The write that an answer shows, by its bytes and by its tag, and whether nobody had heard of it before.
    fn identify(
        &mut self,
        answer: &Response,
        maybe: Option<Write>,
    ) -> Result<(Write, bool), Finding> {
        let tag = answer.must("etag").to_owned();
        let tagged = self.tags.get(&tag).copied();
        let named = written(&answer.body);
        // An empty value names no write: it may be of the last that was asked for.
        let mut possible = [tagged, maybe, named, Some(self.last)]
            .into_iter()
            .flatten();
        let Some(write) = possible.find(|&write| answer.body == value(&self.key, write)) else {
            let told = format!(
                "/{}: {} bytes, {tag}: tagged {tagged:?}, of {named:?}; held {:?}, unheard {maybe:?}",
                self.key,
                answer.body.len(),
                self.holds
            );
            return Err((Fault::Torn, told));
        };
        self.name(write, &tag)?;
        Ok((write, tagged.is_none()))
    }

    fn name(&mut self, write: Write, tag: &str) -> Result<(), Finding> {
        let before = self.tags.get(tag).copied();
        let renamed = before.is_none() && self.tags.values().any(|&other| other == write);
        if renamed || before.is_some_and(|other| other != write) {
            let told = format!("/{}: {tag} of {write}, before of {before:?}", self.key);
            return Err((Fault::Tag, told));
        }
        tag.clone_into(&mut self.tag);
        self.tags.insert(self.tag.clone(), write);
        Ok(())
    }
}

/// Whether these bytes are the whole of some write of this key. (That of none are, for some writes are empty.)
pub(crate) fn is_whole(key: &str, bytes: &[u8]) -> bool {
    written(bytes).is_none_or(|write| bytes == value(key, write))
}

/// The write that a value says it is of; an empty one says nothing.
fn written(bytes: &[u8]) -> Option<Write> {
    let number = bytes.first_chunk()?;
    Some(Write::from_le_bytes(*number))
}

/// The value of a write.
fn value(key: &str, write: Write) -> Vec<u8> {
    let seed = key.bytes().fold(u64::from(write), |seed, byte| {
        (seed ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let mut value = pattern(seed, length(&mut Random::new(seed)));
    if let Some(number) = value.first_chunk_mut() {
        *number = write.to_le_bytes();
    }
    value
}

/// 0 B to 8 MiB: mostly small, some of each way that a value takes through the server.
fn length(dice: &mut Random) -> usize {
    match dice.below(256) {
        0 => 8 << 20,
        1..=3 => (1 << 20) + dice.place(1 << 20),
        4..=15 => (100 << 10) + dice.place(300 << 10),
        16..=47 => (4 << 10) + dice.place(80 << 10),
        48..=71 => 0,
        _ => 16 + dice.place(4 << 10),
    }
}

#[test]
fn a_value_tells_a_cut_or_a_mixture() {
    let mut page = Page::new("k".into());
    let mut lengths = Vec::new();
    for _ in 0..600 {
        let (write, bytes) = page.next();
        lengths.push(bytes.len());
        assert!(is_whole("k", &bytes) && (bytes.is_empty() || !is_whole("other", &bytes)));
        if bytes.len() > 16 {
            assert_eq!(written(&bytes), Some(write));
            assert!(!is_whole("k", &bytes[..bytes.len() - 1]), "a cut");
            let half = bytes.len() / 2;
            let mixed = [&bytes[..half], &pattern(1, bytes.len() - half)].concat();
            assert!(!is_whole("k", &mixed), "a mixture");
        }
    }
    lengths.sort_unstable();
    assert_eq!((lengths[0], lengths[599]), (0, 8 << 20));
}

#[test]
fn a_page_tells_what_may_be_from_what_may_not() {
    let answer = |status: u16, tag: &str, body: Vec<u8>| Response {
        status,
        headers: vec![("etag".to_owned(), tag.to_owned())],
        body,
    };
    let page = || {
        let mut page = Page::new("k".into());
        for tag in ["a", "b"] {
            let (write, _) = page.next();
            page.done(Some(write), tag).expect("two tags");
        }
        page
    };
    let fault = |mut page: Page, status: u16, tag: &str, body: Vec<u8>| {
        let judged = page.judge(&answer(status, tag, body));
        judged.err().map(|(fault, _)| fault)
    };
    let unknown = |then| {
        let mut page = page();
        page.last += 1;
        page.unknown(then);
        page
    };
    let deleted = || {
        let mut page = page();
        page.done(None, "").expect("no tag");
        page
    };
    let of = |write| value("k", write);
    // Old or new where nobody heard; what was acknowledged where somebody did.
    assert_eq!(fault(page(), 200, "b", of(2)), None);
    assert_eq!(fault(unknown(Some(3)), 200, "b", of(2)), None);
    assert_eq!(fault(unknown(Some(3)), 200, "c", of(3)), None);
    assert_eq!(fault(unknown(None), 404, "", Vec::new()), None);
    assert_eq!(fault(deleted(), 404, "", Vec::new()), None);
    assert_eq!(fault(page(), 200, "a", of(1)), Some(Fault::Lost));
    assert_eq!(fault(page(), 404, "", Vec::new()), Some(Fault::Lost));
    assert_eq!(
        fault(unknown(Some(3)), 404, "", Vec::new()),
        Some(Fault::Lost)
    );
    assert_eq!(fault(deleted(), 200, "b", of(2)), Some(Fault::Resurrected));
    assert_eq!(
        fault(page(), 200, "b", of(2)[1..].to_vec()),
        Some(Fault::Torn)
    );
    assert_eq!(fault(page(), 200, "c", of(4)), Some(Fault::Unheard));
    assert_eq!(fault(page(), 200, "a", of(2)), Some(Fault::Tag));
    assert_eq!(fault(page(), 200, "c", of(2)), Some(Fault::Tag));
    assert_eq!(fault(unknown(Some(3)), 200, "b", of(3)), Some(Fault::Tag));
    assert_eq!(fault(page(), 500, "", Vec::new()), Some(Fault::Answer));
}
