//! MOVE and COPY of a value (RFC 4918, sections 9.8 and 9.9): what the fields ask for, and the doing. And what they ask for of a folder.

pub mod perform;
pub mod request;

/// A MOVE or COPY that cannot be done as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMove {
    #[error(
        "MOVE and COPY need one Destination: a path as /key, or the URL of a key of this server, percent-encoded, without query and fragment"
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
    #[error(
        "a folder is moved and copied to a folder, and a value to a key: of both names the last character is '/', or of none; the root has no name"
    )]
    Mixed,
    #[error("a folder is moved and copied with all that is below it: Depth is infinity, or absent")]
    NotDeep,
    #[error("Depth is infinity, 0 or 1, once")]
    Depth,
    #[error("the destination has a value, which is not to be replaced")]
    Exists,
    #[error("one of the two folders is the other, or lies in it")]
    Within,
    #[error(
        "not the same bounds, or rules of names, hold for the two folders: move the values one by one, or COPY the folder and DELETE it"
    )]
    OtherRules,
    /// By what, and whether it was to be replaced.
    #[error(
        "{0} has the name of the destination: the move of a folder neither replaces nor merges"
    )]
    Taken(&'static str, bool),
}
