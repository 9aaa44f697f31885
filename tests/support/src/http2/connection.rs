//! One connection with the server: begun by the first byte of the test, and over when either side has ended it.

use std::future::poll_fn;
use std::io;
use std::net::{self, SocketAddr};
use std::os::unix;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Ping, PingPong, Reason, SendStream};
use http::Method;
use http::uri::Scheme;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, copy_bidirectional, join};
use tokio::net::{TcpStream, UnixStream};
use tokio::select;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_rustls::TlsConnector;

use super::answer::{Asked, Output};
use super::request::{Body, Head, Input, Part};
use crate::{DEADLINE, TlsClient};

/// How often a task asks whether its test has gone.
const OFTEN: Duration = Duration::from_millis(10);

/// The server, and how it is spoken with.
pub(super) struct Place {
    addr: SocketAddr,
    client: Option<TlsClient>,
    scheme: Scheme,
}

/// A connection, in the clear or with TLS.
pub(super) trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

impl Place {
    pub(super) fn new(addr: SocketAddr, client: Option<TlsClient>) -> Self {
        let tls = client.as_ref().map(|_| Scheme::HTTPS);
        Self {
            addr,
            client,
            scheme: tls.unwrap_or(Scheme::HTTP),
        }
    }

    /// Has `server` speak this protocol.
    pub(super) async fn begin(
        &self,
        server: TcpStream,
        protocol: &[u8],
    ) -> io::Result<Box<dyn Wire>> {
        let Some(client) = &self.client else {
            return Ok(Box::new(server));
        };
        let mut config = (*client.config).clone();
        config.alpn_protocols = vec![protocol.to_vec()];
        let connector = TlsConnector::from(Arc::new(config));
        let sealed = connector.connect(client.name.clone(), server).await?;
        Ok(Box::new(sealed))
    }
}

/// Translates until an end, what comes from `near`, of which as much is told as was `passed_on`.
pub(super) async fn translate(
    near: unix::net::UnixStream,
    server: net::TcpStream,
    place: Place,
    passed_on: Arc<AtomicU64>,
) -> io::Result<()> {
    let near = UnixStream::from_std(near)?;
    let server = TcpStream::from_std(server)?;
    select! {
        begun = near.readable() => begun?,
        refused = server.readable() => {
            refused?;
            // What a server says of its own accord has no protocol, and with TLS no meaning to the test.
            let (mut server, mut near) = (server, near);
            if place.client.is_none() {
                copy(&mut server, &mut near).await?;
            }
            return Ok(());
        }
    }
    let (reading, writing) = near.into_split();
    let mut input = Input::new(reading, passed_on);
    let mut output = Output { near: writing };
    let first = select! {
        first = input.head(&place.scheme) => first,
        // No head has come in time.
        _ = server.readable() => return Ok(()),
    };
    let ended = match first {
        Ok(Some(first)) => {
            let server = place.begin(server, b"h2").await?;
            match speak(first, &mut input, &mut output, server, &place.scheme).await {
                Err(error) if is_untold(&error) => Err(TcpStream::connect(place.addr).await?),
                ended => Ok(ended),
            }
        }
        Ok(None) => Ok(Ok(())),
        Err(error) if is_untold(&error) => Err(server),
        Err(error) => Ok(Err(error)),
    };
    match ended {
        Ok(ended) => ended,
        // HTTP/2 has no words for the request that is next.
        Err(server) => {
            let mut server = place.begin(server, b"http/1.1").await?;
            server.write_all(input.received()).await?;
            input.passes_all_on();
            let mut near = join(input.into_near(), output.near);
            copy_bidirectional(&mut near, &mut server).await?;
            Ok(())
        }
    }
}

fn is_untold(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput
}

/// The task that moves frames; it ends with its owner.
struct Moving(JoinHandle<Result<(), h2::Error>>);

impl Drop for Moving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sends on this request and those after it.
async fn speak(
    first: Head,
    input: &mut Input,
    output: &mut Output,
    server: Box<dyn Wire>,
    scheme: &Scheme,
) -> io::Result<()> {
    let begun = Builder::new().handshake::<_, Bytes>(server).await;
    let (mut sender, mut connection) = begun.map_err(broken)?;
    let mut pings = connection.ping_pong().expect("the first to ask");
    let mut moving = Moving(tokio::spawn(connection));
    let mut next = Some(first);
    while let Some(head) = next {
        if !exchange(head, &mut sender, &mut pings, input, output).await? {
            break;
        }
        next = select! {
            _ = &mut moving.0 => None,
            head = input.head(scheme) => head?,
        };
    }
    Ok(())
}

/// Sends a request on, and its response back; whether the connection may go on.
async fn exchange(
    head: Head,
    sender: &mut SendRequest<Bytes>,
    pings: &mut PingPong,
    input: &mut Input,
    output: &mut Output,
) -> io::Result<bool> {
    poll_fn(|cx| sender.poll_ready(cx)).await.map_err(broken)?;
    let is_sent = AtomicBool::new(head.body == Body::Left(0));
    let mut asked = Asked {
        is_head: head.request.method() == Method::HEAD,
        closes: head.closes,
        is_sent: &is_sent,
        sender: sender.clone(),
    };
    let sent = sender.send_request(head.request, head.body == Body::Left(0));
    let (response, mut stream) = sent.map_err(broken)?;
    let has_body = head.body != Body::Left(0);
    let mut sending = Box::pin(send(input, &mut stream, head.body));
    let mut answering = Box::pin(output.answer(response, &mut asked));
    let sent = select! {
        // What has been sent has been sent, also when the answer is there as soon.
        biased;
        sent = &mut sending => sent,
        answered = &mut answering => {
            drop(answering);
            output.near.shutdown().await.unwrap_or_default();
            // The server says when it has heard enough.
            let is_sent = sending.await.is_ok();
            if is_sent && answered.is_err() {
                settle(pings).await?;
            } else if !is_sent {
                input.drop_some().await?;
            }
            return answered;
        }
    };
    drop(sending);
    match sent {
        Ok(()) => is_sent.store(true, Ordering::Release),
        // A test that ends its side within a request takes it back.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(error),
        Err(_) => {}
    }
    input.has_passed_on();
    let answered = select! {
        answered = answering => answered,
        gone = gone(input, has_body) => gone.map(|()| false),
    };
    if !matches!(answered, Ok(true)) {
        // A test that is gone has asked all the same.
        settle(pings).await?;
    }
    answered
}

/// Sends a body on as far as the server makes room.
async fn send(input: &mut Input, stream: &mut SendStream<Bytes>, mut body: Body) -> io::Result<()> {
    if body == Body::Left(0) {
        return Ok(());
    }
    loop {
        let part = select! {
            part = input.part(&mut body) => part,
            reset = poll_fn(|cx| stream.poll_reset(cx)) => {
                return reset.map_err(broken).and(Err(io::ErrorKind::BrokenPipe.into()));
            }
        };
        match part {
            Ok(Part::Data(mut data)) => {
                while !data.is_empty() {
                    stream.reserve_capacity(data.len());
                    let room = match stream.capacity() {
                        0 => poll_fn(|cx| stream.poll_capacity(cx)).await,
                        room => Some(Ok(room)),
                    };
                    let room = room.ok_or(io::ErrorKind::BrokenPipe)?.map_err(broken)?;
                    let piece = data.split_to(room.min(data.len()));
                    let is_last = data.is_empty() && body == Body::Left(0);
                    stream.send_data(piece, is_last).map_err(broken)?;
                    if is_last {
                        return Ok(());
                    }
                }
            }
            Ok(Part::Trailers(trailers)) => return stream.send_trailers(trailers).map_err(broken),
            Ok(Part::End) => return stream.send_data(Bytes::new(), true).map_err(broken),
            Err(error) => {
                stream.send_reset(Reason::CANCEL);
                return Err(error);
            }
        }
    }
}

/// Ready when the test is gone.
async fn gone(input: &Input, has_body: bool) -> io::Result<()> {
    loop {
        let mut end = [PollFd::new(input.near(), PollFlags::empty())];
        poll(&mut end, Some(&Timespec::default()))?;
        if end[0].revents().contains(PollFlags::HUP) {
            break;
        }
        sleep(OFTEN).await;
    }
    if has_body {
        // Its last bytes may be on the way: the answer tells that they are there.
        sleep(DEADLINE).await;
    }
    Ok(())
}

/// Waits until the server has what was sent: that before the first question has left with the second.
async fn settle(pings: &mut PingPong) -> io::Result<()> {
    for _ in 0..2 {
        pings.ping(Ping::opaque()).await.map_err(broken)?;
    }
    Ok(())
}

/// What ended a stream.
pub(super) fn broken(error: h2::Error) -> io::Error {
    io::Error::other(error)
}
