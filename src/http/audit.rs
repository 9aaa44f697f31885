//! The events of the audit log. Imports nothing, so that every module that changes or refuses something can record one.

/// An event of the audit log. The path is that of the key, where the request asked for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditEvent {
    /// The store was changed.
    Changed(Option<String>),
    /// A link to the value was signed, for so many seconds.
    Shared(u64),
    /// The client was refused, with the problem of this name.
    Refused(&'static str, Option<String>),
}
