//! Compression of answers by gzip, a piece at a time on the compute threads.
//!
//! Between two pieces the encoder rests with the body, so a client that reads slowly holds memory for one piece and no
//! thread.

use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use flate2::write::GzEncoder;
use hyper::header::HeaderMap;

use crate::http::head::accept::content_coding;
use crate::store::{BlockingPool, Error, Object};

/// How much of a value is compressed in one job.
const PIECE: usize = 256 << 10;

/// A value being compressed.
struct Work {
    object: Arc<Object>,
    offset: u64,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

type Job = Pin<Box<dyn Future<Output = Result<(Work, Vec<u8>), Error>>>>;

/// A value as it is sent in a coding.
pub struct Encoded {
    compute: BlockingPool,
    work: Option<Work>,
    job: Option<Job>,
    /// Compressed, and not asked for yet.
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

    /// Whether its first bytes are known.
    pub fn is_resident(&self) -> bool {
        self.first.is_some()
    }

    /// Compresses its first bytes, which [`Encoded::poll_piece`] gives then.
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

impl std::fmt::Debug for Encoded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoded").finish_non_exhaustive()
    }
}

impl Work {
    /// Compresses until there is something to send.
    fn step(mut self) -> Result<(Self, Vec<u8>), Error> {
        let mut piece = vec![0; PIECE];
        loop {
            let left = usize::try_from(self.object.meta().len - self.offset).unwrap_or(PIECE);
            let wanted = left.min(PIECE);
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

/// Values shorter than this are sent as they are: the coding would save less than it costs.
pub const MIN_COMPRESSED: u64 = 1 << 10;

/// The content coding that the server can apply.
pub const GZIP: &str = "gzip";

/// Whether the client likes gzip better than no coding.
pub fn takes_gzip(headers: &HeaderMap) -> bool {
    content_coding(headers, &[GZIP]).is_some()
}

/// The entity tag of the value of `etag` in gzip: another representation has another tag (RFC 9110, 8.8.3.3).
pub fn gzip_tag(etag: &str) -> String {
    format!("{}-{GZIP}\"", etag.trim_end_matches('"'))
}
