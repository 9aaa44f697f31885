//! The kinds of refusals: the status, the name and the flags of each. Knows no refusal.
//!
//! Responses, the audit log and the log read them. A status stands in a [`Kind`] or in `response`.

use hyper::StatusCode;

/// A kind of refusals: a row of the table here, or a constant beside the feature that refuses.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub status: StatusCode,
    /// The name of the problem, or its type as a URI.
    pub name: &'static str,
    flags: &'static [Flag],
    /// Fields that the response has besides.
    pub fields: &'static [(&'static str, &'static str)],
}

/// A property of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// The connection ends with it: the end of the request is in doubt, or its client.
    Closes,
    /// The client itself is refused: the audit log has it.
    Audited,
    /// A host or an origin is refused, which an option can allow: the log has it.
    Logged,
    /// The response has no body.
    Empty,
    /// Clients of S3 and Azure get an error as theirs.
    OfStore,
}

impl Kind {
    pub const fn new(status: StatusCode, name: &'static str) -> Self {
        Self {
            status,
            name,
            flags: &[],
            fields: &[],
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

    pub fn has(self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }
}
