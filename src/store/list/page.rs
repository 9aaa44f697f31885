//! What a listing is asked for, and what it answers.

use rustix::io::Errno;

use super::super::error::Error;
use super::super::key::Key;
use super::super::meta::Meta;

/// Which keys are asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Page {
    /// Only keys that begin with this.
    pub prefix: String,
    /// Only keys after this one in byte order.
    pub after: String,
    /// At most so many.
    pub limit: usize,
}

impl Page {
    /// Whether `name` is one of those that are asked for.
    pub(super) fn has(&self, name: &str) -> bool {
        name.starts_with(&self.prefix) && name > self.after.as_str()
    }
}

/// A page of keys.
#[derive(Debug)]
pub struct Listing {
    /// In byte order.
    pub keys: Vec<(Key<'static>, Meta)>,
    /// When there are more: the last name of this page, after which the next begins.
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
