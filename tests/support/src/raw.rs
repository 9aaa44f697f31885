//! A client that sends exactly the given bytes, and reads answers one by one.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustls::ClientConnection;
use socket2::{Domain, SockRef, Socket, Type};

use super::stream::Stream;
use super::{DEADLINE, TlsClient, by_protocol};

/// One connection. Reads and writes give up after [`DEADLINE`].
pub struct Raw {
    stream: Stream,
    unread: Vec<u8>,
}

/// One answer. Header names are in lower case.
#[derive(Debug, Clone)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Raw {
    #[track_caller]
    pub fn connect(addr: SocketAddr) -> Self {
        Self::try_connect(addr).expect("a connection")
    }

    /// A connection to a server that may have ended.
    pub fn try_connect(addr: SocketAddr) -> io::Result<Self> {
        tcp(addr).map(|stream| Self::of(Stream::over(stream)))
    }

    /// A connection with a small receive buffer, so that few bytes are in flight when its reader is slow.
    #[track_caller]
    pub fn connect_narrow(addr: SocketAddr) -> Self {
        Self::connect_as(addr, |socket| socket.set_recv_buffer_size(16 * 1024))
    }

    /// A connection from this address of the loopback network.
    #[track_caller]
    pub fn connect_from(source: [u8; 4], addr: SocketAddr) -> Self {
        let source = SocketAddr::from((source, 0));
        Self::connect_as(addr, |socket| socket.bind(&source.into()))
    }

    #[track_caller]
    fn connect_as(addr: SocketAddr, set: impl FnOnce(&Socket) -> io::Result<()>) -> Self {
        let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None).expect("a socket");
        set(&socket).expect("a small buffer, or an address of the loopback network");
        let connected = socket.connect_timeout(&addr.into(), DEADLINE);
        connected.expect("a connection");
        socket.set_tcp_nodelay(true).expect("no delay");
        Self::of(Stream::over(socket.into()))
    }

    /// A connection to a unix socket. A `TcpStream` owns any socket: only addresses and options of TCP are not to be
    /// had.
    #[track_caller]
    pub fn connect_unix(path: &Path) -> Self {
        let stream = UnixStream::connect(path).expect("a connection");
        Self::of(Stream::clear(OwnedFd::from(stream).into()))
    }

    /// A connection with TLS as this client makes it; the handshake comes with the first byte.
    #[track_caller]
    pub fn connect_tls(addr: SocketAddr, client: &TlsClient) -> Self {
        Self::of(Stream::sealed(tcp(addr).expect("a connection"), client))
    }

    /// A connection in the clear, whatever is spoken there.
    #[track_caller]
    pub fn connect_clear(addr: SocketAddr) -> Self {
        Self::of(Stream::clear(tcp(addr).expect("a connection")))
    }

    /// Its own address.
    #[track_caller]
    pub fn local_addr(&self) -> SocketAddr {
        self.stream.socket.local_addr().expect("an address")
    }

    /// Completes the handshake of TLS.
    pub fn handshake(&self) -> io::Result<()> {
        self.stream.handshake()
    }

    /// What the TLS of the connection is like.
    pub fn look<T>(&self, look: impl FnOnce(&mut ClientConnection) -> T) -> T {
        self.stream.look(look)
    }

    /// Sends bytes past the TLS of the connection.
    #[track_caller]
    pub fn send_clear(&mut self, bytes: impl AsRef<[u8]>) {
        let sent = self.stream.socket.write_all(bytes.as_ref());
        sent.expect("the server takes the bytes");
    }

    /// Reads once: how many bytes, 0 at the end.
    pub fn read_once(&mut self) -> io::Result<usize> {
        self.fill()
    }

    /// The bytes that come next, none at the end; fails where the connection is cut.
    pub fn next_bytes(&mut self) -> io::Result<Vec<u8>> {
        if self.unread.is_empty() {
            self.fill()?;
        }
        Ok(std::mem::take(&mut self.unread))
    }

    /// Ends its own side, or both, of a connection that may have ended.
    pub fn shut(&self, sides: Shutdown) {
        let _ = self.stream.socket.shutdown(sides);
    }

    /// Ends its own side without saying so in TLS.
    pub fn truncate(&self) {
        let ended = self.stream.socket.shutdown(Shutdown::Write);
        ended.expect("a half-closed connection");
    }

    fn of(stream: Stream) -> Self {
        let unread = Vec::new();
        let raw = Self { stream, unread };
        raw.give_up_after(DEADLINE);
        raw.time_limit(DEADLINE);
        raw
    }

    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.offer(bytes).expect("the server takes the bytes");
    }

    /// Sends the head of a request with these lines, each ending in CRLF.
    #[track_caller]
    pub fn begin(&mut self, method: &str, target: &str, lines: &str) {
        self.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: t\r\n{lines}\r\n"
        ));
    }

    /// Sends to a server that may have stopped listening.
    pub fn offer(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// A second handle of the connection, to send while this one reads.
    #[track_caller]
    pub fn twin(&self) -> Self {
        // Only one of them may read, and a handshake is both.
        self.stream.handshake().expect("a handshake");
        Self::of(self.stream.try_clone().expect("a second descriptor"))
    }

    /// Whether the server's kernel has acknowledged all that was sent.
    pub fn is_taken(&self) -> bool {
        if let Some(is_passed_on) = self.stream.is_passed_on() {
            return is_passed_on;
        }
        let socket = &self.stream.socket;
        let ends = [socket.local_addr(), socket.peer_addr()];
        let ports = ends.map(|end| format!(":{:04X}", end.expect("an address").port()));
        let table = fs::read_to_string("/proc/self/net/tcp").expect("the connections");
        // There may be thousands of others.
        let lines = table.lines().filter(|line| line.contains(&ports[0]));
        let own = { lines }.find_map(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            let is_own = fields[1].ends_with(&ports[0]) && fields[2].ends_with(&ports[1]);
            is_own.then(|| fields[4].starts_with("00000000:"))
        });
        own.expect("this connection")
    }

    /// Sets a time limit for writes.
    pub fn give_up_after(&self, time: Duration) {
        let set = self.stream.socket.set_write_timeout(Some(time));
        set.expect("a write timeout");
    }

    /// Sends a request and reads the whole answer.
    #[track_caller]
    pub fn ask(&mut self, request: impl AsRef<[u8]>) -> Response {
        let request = request.as_ref();
        self.send(request);
        if request.starts_with(b"HEAD ") {
            return self.head();
        }
        self.answer()
    }

    /// Asks for a value and reads the whole answer.
    #[track_caller]
    pub fn get(&mut self, key: &str) -> Response {
        self.ask(get_head(key))
    }

    /// Sends a value and reads the answer.
    #[track_caller]
    pub fn put(&mut self, key: &str, value: impl AsRef<[u8]>) -> Response {
        self.send(put_head(key, value.as_ref().len()));
        self.send(value);
        self.answer()
    }

    /// Reads one whole answer, by its Content-Length.
    #[track_caller]
    pub fn answer(&mut self) -> Response {
        let mut response = self.head();
        if !matches!(response.status, 100..=199 | 204 | 304) {
            let length = response.length();
            response.body = self.take(length);
        }
        response
    }

    /// Reads the head of an answer, and not its body.
    #[track_caller]
    pub fn head(&mut self) -> Response {
        let head = self.try_head();
        head.unwrap_or_else(|| panic!("no whole head: {:?}", String::from_utf8_lossy(&self.unread)))
    }

    /// Reads the head of an answer, or `None` when the connection ends or goes silent before it.
    pub fn try_head(&mut self) -> Option<Response> {
        loop {
            if let Some(end) = self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                let head: Vec<u8> = self.unread.drain(..end + 4).collect();
                return Some(Response::parse(&String::from_utf8_lossy(&head)));
            }
            self.fill().ok().filter(|&got| got > 0)?;
        }
    }

    /// Whether received bytes of an answer are unread.
    pub fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Reads exactly `length` bytes.
    #[track_caller]
    pub fn take(&mut self, length: usize) -> Vec<u8> {
        self.try_take(length).expect("as many bytes as promised")
    }

    /// Reads exactly `length` bytes; `None` when the connection ends before. Panics when it is silent.
    #[track_caller]
    pub fn try_take(&mut self, length: usize) -> Option<Vec<u8>> {
        let buffered = self.unread.len().min(length);
        // Not by `resize`, which takes a step for each byte where nothing is optimised.
        let mut bytes = vec![0; length];
        bytes[..buffered].copy_from_slice(&self.unread[..buffered]);
        self.unread.drain(..buffered);
        let read = self.stream.read_exact(&mut bytes[buffered..]);
        let is_silent = read.as_ref().is_err_and(is_timeout);
        assert!(!is_silent, "still open and silent after {DEADLINE:?}");
        read.is_ok().then_some(bytes)
    }

    /// Reads and drops up to `length` bytes through `buffer`, handing each piece to `check`; stops at the end of the
    /// stream.
    pub fn stream_to(
        &mut self,
        length: usize,
        buffer: &mut [u8],
        mut check: impl FnMut(&[u8]),
    ) -> usize {
        let buffered = self.unread.len().min(length);
        let buffered: Vec<u8> = self.unread.drain(..buffered).collect();
        check(&buffered);
        let mut got = buffered.len();
        while got < length {
            let room = buffer.len().min(length - got);
            match read(&mut self.stream, &mut buffer[..room]) {
                Ok(0) | Err(_) => break,
                Ok(n) => {
                    check(&buffer[..n]);
                    got += n;
                }
            }
        }
        got
    }

    /// Everything until the connection ends, by FIN or RST. Panics if it stays open.
    #[track_caller]
    pub fn rest(&mut self) -> Vec<u8> {
        let mut read = self.fill();
        while matches!(read, Ok(1..)) {
            read = self.fill();
        }
        let is_open = read.is_err_and(|error| is_timeout(&error));
        assert!(!is_open, "the connection is still open after {DEADLINE:?}");
        std::mem::take(&mut self.unread)
    }

    /// Asserts that the server closes without sending more.
    #[track_caller]
    pub fn assert_closed(&mut self) {
        let rest = self.rest();
        let more = String::from_utf8_lossy(&rest);
        assert_eq!(more, "", "before the close");
    }

    /// Checks that nothing arrives for this long and the connection stays open: for events that must *not* happen.
    pub fn silent_for(&mut self, time: Duration) -> Result<(), String> {
        let deadline = Instant::now() + time;
        let outcome = loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break Ok(());
            }
            self.time_limit(left);
            let heard = if self.stream.is_sealed() {
                // Tickets are no answer.
                self.fill()
            } else {
                self.stream.socket.peek(&mut [0; 1024])
            };
            match heard {
                Err(error) if is_timeout(&error) || error.kind() == ErrorKind::Interrupted => {}
                other => break Err(format!("{other:?}, {left:?} too early")),
            }
        };
        self.time_limit(DEADLINE);
        outcome
    }

    fn time_limit(&self, limit: Duration) {
        let set = self.stream.socket.set_read_timeout(Some(limit));
        set.expect("a read timeout");
    }

    /// Half-closes the connection (FIN); answers can still be read.
    pub fn finish(&self) {
        self.stream.finish().expect("a half-closed connection");
    }

    /// Half-closes the connection within a body: the answer is 400. In HTTP/2 the request is taken back, and has none.
    #[track_caller]
    pub fn break_off(&mut self) {
        self.finish();
        let status = self.try_head().map(|answer| answer.status);
        let expected = by_protocol(Some(400), None);
        assert_eq!(status, expected, "a body that breaks off");
    }

    /// Ends the connection with a reset (RST).
    pub fn reset(self) {
        let set = SockRef::from(&self.stream.socket).set_linger(Some(Duration::ZERO));
        set.expect("a linger time");
    }

    fn fill(&mut self) -> io::Result<usize> {
        let mut buffer = [0; 16 * 1024];
        let got = read(&mut self.stream, &mut buffer)?;
        self.unread.extend_from_slice(&buffer[..got]);
        Ok(got)
    }
}

impl Response {
    #[track_caller]
    fn parse(head: &str) -> Self {
        let mut lines = head.lines();
        let status_line = lines.next().expect("a status line");
        let status = status_line.strip_prefix("HTTP/1.");
        let status = status.and_then(|rest| rest.get(2..5)?.parse().ok());
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(n, v)| (n.to_lowercase(), v.to_owned()));
        Self {
            status: status.unwrap_or_else(|| panic!("not a status line: {status_line:?}")),
            headers: headers.collect(),
            body: Vec::new(),
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find_map(|(n, value)| (n == name).then_some(value.as_str()))
    }

    /// Whether the server announced that it closes after this answer.
    pub fn closes(&self) -> bool {
        let option = self.header("connection");
        option.is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    #[track_caller]
    pub fn length(&self) -> usize {
        let length = self.header("content-length");
        let length = length.unwrap_or_else(|| panic!("no Content-Length in {self:?}"));
        length.parse().expect("a number")
    }
}

pub(crate) fn tcp(addr: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&addr, DEADLINE)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Reads once, and again when interrupted, which can happen on a socket with a time limit.
fn read(stream: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// A GET.
pub fn get_head(key: &str) -> String {
    format!("GET /{key} HTTP/1.1\r\nHost: t\r\n\r\n")
}

/// The head of a PUT of `length` bytes.
pub fn put_head(key: &str, length: usize) -> String {
    format!("PUT /{key} HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\n")
}

/// A body in chunks of this size, with its end.
pub fn in_chunks(body: &[u8], size: usize) -> Vec<u8> {
    [&chunked(body.chunks(size))[..], b"0\r\n\r\n"].concat()
}

/// These pieces as the chunks of a body, without the last chunk.
pub fn chunked<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut body = Vec::new();
    for piece in pieces {
        body.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        body.extend_from_slice(piece);
        body.extend_from_slice(b"\r\n");
    }
    body
}
