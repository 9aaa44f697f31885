//! Where in what a client sends each request begins and ends: the framing of a connection, from its first byte to its last.
//!
//! Follows heads and bodies on its own, by rules so strict that no recipient can read them in two ways, and lets through
//! only what it understood. So hyper, who parses the same bytes after it, finds every head where it was found here: none
//! can be smuggled in a body, and none behind a fault is ever seen. Promises to look at no byte of a body's data.

use super::chunks::Chunks;
use super::head::{Body, Fault, Scan};

/// The framing of one connection.
#[derive(Debug)]
pub struct Framing {
    place: Place,
    requests: u64,
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
            Body::Length(length) => Self::Data(length),
            Body::Chunked => Self::Chunks(Chunks::START),
        }
    }
}

impl Default for Framing {
    fn default() -> Self {
        Self {
            place: Place::Head(Scan::default()),
            requests: 0,
        }
    }
}

impl Framing {
    /// Whole heads that were let through.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Goes on in `bytes`: how many of them may be given on, and the fault that was found behind those, if any. The others
    /// are the beginning of a head; they come again, with more behind them, at the next call.
    pub fn go_on(&mut self, bytes: &[u8]) -> (usize, Result<(), Fault>) {
        let mut at = 0;
        loop {
            match self.pass(&bytes[at..]) {
                Ok(0) => return (at, Ok(())),
                Ok(len) => at += len,
                Err(fault) => return (at, Err(fault)),
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
