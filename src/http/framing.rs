//! Where in what a client sends each request begins and ends: the framing of a connection, from its first byte to its last.
//!
//! Follows heads and bodies on its own, by rules so strict that no recipient can read them in two ways, and lets through
//! only what it understood. So hyper, who parses the same bytes after it, finds every head where it was found here: none
//! can be smuggled in a body, and none behind a fault is ever seen. Promises to look at no byte of a body's data.

use super::chunks::Chunks;
use super::head::{Body, Fault, Large, Scan};

/// What ends the bytes that may be given on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The end of what is there.
    Nothing,
    /// Something that no recipient should have to read.
    Fault(Fault),
    /// A large body, of which not all is there; its head is the last of the bytes given on. What follows the body is
    /// framed anew.
    Large(Large),
}

/// The framing of one connection.
#[derive(Debug)]
pub struct Framing {
    place: Place,
    requests: u64,
    /// Of the head that was passed last.
    large: Option<Large>,
}

#[derive(Debug)]
enum Place {
    Head(Scan),
    Data(u64),
    Chunks(Chunks),
}

impl From<Body> for Place {
    fn from(body: Body) -> Self {
        match body {
            Body::Length(0) => Self::Head(Scan::default()),
            Body::Length(length) | Body::Large(Large { length, .. }) => Self::Data(length),
            Body::Chunked => Self::Chunks(Chunks::START),
        }
    }
}

impl Default for Framing {
    fn default() -> Self {
        Self {
            place: Place::Head(Scan::default()),
            requests: 0,
            large: None,
        }
    }
}

impl Framing {
    /// Whole heads that were let through, or passed over.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Whether the next byte is the first of a head.
    pub fn is_between(&self) -> bool {
        matches!(self.place, Place::Head(_))
    }

    /// A whole request, of a head alone, that others answer: it is not given on.
    pub fn pass_over(&mut self) {
        self.requests += 1;
    }

    /// Goes on in `bytes`: how many of them may be given on, and what was found there. The others are the beginning of a
    /// head, or come behind what was found; those of a head come again, with more behind them, at the next call.
    pub fn go_on(&mut self, bytes: &[u8]) -> (usize, Found) {
        let mut at = 0;
        loop {
            match self.pass(&bytes[at..]) {
                Ok(0) => return (at, Found::Nothing),
                Ok(len) => at += len,
                Err(fault) => return (at, Found::Fault(fault)),
            }
            let is_partial = |large: &Large| ((bytes.len() - at) as u64) < large.length;
            // One that is here whole might as well be given on; and so none that is found has more behind it.
            if let Some(large) = self.large.take().filter(is_partial) {
                self.place = Place::Head(Scan::default());
                return (at, Found::Large(large));
            }
        }
    }

    /// Passes one head, or what there is of one body; 0 bytes when there is neither.
    pub(super) fn pass(&mut self, bytes: &[u8]) -> Result<usize, Fault> {
        match &mut self.place {
            Place::Head(scan) => {
                let Some((len, body)) = scan.go_on(bytes)? else {
                    return Ok(0);
                };
                self.requests += 1;
                if let Body::Large(large) = body {
                    self.large = Some(large.behind(len));
                }
                self.place = body.into();
                Ok(len)
            }
            Place::Data(left) => {
                let len = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                self.place = Body::Length(*left - len as u64).into();
                Ok(len)
            }
            Place::Chunks(chunks) => {
                let (len, ended) = chunks.go_on(bytes)?;
                if ended {
                    self.place = Place::Head(Scan::default());
                }
                Ok(len)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_body_is_found_unless_all_of_it_is_there() {
        let head = b"PUT /k HTTP/1.1\r\nHost: t\r\nContent-Length: 300000\r\n\r\n";
        for there in [0, 1, 299_999, 300_000, 300_001] {
            let bytes = [&head[..], &vec![b'x'; there]].concat();
            let (passed, found) = Framing::default().go_on(&bytes);
            if there < 300_000 {
                assert!(matches!(found, Found::Large(large) if large.length == 300_000));
                assert_eq!(passed, head.len());
            } else {
                assert_eq!((passed, found), (head.len() + 300_000, Found::Nothing));
            }
        }
    }
}
