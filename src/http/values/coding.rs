//! Content codings: which the server can apply, which one a client prefers, and the entity tags of coded values.
//!
//! Pure.

use hyper::header::HeaderMap;

use crate::http::head::accept::content_coding;

/// Values shorter than this are sent as they are: the coding would save less than it costs.
pub const WORTH_IT: u64 = 1 << 10;

/// A content coding that the server can apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    Zstd,
    Gzip,
}

impl Coding {
    /// In the server's own order of preference.
    pub const ALL: [Self; 2] = [Self::Zstd, Self::Gzip];

    pub fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// The one that the client likes best, if it likes one.
    pub fn preferred(headers: &HeaderMap) -> Option<Self> {
        let offers = Self::ALL.map(Self::name);
        content_coding(headers, &offers).map(|i| Self::ALL[i])
    }
}

/// The entity tag of the value of `etag` in this coding: another representation has another tag (RFC 9110, 8.8.3.3).
pub fn variant(etag: &str, coding: Coding) -> String {
    format!("{}-{}\"", etag.trim_end_matches('"'), coding.name())
}
