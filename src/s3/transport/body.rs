//! The body of a request to the store: whole, or as it comes.
//!
//! A body that comes piece by piece goes through a short queue with a task at each end, so the client sends no faster
//! than the store takes. It is proved whole by a checksum behind the last piece (`aws-chunked`) or, where its SHA-256
//! is known beforehand, by the signature. Either way [`BodyFraming`] holds the end back until the upload is to be
//! published: without it the store has nothing to publish. A body whose feed is dropped before its end is cut off: the
//! connection closes, and the store sees that it is not whole.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use crc64fast_nvme::Digest;
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::value::Error;

/// Bytes that may wait: two of the longest runs that are received at a time.
const FULL: usize = 128 << 10;

/// The length of all pieces but the last. Their heads are known beforehand, so nothing is gathered for them.
const PIECE: u64 = 1 << 20;

/// The field of the checksum.
pub const CHECKSUM: &str = "x-amz-checksum-crc64nvme";

/// The length of the trailer, with the piece of no length before it: the checksum takes 12 characters.
const TRAILER_LEN: u64 = 3 + CHECKSUM.len() as u64 + 1 + 12 + 4;

/// The body of a request to the store: all of it, in memory, or the bytes of a queue as they come.
pub type SendBody = Either<Full<Bytes>, BodyReceiver>;

/// A body that was given up before its end.
#[derive(Debug, thiserror::Error)]
#[error("the upload was given up")]
pub struct UploadAbandoned;

/// The end of an upload that gives bytes. Dropped before all have been given, it cuts the body off.
#[derive(Debug)]
pub struct BodySender {
    queue: UnboundedSender<Bytes>,
    /// A permit for each byte that may wait.
    room: Arc<Semaphore>,
}

/// The end that takes them, the body of a request; one that is sent again shares the queue.
#[derive(Clone, Debug)]
pub struct BodyReceiver {
    queue: Arc<Mutex<UnboundedReceiver<Bytes>>>,
    room: Arc<Semaphore>,
    is_taken: Arc<AtomicBool>,
    /// Bytes of the body that are to come.
    left: u64,
}

/// Both ends of a queue for a body of `len` bytes.
pub fn feed(len: u64) -> (BodySender, BodyReceiver) {
    let (queue, taker) = unbounded_channel();
    let room = Arc::new(Semaphore::new(FULL));
    let fed = BodyReceiver {
        queue: Arc::new(Mutex::new(taker)),
        room: Arc::clone(&room),
        is_taken: Arc::default(),
        left: len,
    };
    (BodySender { queue, room }, fed)
}

impl BodySender {
    /// Gives these bytes, once there is room for them.
    pub async fn push(&self, data: Bytes) {
        if let Ok(room) = self.room.acquire_many(permits(&data)).await {
            room.forget();
        }
        // A queue without a receiver means that the request has ended, and says why.
        let _ = self.queue.send(data);
    }

    /// Gives the last bytes, which are few.
    pub fn end(self, last: Bytes) {
        let _ = self.queue.send(last);
    }
}

impl BodyReceiver {
    /// True once some bytes have been taken: another body would lack them.
    pub fn is_taken(&self) -> bool {
        self.is_taken.load(Ordering::Relaxed)
    }
}

impl Body for BodyReceiver {
    type Data = Bytes;
    type Error = UploadAbandoned;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadAbandoned>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let next = self.queue.lock().poll_recv(cx);
        let Some(data) = ready!(next) else {
            return Poll::Ready(Some(Err(UploadAbandoned)));
        };
        self.is_taken.store(true, Ordering::Relaxed);
        self.room.add_permits(permits(&data) as usize);
        self.left = self.left.saturating_sub(data.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// The permits that `data` takes: one a byte, and at most all that there are.
fn permits(data: &Bytes) -> u32 {
    u32::try_from(data.len().min(FULL)).unwrap_or(u32::MAX)
}

/// The framing of a body that is sent piece by piece.
pub struct BodyFraming {
    /// Bytes of the value that are still to be framed.
    left: u64,
    kind: FramingKind,
}

enum FramingKind {
    Pieces {
        /// Bytes that the piece which has begun still lacks.
        piece: u64,
        checksum: Digest,
    },
    Plain {
        sha256: [u8; 32],
        /// The last byte.
        last: Bytes,
    },
}

impl BodyFraming {
    /// The framing of `len` bytes: plain where their digest is known, else in pieces.
    pub fn new(len: u64, sha256: Option<[u8; 32]>) -> Self {
        let kind = match sha256 {
            Some(sha256) if len > 0 => FramingKind::Plain {
                sha256,
                last: Bytes::new(),
            },
            _ => FramingKind::Pieces {
                piece: 0,
                checksum: Digest::new(),
            },
        };
        Self { left: len, kind }
    }

    /// Bytes of the value that are still to be framed.
    pub fn remaining(&self) -> u64 {
        self.left
    }

    /// The length of the body, before any of it is framed.
    pub fn body_len(&self) -> u64 {
        let len = self.left;
        match self.kind {
            FramingKind::Plain { .. } => len,
            FramingKind::Pieces { .. } => {
                let (full, rest) = (len / PIECE, len % PIECE);
                let last = if rest > 0 { framed_len(rest) } else { 0 };
                full * framed_len(PIECE) + last + TRAILER_LEN
            }
        }
    }

    /// The digest of the body, where the signature proves it whole.
    pub fn sha256(&self) -> Option<&[u8; 32]> {
        match &self.kind {
            FramingKind::Plain { sha256, .. } => Some(sha256),
            FramingKind::Pieces { .. } => None,
        }
    }

    /// The runs of the body that `data`, the next bytes of the value, are.
    pub fn frame(&mut self, mut data: Bytes) -> Result<Vec<Bytes>, Error> {
        let mut runs = Vec::new();
        let len = data.len() as u64;
        self.left = self.left.checked_sub(len).ok_or(Error::TooLarge)?;
        match &mut self.kind {
            FramingKind::Plain { last, .. } => {
                if self.left == 0 && last.is_empty() && len > 0 {
                    *last = data.split_off(data.len() - 1);
                }
                if !data.is_empty() {
                    runs.push(data);
                }
            }
            FramingKind::Pieces { piece, checksum } => {
                checksum.write(&data);
                let mut to_come = self.left + len;
                while !data.is_empty() {
                    if *piece == 0 {
                        *piece = to_come.min(PIECE);
                        runs.push(format!("{piece:x}\r\n").into());
                    }
                    let room = usize::try_from(*piece).unwrap_or(usize::MAX);
                    let part = data.split_to(room.min(data.len()));
                    let taken = part.len() as u64;
                    runs.push(part);
                    *piece -= taken;
                    to_come -= taken;
                    if *piece == 0 {
                        runs.push(Bytes::from_static(b"\r\n"));
                    }
                }
            }
        }
        Ok(runs)
    }

    /// The end of the body, once all bytes have been pushed.
    pub fn end(self) -> Result<Bytes, Error> {
        if self.left > 0 {
            return Err(Error::Incomplete);
        }
        Ok(match self.kind {
            FramingKind::Plain { last, .. } => last,
            FramingKind::Pieces { checksum, .. } => {
                let checksum = BASE64_STANDARD.encode(checksum.sum64().to_be_bytes());
                format!("0\r\n{CHECKSUM}:{checksum}\r\n\r\n").into()
            }
        })
    }
}

/// The length of a piece with its head and its end.
fn framed_len(piece: u64) -> u64 {
    let digits = u64::from(piece.ilog2() / 4 + 1);
    digits + 2 + piece + 2
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use http_body_util::BodyExt;
    use proptest::prelude::*;

    use super::*;
    use crate::sigv4::chunks::{ChunkReader, Framing, UNSIGNED_TRAILER};

    #[tokio::test]
    async fn bytes_come_in_order_and_the_giver_waits_when_it_is_full() {
        let (feed, taker) = feed(FULL as u64 + 2);
        feed.push(Bytes::from(vec![1; FULL])).await;
        let mut full = Box::pin(feed.push(Bytes::from_static(b"2")));
        assert!((&mut full).now_or_never().is_none());
        assert!(!taker.is_taken());
        let mut body = taker.clone();
        assert_eq!(
            body.frame()
                .await
                .unwrap()
                .unwrap()
                .into_data()
                .unwrap()
                .len(),
            FULL
        );
        assert!(taker.is_taken());
        full.await;
        feed.end(Bytes::from_static(b"3"));
        for expected in ["2", "3"] {
            let found = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!(found, expected);
        }
        assert!(body.frame().await.is_none());
    }

    #[tokio::test]
    async fn a_feed_that_is_dropped_cuts_the_body_off() {
        let (feed, mut body) = feed(2);
        feed.push(Bytes::from_static(b"1")).await;
        drop(feed);
        assert!(body.frame().await.unwrap().is_ok());
        assert!(body.frame().await.unwrap().is_err());
    }

    /// The body of a value that is pushed in runs of `run` bytes.
    fn body(value: &[u8], run: usize, sha256: Option<[u8; 32]>) -> Vec<u8> {
        let mut framing = BodyFraming::new(value.len() as u64, sha256);
        let len = framing.body_len();
        let mut body = Vec::new();
        for data in value.chunks(run) {
            let runs = framing.frame(Bytes::copy_from_slice(data)).unwrap();
            body.extend_from_slice(&runs.concat());
        }
        assert!((body.len() as u64) < len, "the end is held back");
        body.extend_from_slice(&framing.end().unwrap());
        assert_eq!(body.len() as u64, len);
        body
    }

    /// The value of `len` bytes in the pieces of `body`, and its trailer.
    fn unframed(body: Vec<u8>, len: usize) -> (Vec<u8>, String) {
        let framing = Framing::of(UNSIGNED_TRAILER).unwrap();
        let mut reader = ChunkReader::new(framing, len as u64, None);
        let (mut value, mut body) = (Vec::new(), Bytes::from(body));
        while let Some(data) = reader.read(&mut body).unwrap() {
            value.extend_from_slice(&data);
        }
        let trailers = reader
            .end()
            .unwrap()
            .map(|(name, value)| format!("{name}:{value}"));
        (value, trailers.collect())
    }

    #[test]
    fn the_checksum_is_the_published_one() {
        // The check value of CRC-64/NVME.
        let (value, trailer) = unframed(body(b"123456789", 4, None), 9);
        assert_eq!(value, b"123456789");
        let check = BASE64_STANDARD.encode(0xAE8B_1486_0A79_9888_u64.to_be_bytes());
        assert_eq!(trailer, format!("x-amz-checksum-crc64nvme:{check}"));
        let (value, _) = unframed(body(b"", 1, None), 0);
        assert!(value.is_empty());
    }

    #[test]
    fn more_and_less_than_was_said_are_refused() {
        for sha256 in [None, Some([0; 32])] {
            let mut framing = BodyFraming::new(2, sha256);
            framing.frame(Bytes::from_static(b"1")).unwrap();
            let more = framing.frame(Bytes::from_static(b"23"));
            assert!(matches!(more, Err(Error::TooLarge)));
            let mut framing = BodyFraming::new(2, sha256);
            framing.frame(Bytes::from_static(b"1")).unwrap();
            assert!(matches!(framing.end(), Err(Error::Incomplete)));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn a_body_has_the_length_it_was_said_to_have(
            len in prop_oneof![1..300_usize, 1_048_570..1_048_580_usize, 2_097_150..2_100_000_usize],
            run in 1..2_000_000_usize,
        ) {
            let value: Vec<u8> = (0..=250_u8).cycle().take(len).collect();
            let run = run.max(len / 1000);
            prop_assert_eq!(unframed(body(&value, run, None), len).0, &value[..]);
            prop_assert_eq!(body(&value, run, Some([1; 32])), value);
        }
    }
}
