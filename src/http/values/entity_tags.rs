//! Lists of entity tags, as If-Match and If-None-Match have them (RFC 9110, sections 8.8.3 and 13.1). Pure.

use hyper::header::{HeaderMap, HeaderName};

/// A longer list of entity tags counts as malformed: none is needed, and a publisher has better things to read.
pub const MAX_LIST: usize = 8 << 10;

/// Section 8.8.3.2: weak comparison takes `W/"a"` for `"a"`, strong comparison takes it for nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    Strong,
    Weak,
}

/// The value of If-Match or If-None-Match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tags {
    /// `*`
    Any,
    /// A well-formed list, its lines joined by commas.
    Listed(Box<[u8]>),
    Malformed,
}

impl Tags {
    pub fn of(headers: &HeaderMap, name: &HeaderName) -> Option<Self> {
        let lines: Vec<&[u8]> = headers.get_all(name).iter().map(AsRef::as_ref).collect();
        match &lines[..] {
            [] => None,
            [b"*"] => Some(Self::Any),
            lines => {
                let list = lines.join(&b',');
                let good = list.len() <= MAX_LIST && Members(&list).all(|tag| tag.is_ok());
                Some(if good {
                    Self::Listed(list.into())
                } else {
                    Self::Malformed
                })
            }
        }
    }

    /// The first of `etags` that is listed.
    pub fn find<'a>(
        &self,
        mut etags: impl Iterator<Item = &'a str>,
        comparison: Comparison,
    ) -> Option<&'a str> {
        let list = match self {
            Self::Any => return etags.next(),
            Self::Listed(list) => list,
            Self::Malformed => return None,
        };
        let is_listed = |etag: &&str| {
            Members(list).flatten().any(|tag| {
                tag.opaque == etag.as_bytes() && !(tag.weak && comparison == Comparison::Strong)
            })
        };
        etags.find(is_listed)
    }
}

/// An entity tag as sent; `opaque` has its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag<'a> {
    pub weak: bool,
    pub opaque: &'a [u8],
}

/// No entity tag stands where there should be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// The members of a list of entity tags, in order; ends after the first that is malformed.
pub struct Members<'a>(pub &'a [u8]);

impl<'a> Iterator for Members<'a> {
    type Item = Result<Tag<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        // A list may have empty members (section 5.6.1.2).
        while let [b' ' | b'\t' | b',', rest @ ..] = self.0 {
            self.0 = rest;
        }
        if self.0.is_empty() {
            return None;
        }
        let tag = self.tag();
        if tag.is_none() {
            self.0 = &[];
        }
        Some(tag.ok_or(Malformed))
    }
}

impl<'a> Members<'a> {
    /// Takes the tag at the front, with nothing but a comma or the end behind it.
    fn tag(&mut self) -> Option<Tag<'a>> {
        let (weak, tag) = match self.0.strip_prefix(b"W/") {
            Some(tag) => (true, tag),
            None => (false, self.0),
        };
        let inner = tag.strip_prefix(b"\"")?;
        let end = inner.iter().position(|b| *b == b'"')?;
        if !inner[..end].iter().all(|b| is_etagc(*b)) {
            return None;
        }
        let (opaque, rest) = tag.split_at(end + 2);
        let rest = rest.trim_ascii_start();
        if !matches!(rest, [] | [b',', ..]) {
            return None;
        }
        self.0 = rest;
        Some(Tag { weak, opaque })
    }
}

/// `etagc` of section 8.8.3.
fn is_etagc(byte: u8) -> bool {
    matches!(byte, 0x21 | 0x23..=0x7e | 0x80..)
}
