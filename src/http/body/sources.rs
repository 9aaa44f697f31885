//! The sources of a response's body beside memory: a part of a file, and a value compressed by gzip.
//!
//! Each holds one piece at a time, whatever the value's size, and no thread while the client takes nothing. A window of a file is
//! brought into memory on the disk threads before a reactor touches it; a value is compressed on the compute threads.

use std::io::Write;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use flate2::write::GzEncoder;

use crate::store::{BlockingPool, Descriptor, Error, Object};

/// The bytes of a file that are brought into memory at once, and sent as one region.
const WINDOW: usize = 1 << 20;

/// The most bytes of a file in one frame.
const FRAME: usize = 128 << 10;

/// Bytes of a file, to be sent from it.
#[derive(Debug)]
pub struct Region {
    /// The file.
    pub file: Descriptor,
    /// The place of the first byte.
    pub offset: u64,
    /// The length in bytes, never 0.
    pub len: usize,
}

impl Region {
    /// Removes its first `n` bytes, which have been sent.
    pub fn advance(&mut self, n: usize) {
        self.offset += n as u64;
        self.len -= n;
    }
}

/// A part of a file.
pub struct FileBody {
    object: Arc<Object>,
    next: u64,
    end: u64,
    window: Window,
    reading: Option<Reading>,
}

type Reading = Pin<Box<dyn Future<Output = Result<Bytes, Error>>>>;

/// The next window of a file, as far as the server knows whether it lies in memory.
enum Window {
    Unknown,
    Coming(Pin<Box<dyn Future<Output = Result<(), Error>>>>),
    Resident,
}

impl FileBody {
    pub fn new(object: Arc<Object>, range: Range<u64>) -> Self {
        Self {
            object,
            next: range.start,
            end: range.end,
            window: Window::Unknown,
            reading: None,
        }
    }

    /// The number of bytes that are left.
    pub fn remaining(&self) -> u64 {
        self.end - self.next
    }

    /// True where the next window lies in memory.
    pub fn is_resident(&mut self) -> bool {
        let is_unknown = matches!(self.window, Window::Unknown);
        if is_unknown && self.object.is_resident(self.next, self.len(WINDOW) as u64) {
            self.window = Window::Resident;
        }
        matches!(self.window, Window::Resident)
    }

    /// Brings the next window into memory.
    pub fn poll_resident(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while !self.is_resident() {
            if let Window::Coming(coming) = &mut self.window {
                let come = ready!(coming.as_mut().poll(cx));
                self.window = Window::Unknown;
                come?;
                self.window = Window::Resident;
            } else {
                let coming = self
                    .object
                    .make_resident(self.next, self.len(WINDOW) as u64);
                self.window = Window::Coming(Box::pin(coming));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The next window, once it lies in memory; `None` at the end.
    pub fn poll_region(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Region, Error>>> {
        let len = self.len(WINDOW);
        if len == 0 {
            return Poll::Ready(None);
        }
        ready!(self.poll_resident(cx))?;
        let region = Region {
            file: self.object.descriptor(),
            offset: self.next,
            len,
        };
        self.advance(len);
        Poll::Ready(Some(Ok(region)))
    }

    /// The next bytes, read at once where they lie in memory; `None` at the end.
    pub fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        let len = self.len(FRAME);
        if len == 0 {
            return Poll::Ready(None);
        }
        let bytes = if let Some(reading) = &mut self.reading {
            let read = ready!(reading.as_mut().poll(cx));
            self.reading = None;
            read?
        } else if let Some(bytes) = self.object.read_now(self.next, len) {
            bytes
        } else {
            self.reading = Some(Box::pin(self.object.read(self.next, len)));
            return self.poll_bytes(cx);
        };
        self.advance(bytes.len());
        Poll::Ready(Some(Ok(bytes)))
    }

    fn advance(&mut self, len: usize) {
        self.next += len as u64;
        self.window = Window::Unknown;
    }

    /// The length of the next piece, at most `most`.
    fn len(&self, most: usize) -> usize {
        usize::try_from(self.remaining()).unwrap_or(most).min(most)
    }
}

/// The bytes of a value that are compressed in one job.
const COMPRESSED_AT_ONCE: usize = 256 << 10;

/// The state of a compression between two jobs.
struct Work {
    object: Arc<Object>,
    offset: u64,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

type Job = Pin<Box<dyn Future<Output = Result<(Work, Vec<u8>), Error>>>>;

/// A value compressed by gzip. Between two pieces the encoder rests with the body.
pub struct Encoded {
    compute: BlockingPool,
    work: Option<Work>,
    job: Option<Job>,
    /// The first bytes, compressed before they are asked for.
    first: Option<Bytes>,
}

impl Encoded {
    pub fn new(object: Arc<Object>, compute: BlockingPool) -> Self {
        let encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
        let work = Work {
            object,
            offset: 0,
            encoder: Some(encoder),
        };
        Self {
            compute,
            work: Some(work),
            job: None,
            first: None,
        }
    }

    /// True where its first bytes are known.
    pub fn is_resident(&self) -> bool {
        self.first.is_some()
    }

    /// Compresses its first bytes; [`Encoded::poll_piece`] then gives them.
    pub fn poll_resident(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.first.is_none() {
            self.first = ready!(self.poll_piece(cx)).transpose()?;
        }
        Poll::Ready(Ok(()))
    }

    /// The next bytes, or `None` at the end.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        if let Some(work) = self.work.take().filter(|work| work.encoder.is_some()) {
            self.job = Some(Box::pin(self.compute.spawn(move || work.step())));
        }
        let Some(job) = &mut self.job else {
            return Poll::Ready(None);
        };
        let done = ready!(job.as_mut().poll(cx));
        self.job = None;
        Poll::Ready(Some(done.map(|(work, bytes)| {
            self.work = Some(work);
            bytes.into()
        })))
    }
}

impl Work {
    /// Compresses until there is something to send.
    fn step(mut self) -> Result<(Self, Vec<u8>), Error> {
        let mut piece = vec![0; COMPRESSED_AT_ONCE];
        loop {
            let left =
                usize::try_from(self.object.meta.len - self.offset).unwrap_or(COMPRESSED_AT_ONCE);
            let wanted = left.min(COMPRESSED_AT_ONCE);
            let Some(mut encoder) = self.encoder.take() else {
                return Ok((self, Vec::new()));
            };
            if wanted == 0 {
                let rest = encoder.finish().map_err(Error::failed("compress"))?;
                return Ok((self, rest));
            }
            let n = self
                .object
                .read_blocking(self.offset, &mut piece[..wanted])?;
            if n == 0 {
                return Err(Error::Truncated);
            }
            self.offset += n as u64;
            encoder
                .write_all(&piece[..n])
                .map_err(Error::failed("compress"))?;
            let bytes = std::mem::take(encoder.get_mut());
            self.encoder = Some(encoder);
            if !bytes.is_empty() {
                return Ok((self, bytes));
            }
        }
    }
}
