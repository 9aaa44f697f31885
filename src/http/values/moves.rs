//! MOVE and COPY of a value (RFC 4918, sections 9.8 and 9.9): what the fields ask for, and the doing.

pub mod perform;
pub mod request;

/// A MOVE or COPY that cannot be done as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMove {
    #[error(
        "MOVE and COPY need one Destination: a path as /key, or the URL of a key of this server"
    )]
    Destination,
    #[error(
        "Destination is no http or https URL of this server, and a value is moved and copied within it"
    )]
    Elsewhere,
    #[error("Overwrite is T or F")]
    Overwrite,
    #[error("MOVE and COPY take no {0}: nothing was done")]
    Field(&'static str),
    #[error("source and destination are the same key")]
    Same,
    /// Everything that has to do with folders as a source or a destination.
    #[error("folders are not moved or copied: name a key at both ends")]
    Folder,
}
