//! A refused request: of what kind the refusal is, and why, in words for the client; found before the store is asked,
//! or while the request is performed.
//!
//! A refusal is a value of 40 bytes, so that results with one make no future longer; what few refusals have besides is
//! boxed. A [`Kind`] stands beside the feature that refuses, and what several refuse in [`common`]. Knows no feature.

pub mod common;
pub mod failures;
pub mod kind;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

use crate::http::refusal::kind::{Flag, Kind};
use crate::store::{Error, Key};

/// The refusal of a request.
#[derive(Debug)]
pub struct Refusal {
    pub kind: &'static Kind,
    /// The reason, for the client.
    pub text: Cow<'static, str>,
    more: Option<Box<More>>,
}

/// What few refusals have.
#[derive(Debug, Default)]
pub struct More {
    /// Fields of the response that say what the client can do.
    pub fields: HeaderMap,
    /// Members of the problem.
    pub members: BTreeMap<&'static str, u64>,
    /// The body of the response in place of the reason.
    pub json: Option<Bytes>,
    /// The failure of the store, of which the log has more than the client.
    pub cause: Option<Error>,
    /// What was done before.
    pub done: Option<BulkProgress>,
    /// The id of the request, where a door tells it with the refusal.
    pub request_id: Option<Box<str>>,
}

/// What a request had done before it failed.
#[derive(Debug)]
pub struct BulkProgress {
    pub work: BulkWork,
    /// The name of what failed, if it had come to one.
    pub at: Option<String>,
    /// The number of values, and of their bytes, where they are counted.
    pub values: Option<u64>,
    pub bytes: Option<u64>,
    /// The keys of the values, or of the first ones.
    pub keys: Vec<Key<'static>>,
}

/// The work that was under way.
#[derive(Debug, PartialEq, Eq)]
pub enum BulkWork {
    /// The files of a form are stored in this folder.
    Form(String),
    /// The members of an archive are stored.
    Archive,
    /// The values of a folder are copied.
    Copy,
    /// A folder is removed.
    Removal,
}

impl BulkProgress {
    /// The most keys that are named.
    pub const MOST_NAMED: usize = 100;

    pub fn of(work: BulkWork) -> Self {
        Self {
            work,
            at: None,
            values: None,
            bytes: None,
            keys: Vec::new(),
        }
    }
}

impl Kind {
    /// The refusal for this reason, in words for the client.
    pub fn because(&'static self, why: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal {
            kind: self,
            text: why.into(),
            more: None,
        }
    }
}

impl Refusal {
    pub const fn new(kind: &'static Kind, text: &'static str) -> Self {
        Self {
            kind,
            text: Cow::Borrowed(text),
            more: None,
        }
    }

    /// The same with what few refusals have, to be set.
    pub fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    /// The same with this field, which its response has.
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.more().fields.append(name, value);
        self
    }

    /// The same after all that was `done`.
    pub fn after(mut self, done: BulkProgress) -> Self {
        self.more().done = Some(done);
        self
    }

    /// What few refusals have, if this one has it.
    pub fn besides(&self) -> Option<&More> {
        self.more.as_deref()
    }

    /// The failure of the store.
    pub fn cause(&self) -> Option<&Error> {
        self.besides()?.cause.as_ref()
    }

    /// What was done before.
    pub fn done(&self) -> Option<&BulkProgress> {
        self.besides()?.done.as_ref()
    }

    /// The name of the problem.
    pub fn name(&self) -> &'static str {
        match self.cause() {
            Some(Error::NotSupported { name, .. }) => name,
            _ => self.kind.name,
        }
    }

    /// True where the request may have changed something, and the server does not know whether it did.
    pub fn leaves_doubt(&self) -> bool {
        self.kind.has(Flag::OfUnknownResult) || matches!(self.cause(), Some(Error::Unsynced(_)))
    }

    /// The failure of the store that this is, or that a body is cut off.
    pub fn into_failure(self) -> Error {
        let cause = self.more.and_then(|more| more.cause);
        cause.unwrap_or(Error::Incomplete)
    }
}

impl Display for Refusal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Two refusals are equal that say the same.
impl PartialEq for Refusal {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.text == other.text
    }
}
