//! Compression of answers: zstd and gzip, a piece at a time on the compute threads.
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
use zstd::stream::write::Encoder as ZstdEncoder;

use crate::http::head::accept::content_coding;
use crate::store::{BlockingPool, Error, Object};

/// How much of a value is compressed in one job.
const PIECE: usize = 256 << 10;

enum Encoder {
    Zstd(ZstdEncoder<'static, Vec<u8>>),
    Gzip(GzEncoder<Vec<u8>>),
}

/// A value being compressed.
struct Work {
    object: Arc<Object>,
    offset: u64,
    encoder: Option<Encoder>,
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
    pub fn new(object: Arc<Object>, coding: Coding, compute: BlockingPool) -> Result<Self, Error> {
        let encoder = match coding {
            Coding::Zstd => {
                Encoder::Zstd(ZstdEncoder::new(Vec::new(), 3).map_err(Error::failed("compress"))?)
            }
            Coding::Gzip => {
                Encoder::Gzip(GzEncoder::new(Vec::new(), flate2::Compression::default()))
            }
        };
        let work = Work {
            object,
            offset: 0,
            encoder: Some(encoder),
        };
        Ok(Self {
            compute,
            work: Some(work),
            job: None,
            first: None,
        })
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
                let rest = encoder.finish()?;
                return Ok((self, rest));
            }
            let n = self
                .object
                .read_blocking(self.offset, &mut piece[..wanted])?;
            if n == 0 {
                return Err(Error::Truncated);
            }
            self.offset += n as u64;
            let bytes = encoder.encode(&piece[..n])?;
            self.encoder = Some(encoder);
            if !bytes.is_empty() {
                return Ok((self, bytes));
            }
        }
    }
}

impl Encoder {
    fn encode(&mut self, piece: &[u8]) -> Result<Vec<u8>, Error> {
        match self {
            Self::Zstd(encoder) => {
                encoder
                    .write_all(piece)
                    .map_err(Error::failed("compress"))?;
                Ok(std::mem::take(encoder.get_mut()))
            }
            Self::Gzip(encoder) => {
                encoder
                    .write_all(piece)
                    .map_err(Error::failed("compress"))?;
                Ok(std::mem::take(encoder.get_mut()))
            }
        }
    }

    fn finish(self) -> Result<Vec<u8>, Error> {
        match self {
            Self::Zstd(encoder) => encoder.finish().map_err(Error::failed("compress")),
            Self::Gzip(encoder) => encoder.finish().map_err(Error::failed("compress")),
        }
    }
}

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
