//! The requests that a test writes: heads, and bodies by their length or in chunks.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, Method, Request, Uri};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::time::timeout;

/// Fields of a connection, which HTTP/2 has not (RFC 9113, section 8.2.2).
const OF_HTTP1: [&str; 2] = ["keep-alive", "proxy-connection"];

/// How long a test that was answered early may go on writing.
const LINGER: Duration = Duration::from_secs(1);

/// Bytes of a body that are sent on at once.
const PIECE: usize = 16 << 10;

/// What the test writes.
pub(super) struct Input {
    near: OwnedReadHalf,
    received: BytesMut,
    has_ended: bool,
    read: u64,
    passed_on: Arc<AtomicU64>,
}

/// A request without its body.
pub(super) struct Head {
    pub(super) request: Request<()>,
    pub(super) body: Body,
    /// The test wants no more than this one.
    pub(super) closes: bool,
}

/// What is left of a body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    Left(u64),
    /// Chunks; of the one that has begun so much is left.
    Chunks(u64),
    /// The trailers come.
    Trailers,
}

/// A part of a body.
pub(super) enum Part {
    Data(Bytes),
    Trailers(HeaderMap),
    End,
}

impl Input {
    /// Says in `passed_on` how many bytes were.
    pub(super) fn new(near: OwnedReadHalf, passed_on: Arc<AtomicU64>) -> Self {
        Self {
            near,
            received: BytesMut::new(),
            has_ended: false,
            read: 0,
            passed_on,
        }
    }

    /// All that was read has been sent on, but for the beginning of what is not whole.
    pub(super) fn has_passed_on(&self) {
        self.passed_on.store(self.read, Ordering::Release);
    }

    /// The socket.
    pub(super) fn near(&self) -> &UnixStream {
        self.near.as_ref()
    }

    /// What is read from now on is sent on as it is.
    pub(super) fn passes_all_on(&self) {
        self.passed_on.store(u64::MAX, Ordering::Release);
    }

    /// The next head; `None` when the test ends its side. Fails, and takes nothing, where HTTP/2 has no words for it.
    pub(super) async fn head(&mut self, scheme: &Scheme) -> io::Result<Option<Head>> {
        loop {
            let mut fields = vec![httparse::EMPTY_HEADER; 1 << 10];
            let mut parsed = httparse::Request::new(&mut fields);
            match parsed.parse(&self.received).map_err(untold)? {
                httparse::Status::Complete(len) => {
                    let head = Head::of(&parsed, scheme)?;
                    self.received.advance(len);
                    return Ok(Some(head));
                }
                httparse::Status::Partial if self.more().await? => {}
                httparse::Status::Partial => return Ok(None),
            }
        }
    }

    /// Takes as much as the kernel would of a test that goes on writing.
    pub(super) async fn drop_some(&mut self) -> io::Result<()> {
        const MOST: u64 = 4 << 20;
        let until = self.read + MOST;
        let dropping = async {
            while self.read < until && self.more().await? {
                self.received.clear();
            }
            Ok(())
        };
        timeout(LINGER, dropping).await.unwrap_or(Ok(()))
    }

    /// What was received and not taken.
    pub(super) fn received(&self) -> &[u8] {
        &self.received
    }

    /// The socket, for what is not taken.
    pub(super) fn into_near(self) -> OwnedReadHalf {
        self.near
    }

    /// The next part of `body`, not before all of it has come.
    pub(super) async fn part(&mut self, body: &mut Body) -> io::Result<Part> {
        match body {
            Body::Left(0) => Ok(Part::End),
            Body::Left(left) => Ok(Part::Data(self.data(left).await?)),
            Body::Chunks(0) => {
                let line = self.line().await?;
                let digits = line.split(|&byte| byte == b';').next().unwrap_or_default();
                let digits = str::from_utf8(digits).map_err(untold)?;
                let size = u64::from_str_radix(digits.trim(), 16).map_err(untold)?;
                if size == 0 {
                    *body = Body::Trailers;
                    return self.trailers(body).await;
                }
                // Each chunk has its CRLF.
                *body = Body::Chunks(size + 2);
                self.chunk(body).await
            }
            Body::Chunks(_) => self.chunk(body).await,
            Body::Trailers => self.trailers(body).await,
        }
    }

    async fn chunk(&mut self, body: &mut Body) -> io::Result<Part> {
        let Body::Chunks(left) = body else {
            return Ok(Part::End);
        };
        let mut of_data = *left - 2;
        let data = self.data(&mut of_data).await?;
        *left = of_data + 2;
        if of_data == 0 {
            *left = 0;
            self.line().await?;
        }
        Ok(Part::Data(data))
    }

    async fn trailers(&mut self, body: &mut Body) -> io::Result<Part> {
        let mut trailers = HeaderMap::new();
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                break;
            }
            let mut halves = line.splitn(2, |&byte| byte == b':');
            let (name, value) = (halves.next().unwrap_or_default(), halves.next());
            let value = value.unwrap_or_default().trim_ascii();
            append(&mut trailers, name, value)?;
        }
        *body = Body::Left(0);
        if trailers.is_empty() {
            return Ok(Part::End);
        }
        Ok(Part::Trailers(trailers))
    }

    /// Some of the next `left` bytes.
    async fn data(&mut self, left: &mut u64) -> io::Result<Bytes> {
        if self.received.is_empty() && !self.more().await? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let len = usize::try_from(*left).unwrap_or(PIECE);
        let len = len.min(PIECE).min(self.received.len());
        *left -= len as u64;
        Ok(self.received.split_to(len).freeze())
    }

    /// The next line, without its end.
    async fn line(&mut self) -> io::Result<Bytes> {
        loop {
            let end = self.received.windows(2).position(|two| two == b"\r\n");
            if let Some(end) = end {
                let line = self.received.split_to(end).freeze();
                self.received.advance(2);
                return Ok(line);
            }
            if !self.more().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Reads once; false at the end.
    async fn more(&mut self) -> io::Result<bool> {
        if !self.has_ended {
            self.has_passed_on();
            self.received.reserve(PIECE);
            let len = self.near.read_buf(&mut self.received).await?;
            self.read += len as u64;
            self.has_ended = len == 0;
        }
        Ok(!self.has_ended)
    }
}

impl Head {
    fn of(parsed: &httparse::Request<'_, '_>, scheme: &Scheme) -> io::Result<Self> {
        let mut headers = HeaderMap::new();
        for field in &*parsed.headers {
            append(&mut headers, field.name.as_bytes(), field.value)?;
        }
        let is_once = |name| headers.get_all(name).iter().count() < 2;
        let has_both =
            headers.contains_key(CONTENT_LENGTH) && headers.contains_key(TRANSFER_ENCODING);
        let framing = [&HOST, &CONTENT_LENGTH, &TRANSFER_ENCODING];
        let is_framed_once = framing.into_iter().all(is_once) && !has_both;
        if parsed.version != Some(1) || headers.contains_key(UPGRADE) || !is_framed_once {
            return Err(untold("of HTTP/1"));
        }
        let host = headers.remove(HOST).ok_or_else(|| untold("no Host"))?;
        let target = Uri::builder()
            .scheme(scheme.clone())
            .authority(host.as_bytes());
        let target = target.path_and_query(parsed.path.unwrap_or_default());
        let target = target.build().map_err(untold)?;
        if target.path_and_query().map(PathAndQuery::as_str) != parsed.path {
            return Err(untold("a target with more than a path"));
        }
        let closes = headers.get_all(CONNECTION).iter().any(|options| {
            let mut options = options.as_bytes().split(|&byte| byte == b',');
            options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
        });
        headers.remove(CONNECTION);
        for name in OF_HTTP1 {
            headers.remove(name);
        }
        if headers.get(TE).is_some_and(|te| te != "trailers") {
            headers.remove(TE);
        }
        let body = match headers.remove(TRANSFER_ENCODING) {
            Some(coding) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => Body::Chunks(0),
            Some(_) => return Err(untold("a coding")),
            None => {
                let len = headers.get(CONTENT_LENGTH);
                let len = len.map_or(Ok("0"), HeaderValue::to_str).map_err(untold)?;
                // The library takes no longer ones.
                if len.len() > 19 || !len.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(untold("a length"));
                }
                Body::Left(len.parse().map_err(untold)?)
            }
        };
        let method = parsed.method.unwrap_or_default().as_bytes();
        let mut request = Request::new(());
        *request.method_mut() = Method::from_bytes(method).map_err(untold)?;
        *request.uri_mut() = target;
        *request.headers_mut() = headers;
        Ok(Self {
            request,
            body,
            closes,
        })
    }
}

fn append(headers: &mut HeaderMap, name: &[u8], value: &[u8]) -> io::Result<()> {
    let name = HeaderName::from_bytes(name).map_err(untold)?;
    headers.append(name, HeaderValue::from_bytes(value).map_err(untold)?);
    Ok(())
}

/// What cannot be told in HTTP/2, or not by this client.
fn untold<E: Into<Box<dyn std::error::Error + Send + Sync>>>(error: E) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}
