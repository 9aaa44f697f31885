//! A client of HTTP/2 with several requests at once on one connection, in the clear.

use std::future::poll_fn;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::Request;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::RUNTIME;
use super::connection::{Place, broken};
use crate::{DEADLINE, Response, TlsClient};

/// One connection.
pub struct Http2 {
    sender: SendRequest<Bytes>,
    moving: JoinHandle<Result<(), h2::Error>>,
    /// The same socket, which stays open when the connection has been given up.
    socket: std::net::TcpStream,
}

/// How a client leaves a connection on which requests are under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// RST: the client is gone.
    Reset,
    /// FIN: the client has closed its side.
    Fin,
    /// Nothing is sent or read any more, and the socket stays open.
    Silence,
}

/// One request, and what comes of it.
pub struct Asked {
    response: Option<ResponseFuture>,
    sending: SendStream<Bytes>,
    body: Option<RecvStream>,
}

impl Http2 {
    #[track_caller]
    pub fn connect(addr: SocketAddr) -> Self {
        Self::try_connect(addr).expect("a connection")
    }

    /// A connection with windows of 64 KiB, as they are by default, and a large one for all requests together.
    pub fn try_connect(addr: SocketAddr) -> io::Result<Self> {
        let mut builder = Builder::new();
        builder.initial_connection_window_size(16 << 20);
        Self::connect_by(addr, &builder)
    }

    /// A connection whose windows hold whatever the server sends.
    #[track_caller]
    pub fn with_wide_windows(addr: SocketAddr) -> Self {
        const WIDEST: u32 = (1 << 31) - 1;
        let mut builder = Builder::new();
        builder.initial_window_size(WIDEST);
        builder.initial_connection_window_size(WIDEST);
        Self::connect_by(addr, &builder).expect("a connection")
    }

    /// A connection with windows like those of browsers and of Go, which makes room as it reads; with TLS where it is
    /// given.
    pub fn like_a_browser(addr: SocketAddr, tls: Option<&TlsClient>) -> io::Result<Self> {
        const WINDOW: u32 = 2 << 20;
        let mut builder = Builder::new();
        builder.initial_window_size(WINDOW);
        builder.initial_connection_window_size(WINDOW);
        Self::connect_with(addr, tls, &builder)
    }

    fn connect_by(addr: SocketAddr, builder: &Builder) -> io::Result<Self> {
        Self::connect_with(addr, None, builder)
    }

    fn connect_with(
        addr: SocketAddr,
        tls: Option<&TlsClient>,
        builder: &Builder,
    ) -> io::Result<Self> {
        wait(async {
            let socket = std::net::TcpStream::connect(addr)?;
            socket.set_nodelay(true)?;
            socket.set_nonblocking(true)?;
            let io = TcpStream::from_std(socket.try_clone()?)?;
            let io = Place::new(addr, tls.cloned()).begin(io, b"h2").await?;
            let (sender, connection) = builder.handshake(io).await.map_err(broken)?;
            let moving = tokio::spawn(connection);
            Ok(Self {
                sender,
                moving,
                socket,
            })
        })
    }

    /// Leaves the connection; its socket, where the client still has it.
    pub fn leave(mut self, how: Leave) -> Option<std::net::TcpStream> {
        self.moving.abort();
        let moving = &mut self.moving;
        RUNTIME.block_on(async { moving.await.err() });
        let socket = self.socket.try_clone().expect("a socket");
        match how {
            Leave::Silence => {}
            Leave::Fin => socket.shutdown(Shutdown::Write).expect("a connection"),
            Leave::Reset => {
                let reset = SockRef::from(&socket).set_linger(Some(Duration::ZERO));
                reset.expect("a socket");
            }
        }
        (how != Leave::Reset).then_some(socket)
    }

    /// Sends a head; `ends` when it has no body. Fails when the connection takes no more requests.
    pub fn ask(
        &mut self,
        method: &str,
        uri: &str,
        fields: &[(&str, &str)],
        ends: bool,
    ) -> Result<Asked, h2::Error> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(()).expect("a request");
        let sender = &mut self.sender;
        RUNTIME.block_on(async { poll_fn(|cx| sender.poll_ready(cx)).await })?;
        let (response, sending) = self.sender.send_request(request, ends)?;
        Ok(Asked {
            response: Some(response),
            sending,
            body: None,
        })
    }

    /// A request of `http://t` without a body, and its whole response.
    #[track_caller]
    pub fn get(&mut self, path: &str) -> Response {
        let asked = self.ask("GET", &format!("http://t/{path}"), &[], true);
        asked.expect("a request").answer().expect("a response")
    }
}

impl Drop for Http2 {
    fn drop(&mut self) {
        self.moving.abort();
    }
}

impl Asked {
    /// Sends a part of the body.
    pub fn send(&mut self, part: impl Into<Bytes>, ends: bool) -> Result<(), h2::Error> {
        self.sending.send_data(part.into(), ends)
    }

    /// Waits for the next interim response.
    pub fn interim(&mut self) -> Result<Response, h2::Error> {
        let response = self.response.as_mut().expect("no head was read");
        let interim = poll_fn(|cx| response.poll_informational(cx));
        let interim = RUNTIME.block_on(async { wait_for(interim).await });
        Ok(told(&interim.expect("an interim response")?))
    }

    /// Waits so long for the head of the response.
    pub fn ends_within(&mut self, time: Duration) -> Option<Result<Response, h2::Error>> {
        let response = self.response.as_mut().expect("no head was read");
        let head = RUNTIME.block_on(async { timeout(time, response).await });
        Some(head.ok()?.map(|response| told(&response)))
    }

    /// Waits for the head of the response.
    pub fn head(&mut self) -> Result<Response, h2::Error> {
        let response = self.response.take().expect("the head is read once");
        let response = RUNTIME.block_on(async { wait_for(response).await })?;
        let head = told(&response);
        self.body = Some(response.into_body());
        Ok(head)
    }

    /// Waits for the next bytes of the response; `None` at its end.
    pub fn data(&mut self) -> Result<Option<Bytes>, h2::Error> {
        let body = self.body.as_mut().expect("the head is read first");
        let data = RUNTIME.block_on(async { wait_for(body.data()).await });
        let data = data.transpose()?;
        if let Some(data) = &data {
            body.flow_control().release_capacity(data.len())?;
        }
        Ok(data)
    }

    /// Waits for the whole response.
    pub fn answer(mut self) -> Result<Response, h2::Error> {
        let mut head = self.head()?;
        while let Some(data) = self.data()? {
            head.body.extend_from_slice(&data);
        }
        Ok(head)
    }
}

fn told<T>(response: &http::Response<T>) -> Response {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into();
    let fields = response.headers().iter();
    let headers = fields.map(|(name, value)| (name.to_string(), text(value)));
    Response {
        status: response.status().as_u16(),
        headers: headers.collect(),
        body: Vec::new(),
    }
}

fn wait<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    RUNTIME.block_on(async { timeout(DEADLINE, work).await })?
}

async fn wait_for<T>(work: impl Future<Output = T>) -> T {
    let done = timeout(DEADLINE, work).await;
    done.unwrap_or_else(|_| panic!("nothing within {DEADLINE:?}"))
}
