//! Bodies that come in chunks (`aws-chunked`): a line with the length of each, which may have its signature, and behind
//! the last one, which is empty, trailers, which may be signed too.
//!
//! ```text
//! 5;chunk-signature=<64 digits>\r\n      each signature covers the one before it, the first that of the head
//! value\r\n
//! 0;chunk-signature=<64 digits>\r\n
//! x-amz-checksum-crc32c:<base64>\r\n      where trailers are announced
//! x-amz-trailer-signature:<64 digits>\r\n
//! \r\n
//! ```
//!
//! The reader is pure: it is given the bytes as they come, gives on those of the value, and holds no more than a line.
//! What it has given on counts once the end has come: a signature stands before its chunk and is compared behind it.

use std::mem;

use bytes::{Buf, Bytes};
use sha2::{Digest, Sha256};

use super::{ALGORITHM, NOTHING, SigningKey, hex};

/// The payload of a body whose chunks are not signed, and that has trailers.
pub const UNSIGNED_TRAILER: &str = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";

/// The longest line, and the most of all trailers, in bytes.
const LONGEST: usize = 4096;

/// How the chunks of a body are framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    pub is_signed: bool,
    pub has_trailers: bool,
}

impl Framing {
    /// The framing of this payload, as `x-amz-content-sha256` names it.
    pub fn of(payload: &str) -> Option<Self> {
        let (is_signed, has_trailers) = match payload {
            UNSIGNED_TRAILER => (false, true),
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" => (true, false),
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" => (true, true),
            _ => return None,
        };
        Some(Self {
            is_signed,
            has_trailers,
        })
    }
}

/// The chain of signatures of a body.
#[derive(Clone, Debug)]
pub struct Chain {
    pub key: SigningKey,
    /// The time of the request, as it is signed.
    pub time: String,
    /// Its scope, as text.
    pub scope: String,
    /// The signature before, first that of the head.
    pub previous: String,
}

impl Chain {
    /// The text that the signature of the next chunk is of, whose bytes have this digest.
    pub fn of_chunk(&self, digest: &[u8]) -> String {
        self.text("PAYLOAD", &format!("{NOTHING}\n{}", hex(digest)))
    }

    /// The text that the signature of the trailers is of: a line each, as `name:value`.
    pub fn of_trailers(&self, lines: &str) -> String {
        self.text("TRAILER", &hex(&Sha256::digest(lines)))
    }

    fn text(&self, of: &str, digest: &str) -> String {
        let Self {
            time,
            scope,
            previous,
            ..
        } = self;
        format!("{ALGORITHM}-{of}\n{time}\n{scope}\n{previous}\n{digest}")
    }

    /// Goes on to the `signature` of `text`; false where it is not that.
    fn accepts(&mut self, text: &str, signature: String) -> bool {
        let is_right = self.key.verify(text, &signature);
        self.previous = signature;
        is_right
    }
}

/// What is wrong with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The framing.
    Malformed,
    /// A signature.
    Signature,
    /// There is more, or less, than was announced.
    Length,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The line of a chunk.
    Size,
    /// So many bytes of a chunk.
    Data(u64),
    /// The end of the line behind them.
    LineEnd,
    /// A trailer, or the empty line that ends all.
    Trailer,
    Nothing,
}

/// A body while it is read.
#[derive(Debug)]
pub struct ChunkReader {
    framing: Framing,
    /// The signatures, where they are compared.
    chain: Option<Chain>,
    next: Next,
    /// The beginning of a line.
    line: Vec<u8>,
    /// Bytes of the value that are to come.
    left: u64,
    /// The signature of the chunk that has begun, and the digest of its bytes so far.
    signature: String,
    digest: Sha256,
    /// The trailers, a line each, and whether their signature has come.
    trailers: String,
    is_end_signed: bool,
}

impl ChunkReader {
    /// A reader of a value of `len` bytes. Without a `chain` signatures are not compared.
    pub fn new(framing: Framing, len: u64, chain: Option<Chain>) -> Self {
        Self {
            framing,
            chain: chain.filter(|_| framing.is_signed),
            next: Next::Size,
            line: Vec::new(),
            left: len,
            signature: String::new(),
            digest: Sha256::new(),
            trailers: String::new(),
            is_end_signed: false,
        }
    }

    /// Takes from `received` the next bytes of the value; `None` where it has no more of them.
    pub fn read(&mut self, received: &mut Bytes) -> Result<Option<Bytes>, Fault> {
        while !received.is_empty() {
            if let Next::Data(left) = self.next {
                let len =
                    usize::try_from(left).map_or(received.len(), |left| left.min(received.len()));
                let data = received.split_to(len);
                self.receive(&data, left - len as u64)?;
                return Ok(Some(data));
            }
            self.read_line(received)?;
        }
        Ok(None)
    }

    /// The trailers, once the body has ended.
    pub fn end(&self) -> Result<impl Iterator<Item = (&str, &str)>, Fault> {
        match self.next {
            Next::Nothing if self.left == 0 => {}
            Next::Nothing => return Err(Fault::Length),
            _ => return Err(Fault::Malformed),
        }
        Ok(self
            .trailers
            .lines()
            .filter_map(|line| line.split_once(':')))
    }

    /// Receives bytes of a chunk, of which so many are left.
    fn receive(&mut self, data: &[u8], left: u64) -> Result<(), Fault> {
        if self.chain.is_some() {
            self.digest.update(data);
        }
        self.left -= data.len() as u64;
        self.next = Next::Data(left);
        if left == 0 {
            self.next = Next::LineEnd;
            return self.end_chunk();
        }
        Ok(())
    }

    /// Compares the signature of a chunk that has come.
    fn end_chunk(&mut self) -> Result<(), Fault> {
        let Some(chain) = &mut self.chain else {
            return Ok(());
        };
        let text = chain.of_chunk(&self.digest.finalize_reset());
        let is_right = chain.accepts(&text, mem::take(&mut self.signature));
        is_right.then_some(()).ok_or(Fault::Signature)
    }

    fn read_line(&mut self, received: &mut Bytes) -> Result<(), Fault> {
        let end = received.iter().position(|&byte| byte == b'\n');
        let part = &received[..end.unwrap_or(received.len())];
        if self.line.len() + self.trailers.len() + part.len() > LONGEST {
            return Err(Fault::Malformed);
        }
        self.line.extend_from_slice(part);
        let taken = part.len();
        received.advance(taken);
        if end.is_none() {
            return Ok(());
        }
        received.advance(1);
        let line = String::from_utf8(mem::take(&mut self.line)).map_err(|_| Fault::Malformed)?;
        match (self.next, line.strip_suffix('\r')) {
            (Next::Size, Some(line)) => self.begin_chunk(line),
            (Next::LineEnd, Some("")) => {
                self.next = Next::Size;
                Ok(())
            }
            // Some clients end the lines of trailers without a CR.
            (Next::Trailer, without) => self.read_trailer(without.unwrap_or(&line)),
            _ => Err(Fault::Malformed),
        }
    }

    fn begin_chunk(&mut self, line: &str) -> Result<(), Fault> {
        let (digits, extension) = line.split_once(';').unwrap_or((line, ""));
        let is_size =
            (1..=16).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let size = u64::from_str_radix(digits, 16).ok().filter(|_| is_size);
        let size = size.ok_or(Fault::Malformed)?;
        let signature = extension.trim().strip_prefix("chunk-signature=");
        if self.framing.is_signed != signature.is_some() {
            return Err(Fault::Malformed);
        }
        signature
            .unwrap_or_default()
            .clone_into(&mut self.signature);
        if size > self.left {
            return Err(Fault::Length);
        }
        self.next = Next::Data(size);
        if size == 0 {
            self.next = Next::Trailer;
            return self.end_chunk();
        }
        Ok(())
    }

    fn read_trailer(&mut self, line: &str) -> Result<(), Fault> {
        let Framing {
            is_signed,
            has_trailers,
        } = self.framing;
        let is_signature_due = is_signed && has_trailers && !self.is_end_signed;
        if line.is_empty() {
            // Some clients end the trailers with a line before their signature too.
            if !is_signature_due {
                self.next = Next::Nothing;
            }
            return Ok(());
        }
        let (name, value) = line.split_once(':').ok_or(Fault::Malformed)?;
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        if !has_trailers || self.is_end_signed {
            return Err(Fault::Malformed);
        }
        if name != "x-amz-trailer-signature" {
            self.trailers.extend([&*name, ":", value, "\n"]);
            return Ok(());
        }
        self.is_end_signed = true;
        let Some(chain) = &mut self.chain else {
            return Ok(());
        };
        let text = chain.of_trailers(&self.trailers);
        let is_right = chain.accepts(&text, value.to_owned());
        is_right.then_some(()).ok_or(Fault::Signature)
    }
}

#[cfg(test)]
mod tests;
