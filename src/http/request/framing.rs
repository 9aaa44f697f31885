//! Where in what a client sends each request begins and ends: the framing of a connection, from its first byte to its last.
//!
//! Follows heads and bodies by rules so strict that no recipient can read them in two ways, and lets through only what it
//! understood. hyper, which parses the same bytes, then sees the same message boundaries: no request can be smuggled in a
//! body, and none behind an error is ever seen. Looks at no byte of a body's data.

use crate::http::request::chunks::Chunks;
use crate::http::request::head::{Body, FramingError, Scan};

/// The framing of one connection, from the first byte of a request on.
#[derive(Debug, Default)]
pub struct Framing {
    place: Place,
    heads: u64,
}

#[derive(Debug)]
enum Place {
    Head(Scan),
    Data(u64),
    Chunks(Chunks),
}

impl Default for Place {
    fn default() -> Self {
        Self::Head(Scan::default())
    }
}

impl From<Body> for Place {
    fn from(body: Body) -> Self {
        match body {
            Body::Length(0) => Self::default(),
            Body::Length(length) => Self::Data(length),
            Body::Chunked => Self::Chunks(Chunks::START),
        }
    }
}

impl Framing {
    /// Goes on in `bytes`: how many of them may be given on, and the error behind those, if there is one. The others are
    /// the beginning of a head, and come again, with more behind them, at the next call.
    pub fn go_on(&mut self, bytes: &[u8]) -> (usize, Option<FramingError>) {
        let mut at = 0;
        loop {
            match self.pass(&bytes[at..]) {
                Ok(0) => return (at, None),
                Ok(len) => at += len,
                Err(error) => return (at, Some(error)),
            }
        }
    }

    /// Whole heads that were passed.
    pub fn heads(&self) -> u64 {
        self.heads
    }

    /// Passes one head, or what there is of one body; 0 bytes when there is neither.
    pub(in crate::http) fn pass(&mut self, bytes: &[u8]) -> Result<usize, FramingError> {
        match &mut self.place {
            Place::Head(scan) => {
                let Some((len, body)) = scan.go_on(bytes)? else {
                    return Ok(0);
                };
                self.place = body.into();
                self.heads += 1;
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
                    self.place = Place::default();
                }
                Ok(len)
            }
        }
    }
}
