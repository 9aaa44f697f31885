//! What a request shows of who asks, and what is known of that.

use std::rc::Rc;

use crate::access::Source;
use crate::http::auth::credentials::NameAndPassword;
use crate::http::auth::proven::Proof;

/// The fields Authorization of a request.
#[derive(Clone, Copy, Debug, Default)]
pub enum Presented<'a> {
    /// There is none.
    #[default]
    Nothing,
    /// There is this one.
    Field(&'a [u8]),
    /// There are several, which say nothing together.
    Several,
}

impl<'a> Presented<'a> {
    /// With one more.
    pub fn and(self, field: &'a [u8]) -> Self {
        match self {
            Self::Nothing => Self::Field(field),
            Self::Field(_) | Self::Several => Self::Several,
        }
    }
}

/// Who asks.
#[derive(Debug)]
pub enum Identified {
    /// It does not matter.
    Anyone,
    /// It is known.
    Proved(Rc<Proof>),
    /// The password has to be checked first, which takes time.
    Unchecked(Box<Unchecked>),
}

/// A password that is yet to be checked, for the field that it came in.
#[derive(Debug)]
pub struct Unchecked {
    pub field: Box<[u8]>,
    pub pair: NameAndPassword,
    pub source: Source,
}
