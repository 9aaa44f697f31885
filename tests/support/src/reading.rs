//! A client that reads one response by any version of HTTP, in the clear or over TLS, a piece at a time, and says
//! whether it saw the end of it.

use crate::prelude::*;

/// A version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Http10,
    Http11,
    Http2,
}

/// A way of speaking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    pub version: Version,
    pub is_tls: bool,
}

/// The body ends before its end: it is too short, its last chunk is missing, or its stream or connection is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut;

impl Protocol {
    pub const ALL: [Self; 6] = [
        Self::new(Version::Http10, false),
        Self::new(Version::Http10, true),
        Self::new(Version::Http11, false),
        Self::new(Version::Http11, true),
        Self::new(Version::Http2, false),
        Self::new(Version::Http2, true),
    ];

    const fn new(version: Version, is_tls: bool) -> Self {
        Self { version, is_tls }
    }

    /// A server that speaks it, whose certificate is of this authority.
    #[track_caller]
    pub fn serve(self, authority: &Authority, dir: Option<&DataDir>, args: &[&str]) -> TestServer {
        let own = authority.issue("own", &["127.0.0.1"]);
        let launch = if self.is_tls {
            let args = [&own.options()[..], args].concat();
            Launch::new(&args).listen("https://127.0.0.1:0")
        } else {
            Launch::new(&[args, &["--http2-clear"]].concat()).in_the_clear()
        };
        match dir {
            Some(dir) => launch.on(dir).start(),
            None => launch.start(),
        }
    }

    /// Asks for `target` with these fields, over TLS as this client does it.
    pub fn get(
        self,
        addr: SocketAddr,
        client: &TlsClient,
        target: &str,
        fields: &[(&str, &str)],
    ) -> Result<Reading, Cut> {
        let tls = self.is_tls.then_some(client);
        if self.version == Version::Http2 {
            let mut client = Http2::like_a_browser(addr, tls).map_err(|_| Cut)?;
            let uri = ["http", "https"][usize::from(self.is_tls)].to_owned() + "://t" + target;
            let asked = client.ask("GET", &uri, fields, true).map_err(|_| Cut)?;
            return Reading::of(Source::Http2(asked, client));
        }
        let mut raw = match tls {
            Some(client) => Raw::connect_tls(addr, client),
            None => Raw::connect_clear(addr),
        };
        let version = ["1.1", "1.0"][usize::from(self.version == Version::Http10)];
        let fields = fields
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"));
        let fields: String = fields.collect();
        let head = format!("GET {target} HTTP/{version}\r\nHost: t\r\n{fields}\r\n");
        raw.offer(head).map_err(|_| Cut)?;
        Reading::of(Source::Http1(raw))
    }
}

enum Source {
    Http1(Raw),
    Http2(Asked, #[expect(dead_code, reason = "its connection")] Http2),
}

/// The end of a body of HTTP/1.
enum End {
    /// After so many bytes.
    After(usize),
    /// After a chunk without bytes; the beginning of a chunk has come.
    OfChunks(Vec<u8>),
    OfConnection,
}

/// A response whose head has been read.
pub struct Reading {
    pub head: Response,
    source: Source,
    end: End,
}

impl Reading {
    fn of(mut source: Source) -> Result<Self, Cut> {
        let head = match &mut source {
            Source::Http1(raw) => raw.try_head().ok_or(Cut)?,
            Source::Http2(asked, _) => asked.head().map_err(|_| Cut)?,
        };
        let end = match head.header("content-length") {
            Some(len) => End::After(len.parse().expect("a length")),
            None if head.header("transfer-encoding").is_some() => End::OfChunks(Vec::new()),
            None => End::OfConnection,
        };
        Ok(Self { head, source, end })
    }

    /// The next bytes of the body; none at its end.
    pub fn next(&mut self) -> Result<Option<Vec<u8>>, Cut> {
        let raw = match &mut self.source {
            Source::Http2(asked, _) => {
                let data = asked.data().map_err(|_| Cut)?;
                return Ok(data.map(|data| data.to_vec()));
            }
            Source::Http1(raw) => raw,
        };
        let mut more = || match raw.next_bytes() {
            Ok(bytes) if bytes.is_empty() => Ok(None),
            Ok(bytes) => Ok(Some(bytes)),
            Err(_) => Err(Cut),
        };
        match &mut self.end {
            End::OfConnection => more(),
            End::After(0) => Ok(None),
            End::After(left) => {
                let bytes = more()?.ok_or(Cut)?;
                *left = left
                    .checked_sub(bytes.len())
                    .expect("no more than the length");
                Ok(Some(bytes))
            }
            End::OfChunks(begun) => loop {
                if let Some(chunk) = take_chunk(begun) {
                    return Ok((!chunk.is_empty()).then_some(chunk));
                }
                begun.extend(more()?.ok_or(Cut)?);
            },
        }
    }

    /// All that comes, and whether the client takes that for the whole body.
    pub fn rest(mut self) -> (Vec<u8>, bool) {
        let mut all = Vec::new();
        loop {
            match self.next() {
                Ok(Some(bytes)) => all.extend(bytes),
                Ok(None) => return (all, true),
                Err(Cut) => return (all, false),
            }
        }
    }
}

/// Takes the first chunk out of `begun`, if all of it has come; the last one is empty.
fn take_chunk(begun: &mut Vec<u8>) -> Option<Vec<u8>> {
    let line = begun.windows(2).position(|two| two == b"\r\n")?;
    let size = std::str::from_utf8(&begun[..line]).expect("a size");
    let size = usize::from_str_radix(size, 16).expect("a size");
    let end = line + 2 + size + 2;
    if begun.len() < end {
        return None;
    }
    let chunk = begun[line + 2..end - 2].to_vec();
    begun.drain(..end);
    Some(chunk)
}
