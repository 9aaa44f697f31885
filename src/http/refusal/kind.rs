//! The kinds of refusals: the status, the name and the flags of each. Knows no refusal.
//!
//! Responses, the audit log and the log read them.

use hyper::StatusCode;

/// A kind of refusals: a constant beside the feature that refuses, or beside [the refusals of several](super::common).
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub status: StatusCode,
    /// The name of the problem, or its type as a URI.
    pub name: &'static str,
    flags: &'static [Flag],
    /// Fields that the response has besides.
    pub fields: &'static [(&'static str, &'static str)],
    /// The kind in its place with `--compat`, as the C server had it.
    compat: Option<&'static Kind>,
}

/// A property of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// The connection ends with it: the end of the request, or its client, is uncertain.
    Closes,
    /// The client itself is refused: the audit log has it.
    Audited,
    /// A host or an origin is refused, which an option can allow: the log has it.
    Logged,
    /// The response has no body.
    Empty,
    /// Clients of S3 and Azure get an error as theirs.
    OfStore,
    /// The request may have changed something: the audit log says that its result is not known.
    OfUnknownResult,
}

impl Kind {
    pub const fn new(status: StatusCode, name: &'static str) -> Self {
        Self {
            status,
            name,
            flags: &[],
            fields: &[],
            compat: None,
        }
    }

    pub const fn flags(mut self, flags: &'static [Flag]) -> Self {
        self.flags = flags;
        self
    }

    pub const fn fields(mut self, fields: &'static [(&'static str, &'static str)]) -> Self {
        self.fields = fields;
        self
    }

    pub const fn compat(mut self, kind: &'static Self) -> Self {
        self.compat = Some(kind);
        self
    }

    /// The kind that clients see.
    pub fn shown(&self, compat: bool) -> &Self {
        self.compat.filter(|_| compat).unwrap_or(self)
    }

    pub fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }
}

/// A kind is known by its status and its name.
impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        (self.status, self.name) == (other.status, other.name)
    }
}
