//! What a request asks for, once it is understood: the words between those who read it and those who do it.

use hyper::header::{HeaderMap, HeaderValue};

use super::admin::{self, Page};
use super::conditional::Preconditions;
use super::digest_fields::{Algorithm, Expected};
use super::encode::Coding;
use super::listing::Form;
use super::subscription::Ask;
use crate::store::{self, Key};

/// What a request asks for: something to be done, or to be told of what others do.
#[derive(Debug)]
pub(super) enum Intent<'a> {
    Operation(Operation<'a>),
    Watch(Ask),
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Operation<'a> {
    /// Answer the value; HEAD is the same, whose body hyper leaves out.
    Get {
        key: Key<'a>,
        wishes: Option<Box<Wishes>>,
    },
    /// Store the body, of `len` bytes where the head tells.
    Put {
        key: Key<'a>,
        len: Option<u64>,
        terms: Box<Terms>,
    },
    Delete {
        key: Key<'a>,
        preconditions: Option<Preconditions>,
    },
    List {
        page: store::Page,
        form: Form,
    },
    /// Answer the page for browsers, or only say that it `is_known` to the client.
    Home {
        is_known: bool,
    },
    /// Say what may be done; `preflight` when a browser asks on behalf of a page of another origin.
    Options {
        preflight: bool,
    },
    /// Answer one of the server's own pages.
    Page(Page, admin::Form),
}

/// What a client wants of a value besides all of it, now.
#[derive(Debug)]
pub(super) struct Wishes {
    pub(super) preconditions: Option<Preconditions>,
    /// Range and If-Range, of a GET: the one method that has ranges (RFC 9110, section 14.2).
    pub(super) ranges: HeaderMap,
    pub(super) digest: Option<Algorithm>,
    pub(super) coding: Option<Coding>,
}

/// On what terms a body is to be stored.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) preconditions: Option<Preconditions>,
    pub(super) media_type: Option<Box<str>>,
    pub(super) expected: Expected,
    /// Digests may follow as trailers, by algorithms not known before.
    pub(super) digests_follow: bool,
}

/// To whom an answer goes.
#[derive(Debug, Default)]
pub(super) struct Audience {
    /// Errors as `application/problem+json`.
    pub(super) problem: bool,
    /// The page that asks, if it is of an origin that may.
    pub(super) origin: Option<HeaderValue>,
    /// Answers depend on who asks.
    pub(super) varies: bool,
    /// There is an X-Request-Id, to be answered with one.
    pub(super) identified: bool,
    /// It wants no further answer on this connection.
    pub(super) closes: bool,
}

impl Operation<'_> {
    /// The same operation, borrowing nothing.
    pub(super) fn into_owned(self) -> Operation<'static> {
        match self {
            Self::Get { key, wishes } => Operation::Get {
                key: key.into_owned(),
                wishes,
            },
            Self::Put { key, len, terms } => Operation::Put {
                key: key.into_owned(),
                len,
                terms,
            },
            Self::Delete { key, preconditions } => Operation::Delete {
                key: key.into_owned(),
                preconditions,
            },
            Self::List { page, form } => Operation::List { page, form },
            Self::Home { is_known } => Operation::Home { is_known },
            Self::Options { preflight } => Operation::Options { preflight },
            Self::Page(page, form) => Operation::Page(page, form),
        }
    }
}
