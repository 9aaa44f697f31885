//! What a listing is asked for, and what it answers.
//!
//! A page has items: keys, or, with [`Page::by_folder`], a folder in place of all keys below it. An item is on a page by its
//! own text alone, so that pages give each item once, whatever comes and goes between them.

use rustix::io::Errno;

use super::super::error::Error;
use super::super::key::Key;
use super::super::meta::Meta;

/// Which keys are asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Page {
    /// Only keys that begin with this.
    pub prefix: String,
    /// Only items after this one in byte order.
    pub after: String,
    /// At most so many items.
    pub limit: usize,
    /// Keys that have a `/` behind the prefix are answered as what they have in common up to the first one.
    pub by_folder: bool,
}

impl Page {
    /// What `key`, which begins with the prefix, is on this page: itself, or a part of it that ends with `/`.
    pub(super) fn item<'k>(&self, key: &'k str) -> &'k str {
        self.common(key).unwrap_or(key)
    }

    /// Whether `item` is one of those that are asked for.
    pub(super) fn has(&self, item: &str) -> bool {
        item.starts_with(&self.prefix) && item > self.after.as_str()
    }

    /// The item of all keys that begin with `start`, if that is a part of it that ends with `/`.
    pub(super) fn common<'k>(&self, start: &'k str) -> Option<&'k str> {
        if !self.by_folder {
            return None;
        }
        let slash = start.get(self.prefix.len()..)?.find('/')?;
        start.get(..=self.prefix.len() + slash)
    }

    /// Whether keys that begin with `below`, which ends with `/`, may be on this page.
    pub(super) fn may_have_below(&self, below: &str) -> bool {
        if !below.starts_with(&self.prefix) {
            return self.prefix.starts_with(below);
        }
        match self.common(below) {
            Some(item) => self.has(item),
            None => self.has(below) || self.after.starts_with(below),
        }
    }

    /// The folder that all keys of the page lie in or below: the prefix up to its last `/`.
    pub(super) fn folder(&self) -> &str {
        self.prefix
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder)
    }
}

/// A page of keys.
#[derive(Debug)]
pub struct Listing<V = Meta> {
    /// In byte order.
    pub keys: Vec<(Key<'static>, V)>,
    /// What stands for the keys of a folder, in byte order: each ends with `/`.
    pub folders: Vec<String>,
    /// When there are more: the last item of this page, after which the next begins.
    pub next: Option<String>,
}

/// Why there is no listing. Unlike [`Error`] it can be copied to each of many that wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failure {
    doing: &'static str,
    errno: Errno,
}

impl Failure {
    /// For `map_err`: an error number, met while `doing`.
    pub(super) fn errno_while(doing: &'static str) -> impl Fn(Errno) -> Self {
        move |errno| Self { doing, errno }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::new(failure.doing, failure.errno)
    }
}
