//! Forms with files: how they arrive, what is done with them, what is answered, and why one is not understood.

pub mod perform;
pub mod request;
pub mod response;

/// Files in one form at most: the answer names them all.
pub const MAX_FILES: usize = 1000;

/// Why a form is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadForm {
    #[error("a part is malformed, or the form ends before its last delimiter")]
    Malformed,
    #[error("the head of a part is too long")]
    HeadTooLong,
    #[error("a part needs a Content-Disposition of form-data with a name, in UTF-8")]
    Disposition,
    #[error("there is no field of the name {0:?}, but folder, replace and file")]
    UnknownField(String),
    #[error("the field {0} comes twice")]
    Twice(&'static str),
    #[error("the field {0} comes after a file; it belongs before the first")]
    Late(&'static str),
    #[error("the field {0} is too long, or not UTF-8")]
    Text(&'static str),
    #[error("the field replace is not one of 1, on, true, 0, off, false")]
    Replace,
    #[error("a file needs a file name")]
    NoFileName,
    #[error("no file was chosen")]
    NoFileChosen,
    #[error("there is no file in the form")]
    NoFile,
    #[error("there are more than {MAX_FILES} files in the form")]
    TooManyFiles,
}
