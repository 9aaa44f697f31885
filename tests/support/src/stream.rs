//! The stream of a test client: a socket, in the clear or with TLS over it, or one whose HTTP/1.1 is sent on as HTTP/2.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use rustls::ClientConnection;

use super::{TlsClient, http2};

/// How clients speak with a server.
#[derive(Clone, Default)]
pub(crate) struct Way {
    /// With TLS, made so.
    pub(crate) tls: Option<TlsClient>,
    pub(crate) http2: bool,
}

/// The ways of the servers, by their ports; in the clear and by HTTP/1.1 where there is none.
static WAYS: LazyLock<Mutex<HashMap<u16, Way>>> = LazyLock::new(Mutex::default);

/// From now on connections to this address are made so.
pub(crate) fn set_way(addr: SocketAddr, way: Way) {
    lock(&WAYS).insert(addr.port(), way);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// See the module.
pub struct Stream {
    pub(crate) socket: TcpStream,
    session: Option<Arc<Session>>,
    translated: Option<Translated>,
}

/// What is sent on as HTTP/2.
#[derive(Clone)]
struct Translated {
    written: Arc<AtomicU64>,
    passed_on: Arc<AtomicU64>,
}

/// The TLS of a connection, which its twins share.
struct Session {
    connection: Mutex<ClientConnection>,
    /// Opened, and not read yet: the library keeps little.
    opened: Mutex<Vec<u8>>,
    /// Held while sealed bytes are sent, so that they stay in order. No reader holds both.
    sending: Mutex<()>,
}

impl Stream {
    /// As the address asks for.
    pub(crate) fn over(socket: TcpStream) -> Self {
        let way = Self::way(&socket);
        if !way.http2 {
            return Self::over_http1(socket);
        }
        let translated = http2::translated(socket, way.tls);
        let (socket, passed_on) = translated.expect("a pair of sockets");
        let written = Arc::default();
        Self {
            translated: Some(Translated { written, passed_on }),
            ..Self::clear(socket)
        }
    }

    /// The same, by HTTP/1.1: for what HTTP/2 has not.
    pub(crate) fn over_http1(socket: TcpStream) -> Self {
        match Self::way(&socket).tls {
            Some(client) => Self::sealed(socket, &client),
            None => Self::clear(socket),
        }
    }

    fn way(socket: &TcpStream) -> Way {
        let to = socket.peer_addr().ok();
        let way = to.and_then(|to| lock(&WAYS).get(&to.port()).cloned());
        way.unwrap_or_default()
    }

    pub(crate) fn sealed(socket: TcpStream, client: &TlsClient) -> Self {
        let connection = ClientConnection::new(Arc::clone(&client.config), client.name.clone());
        let session = Session {
            connection: Mutex::new(connection.expect("the beginning of a handshake")),
            opened: Mutex::default(),
            sending: Mutex::new(()),
        };
        Self {
            session: Some(Arc::new(session)),
            ..Self::clear(socket)
        }
    }

    pub(crate) fn clear(socket: TcpStream) -> Self {
        Self {
            socket,
            session: None,
            translated: None,
        }
    }

    /// Whether all that was written has been sent on; `None` where it is sent as it is.
    pub(crate) fn is_passed_on(&self) -> Option<bool> {
        let Translated { written, passed_on } = self.translated.as_ref()?;
        Some(written.load(Ordering::Acquire) <= passed_on.load(Ordering::Acquire))
    }

    pub(crate) fn is_sealed(&self) -> bool {
        self.session.is_some()
    }

    /// What the TLS of it is like.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut ClientConnection) -> T) -> T {
        let session = self.session.as_ref().expect("a connection with TLS");
        look(&mut lock(&session.connection))
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            socket: self.socket.try_clone()?,
            session: self.session.clone(),
            translated: self.translated.clone(),
        })
    }

    /// Ends its own side in order.
    pub(crate) fn finish(&self) -> io::Result<()> {
        if let Some(session) = &self.session {
            let _ = session.handshake(&self.socket);
            lock(&session.connection).send_close_notify();
            // A server that is gone is told nothing.
            let _ = session.send(&self.socket);
            let _ = self.socket.shutdown(Shutdown::Write);
            return Ok(());
        }
        self.socket.shutdown(Shutdown::Write)
    }

    /// Completes the handshake, if there is one.
    pub(crate) fn handshake(&self) -> io::Result<()> {
        let session = self.session.as_ref();
        session.map_or(Ok(()), |session| session.handshake(&self.socket))
    }
}

impl Session {
    /// Sends what is sealed.
    fn send(&self, mut socket: &TcpStream) -> io::Result<()> {
        let _sending = lock(&self.sending);
        let mut sealed = Vec::new();
        {
            let mut connection = lock(&self.connection);
            while connection.wants_write() {
                connection.write_tls(&mut sealed)?;
            }
        }
        socket.write_all(&sealed)
    }

    /// Reads once from the socket.
    fn receive(&self, mut socket: &TcpStream) -> io::Result<()> {
        let mut received = [0; 16 << 10];
        let len = socket.read(&mut received)?;
        let mut received = &received[..len];
        let opened = {
            let mut connection = lock(&self.connection);
            loop {
                let read = connection.read_tls(&mut received)?;
                let opened = connection.process_new_packets();
                // What it says besides is heard when more is asked for.
                let _ = connection.reader().read_to_end(&mut lock(&self.opened));
                if opened.is_err() || read == 0 || received.is_empty() {
                    break opened;
                }
            }
        };
        self.send(socket)?;
        opened.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(())
    }

    fn handshake(&self, socket: &TcpStream) -> io::Result<()> {
        while lock(&self.connection).is_handshaking() {
            self.send(socket)?;
            self.receive(socket)?;
            let mut connection = lock(&self.connection);
            if connection.is_handshaking()
                && let Err(error) = connection.reader().read(&mut [0])
                && error.kind() == io::ErrorKind::UnexpectedEof
            {
                return Err(error);
            }
        }
        self.send(socket)
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let Some(session) = &self.session else {
            return self.socket.read(buf);
        };
        session.handshake(&self.socket)?;
        loop {
            let mut opened = lock(&session.opened);
            if !opened.is_empty() {
                let len = opened.len().min(buf.len());
                buf[..len].copy_from_slice(&opened[..len]);
                opened.drain(..len);
                return Ok(len);
            }
            drop(opened);
            let read = lock(&session.connection).reader().read(buf);
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            session.receive(&self.socket)?;
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let Some(session) = &self.session else {
            let written = self.socket.write(buf)?;
            if let Some(Translated { written: all, .. }) = &self.translated {
                all.fetch_add(written as u64, Ordering::AcqRel);
            }
            return Ok(written);
        };
        session.handshake(&self.socket)?;
        let written = lock(&session.connection).writer().write(buf)?;
        session.send(&self.socket)?;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
