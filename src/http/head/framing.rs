//! Where in what a client sends each request begins and ends: the framing of a connection, from its first byte to its last.
//!
//! Follows heads and bodies by rules so strict that no recipient can read them in two ways, and lets through only what it
//! understood. hyper, which parses the same bytes but for some fields, then sees the same message boundaries: no request can be
//! smuggled in a body, and none behind an error is ever seen. Looks at no byte of a body's data.

use crate::http::body::chunks::Chunks;
use crate::http::head::raw::{Body, FramingError, Passed, Scan};

/// The framing of one connection, from the first byte of a request on.
#[derive(Debug, Default)]
pub struct Framing {
    part: Part,
    heads: u64,
    /// A log tells of the client's program, and of the page that led to a request.
    tells_of_client: bool,
}

#[derive(Debug)]
enum Part {
    Head(Scan),
    Data(u64),
    Chunks(Chunks),
}

impl Default for Part {
    fn default() -> Self {
        Self::Head(Scan::default())
    }
}

impl From<Body> for Part {
    fn from(body: Body) -> Self {
        match body {
            Body::Length(0) => Self::default(),
            Body::Length(length) => Self::Data(length),
            Body::Chunked => Self::Chunks(Chunks::START),
        }
    }
}

impl Framing {
    /// One that keeps fields which only a log tells, if that `tells_of_client`.
    pub fn new(tells_of_client: bool) -> Self {
        Self {
            tells_of_client,
            ..Self::default()
        }
    }

    /// Follows the framing through `bytes`. Of those that are passed, what is kept then lies at their beginning, to be given on: how many that are,
    /// and where those begin that are not passed; and the error there, if there is one. Those are the beginning of a head, and
    /// come again, with more behind them, at the next call.
    pub fn feed(&mut self, bytes: &mut [u8]) -> (usize, usize, Option<FramingError>) {
        let (mut kept, mut at) = (0, 0);
        loop {
            match self.pass(&mut bytes[at..]) {
                Ok(Passed { len: 0, .. }) => return (kept, at, None),
                Ok(passed) => {
                    if kept < at {
                        bytes.copy_within(at..at + passed.kept, kept);
                    }
                    kept += passed.kept;
                    at += passed.len;
                }
                Err(error) => return (kept, at, Some(error)),
            }
        }
    }

    /// Whole heads that were passed.
    pub fn heads(&self) -> u64 {
        self.heads
    }

    /// Passes one head, or what there is of one body; no bytes when there is neither.
    pub fn pass(&mut self, bytes: &mut [u8]) -> Result<Passed, FramingError> {
        let len = match &mut self.part {
            Part::Head(scan) => {
                let Some((passed, body)) = scan.feed(bytes, self.tells_of_client)? else {
                    return Ok(Passed::default());
                };
                self.part = body.into();
                self.heads += 1;
                return Ok(passed);
            }
            Part::Data(left) => {
                let len = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                self.part = Body::Length(*left - len as u64).into();
                len
            }
            Part::Chunks(chunks) => {
                let (len, ended) = chunks.feed(bytes)?;
                if ended {
                    self.part = Part::default();
                }
                len
            }
        };
        Ok(Passed { len, kept: len })
    }
}
