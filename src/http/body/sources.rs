//! The sources of a response's body beside memory: a part of a file, and a value compressed by gzip.
//!
//! Each holds one piece at a time, whatever the value's size, and no thread while the client takes nothing. A window of
//! a file is brought into memory on the disk threads before a reactor touches it; a value is compressed on the compute
//! threads.

use std::io::Write;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use flate2::write::GzEncoder;
use futures_util::future::OptionFuture;
use futures_util::stream::{Peekable, Stream, StreamExt as _, try_unfold};

use crate::http::piece::Region;
use crate::store::{BlockingPool, Error, Object};

/// The bytes of a file that are brought into memory at once, and sent as one region.
const WINDOW: usize = 1 << 20;

/// The most bytes of a file in one frame.
const FRAME: usize = 128 << 10;

/// A part of a file.
pub struct FileBody {
    object: Arc<Object>,
    next: u64,
    end: u64,
    /// The next window is known to lie in memory.
    is_resident: bool,
    /// The next window, while it is brought into memory.
    coming: Option<Coming<()>>,
    /// The next bytes, while they are read.
    reading: Option<Coming<Bytes>>,
}

type Coming<T> = Pin<Box<dyn Future<Output = Result<T, Error>>>>;

impl FileBody {
    pub fn new(object: Arc<Object>, range: Range<u64>) -> Self {
        Self {
            object,
            next: range.start,
            end: range.end,
            is_resident: false,
            coming: None,
            reading: None,
        }
    }

    /// The number of bytes that are left.
    pub fn remaining(&self) -> u64 {
        self.end - self.next
    }

    /// True where the next window lies in memory.
    pub fn is_resident(&mut self) -> bool {
        if self.coming.is_none() && !self.is_resident {
            let len = self.len(WINDOW) as u64;
            self.is_resident = self.object.is_resident(self.next, len);
        }
        self.is_resident
    }

    /// Brings the next window into memory.
    pub fn poll_resident(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.is_resident() {
            return Poll::Ready(Ok(()));
        }
        let len = self.len(WINDOW) as u64;
        let begin = || Box::pin(self.object.make_resident(self.next, len)) as Coming<()>;
        let coming = self.coming.get_or_insert_with(begin);
        let come = ready!(coming.as_mut().poll(cx));
        self.coming = None;
        self.is_resident = come.is_ok();
        Poll::Ready(come)
    }

    /// The next window, once it lies in memory; `None` at the end.
    pub fn poll_region(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Region, Error>>> {
        let len = self.len(WINDOW);
        if len == 0 {
            return Poll::Ready(None);
        }
        ready!(self.poll_resident(cx))?;
        let region = Region {
            file: self.object.shared(),
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
        (self.is_resident, self.coming) = (false, None);
    }

    /// The length of the next piece, at most `most`.
    fn len(&self, most: usize) -> usize {
        usize::try_from(self.remaining()).unwrap_or(most).min(most)
    }
}

/// The bytes of a value that are compressed in one job.
const COMPRESSED_AT_ONCE: usize = 256 << 10;

/// The state of a compression between two jobs.
struct Compression {
    object: Arc<Object>,
    offset: u64,
    encoder: GzEncoder<Vec<u8>>,
}

type CompressedPieces = Pin<Box<dyn Stream<Item = Result<Bytes, Error>>>>;

/// A value compressed by gzip. Between two pieces the encoder rests with the body.
pub struct Encoded(Peekable<CompressedPieces>);

impl Encoded {
    pub fn new(object: Arc<Object>, compute: BlockingPool) -> Self {
        let work = Compression {
            object,
            offset: 0,
            encoder: GzEncoder::new(Vec::new(), flate2::Compression::default()),
        };
        let pieces = try_unfold(Some(work), move |work| {
            let step = work.map(|work| compute.spawn(move || work.step()));
            async { OptionFuture::from(step).await.transpose() }
        });
        Self((Box::pin(pieces) as CompressedPieces).peekable())
    }

    /// Compresses its first bytes; [`Encoded::poll_piece`] then gives them.
    pub fn poll_resident(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        match ready!(Pin::new(&mut self.0).poll_peek(cx)) {
            Some(Err(_)) => self
                .poll_piece(cx)
                .map(|failed| failed.transpose().map(drop)),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// The next bytes, or `None` at the end.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        self.0.poll_next_unpin(cx)
    }
}

impl Compression {
    /// Compresses until there is something to send. At the end no work is left.
    fn step(mut self) -> Result<(Bytes, Option<Self>), Error> {
        let mut piece = vec![0; COMPRESSED_AT_ONCE];
        loop {
            let left = usize::try_from(self.object.meta.len - self.offset);
            let wanted = left.map_or(COMPRESSED_AT_ONCE, |left| left.min(COMPRESSED_AT_ONCE));
            if wanted == 0 {
                let rest = self.encoder.finish().map_err(Error::failed("compress"))?;
                return Ok((rest.into(), None));
            }
            let n = self
                .object
                .read_blocking(self.offset, &mut piece[..wanted])?;
            self.offset += n as u64;
            let written = self.encoder.write_all(&piece[..n]);
            written.map_err(Error::failed("compress"))?;
            let bytes = std::mem::take(self.encoder.get_mut());
            if !bytes.is_empty() {
                return Ok((bytes.into(), Some(self)));
            }
        }
    }
}
