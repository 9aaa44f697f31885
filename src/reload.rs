//! Asks a server that runs to reread its files, and hears what came of it: both ends of that.
//!
//! A signal has no answer, so the server also listens on a socket that is named by its process and has no file: there is nothing
//! to configure, to find or to leave behind. Only its own user and root are heard, who may send it signals too.

use std::io::{self, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener as StdListener, UnixStream as StdStream};
use std::time::Duration;

use rustix::process::geteuid;
use tokio::io::AsyncReadExt as _;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{sleep, timeout};

/// How long a server has to answer: it may be at work on an earlier reload, or be stopped.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long it does not listen after the system had nothing left for a connection.
const PAUSE: Duration = Duration::from_secs(1);

/// The beginning of an answer when all was reread.
const DONE: &str = "ok";

/// Why a server did not reread its files, as far as is known.
#[derive(Debug, thiserror::Error)]
pub enum NotReloaded {
    /// It says that something is wrong.
    #[error("{0}")]
    Refused(String),
    /// Nothing answers.
    #[error("process {pid} is no server that can be asked: {why}")]
    Silent {
        /// The process.
        pid: u32,
        /// The outcome.
        why: io::Error,
    },
}

fn address(pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("data-server/reload/{pid}"))
}

/// The server's end.
#[derive(Debug)]
pub struct Requests(UnixListener);

impl Requests {
    /// Listens for this process.
    pub fn listen() -> io::Result<Self> {
        let listener = StdListener::bind_addr(&address(std::process::id())?)?;
        listener.set_nonblocking(true)?;
        UnixListener::from_std(listener).map(Self)
    }

    /// The next request of someone who may make it.
    pub async fn next(&self) -> Request {
        loop {
            match self.0.accept().await.and_then(|(client, _)| admit(client)) {
                Ok(Some(client)) => return Request(client),
                Ok(None) => {}
                Err(_) => sleep(PAUSE).await,
            }
        }
    }
}

fn admit(client: UnixStream) -> io::Result<Option<StdStream>> {
    let uid = client.peer_cred()?.uid();
    let may = uid == geteuid().as_raw() || uid == 0;
    may.then(|| client.into_std()).transpose()
}

/// The client that asked for a reload, and waits for the answer.
#[derive(Debug)]
pub struct Request(StdStream);

impl Request {
    /// Tells what came of it. One who does not listen is not waited for.
    pub fn answer(mut self, result: &Result<(), String>) {
        let text = result.as_ref().map_or_else(String::as_str, |()| DONE);
        let _ = self.0.write_all(text.as_bytes());
    }
}

/// Has the server that is this process reread its files.
pub fn ask(pid: u32) -> Result<(), NotReloaded> {
    let answer = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .and_then(|runtime| runtime.block_on(answer(pid)));
    match answer {
        Ok(text) if text == DONE => Ok(()),
        Ok(text) if text.is_empty() => {
            let why = io::Error::other("it hears root and its own user alone");
            Err(NotReloaded::Silent { pid, why })
        }
        Ok(text) => Err(NotReloaded::Refused(text)),
        Err(why) => Err(NotReloaded::Silent { pid, why }),
    }
}

async fn answer(pid: u32) -> io::Result<String> {
    let server = StdStream::connect_addr(&address(pid)?)?;
    server.set_nonblocking(true)?;
    let mut server = UnixStream::from_std(server)?;
    // Any process can take a name.
    if server.peer_cred()?.pid() != i32::try_from(pid).ok() {
        return Err(io::Error::other("another process has its name"));
    }
    let mut text = String::new();
    timeout(PATIENCE, server.read_to_string(&mut text)).await??;
    Ok(text)
}
