//! The orders to a server that runs: to end, to reread its files, and to say what its bounds hold.
//!
//! One [`Drain`] belongs to the server; every thread holds a [`Draining`], and shows that it is done by dropping it.
//! After a grace period the rest is abandoned.
//!
//! A signal has no answer, so the server also listens for each kind of request on a socket that is named by its process
//! and has no file: there is nothing to configure, to find or to leave behind. It accepts only its own user and root,
//! who may send it signals too.

use std::fmt::Display;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener as StdListener, UnixStream as StdStream};
use std::time::Duration;

use rustix::process::geteuid;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum DrainPhase {
    Serving,
    Draining,
    Abandoned,
}

/// The server's side of a drain.
#[derive(Debug)]
pub struct Drain(watch::Sender<DrainPhase>);

/// A thread's side of a drain, kept as long as the thread is not done.
#[derive(Clone, Debug)]
pub struct Draining(watch::Receiver<DrainPhase>);

/// Both sides of a drain.
pub fn drain() -> (Drain, Draining) {
    let (phase, watched) = watch::channel(DrainPhase::Serving);
    (Drain(phase), Draining(watched))
}

impl Drain {
    /// Asks everything to finish, and waits until it has; what has not after the `grace` period is abandoned.
    pub async fn finish(self, grace: Duration) {
        self.0.send_replace(DrainPhase::Draining);
        // The channel closes when every [`Draining`] has been dropped.
        if timeout(grace, self.0.closed()).await.is_err() {
            self.0.send_replace(DrainPhase::Abandoned);
            self.0.closed().await;
        }
    }
}

impl Draining {
    /// Waits until finishing is asked for, or the server is gone.
    pub async fn started(&mut self) {
        self.reached(DrainPhase::Draining).await;
    }

    /// Waits until the grace period is over, or the server is gone.
    pub async fn abandoned(&mut self) {
        self.reached(DrainPhase::Abandoned).await;
    }

    async fn reached(&mut self, phase: DrainPhase) {
        let _ = self.0.wait_for(|now| *now >= phase).await;
    }
}

/// The time that a server has to answer: it may be at work on an earlier reload, or be stopped.
const PATIENCE: Duration = Duration::from_secs(30);

/// The pause of the listener after the system had nothing left for a connection.
const PAUSE: Duration = Duration::from_secs(1);

/// The answer when all was reread.
pub const DONE: &str = "ok";

/// The kind of a request to reread files.
pub const RELOAD: &str = "reload";
/// The kind of a request for what bounds hold.
pub const BOUNDS: &str = "bounds";

fn address(kind: &str, pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("data-server/{kind}/{pid}"))
}

/// The server's end of requests of one kind.
#[derive(Debug)]
pub struct Requests(UnixListener);

impl Requests {
    /// Listens for this process.
    pub fn listen(kind: &str) -> io::Result<Self> {
        let listener = StdListener::bind_addr(&address(kind, std::process::id())?)?;
        listener.set_nonblocking(true)?;
        UnixListener::from_std(listener).map(Self)
    }

    /// Answers each request by a user who may make it with what comes of it. Never returns.
    pub async fn serve(&self, answer: impl AsyncFn() -> Result<String, String>) {
        loop {
            match self.0.accept().await.and_then(|(client, _)| admit(client)) {
                Ok(Some(mut client)) => {
                    let answer = answer().await.unwrap_or_else(|why| why);
                    // The response of a client that has gone, or does not read it, is lost.
                    let _ = timeout(PATIENCE, client.write_all(answer.as_bytes())).await;
                }
                Ok(None) => {}
                Err(_) => sleep(PAUSE).await,
            }
        }
    }
}

fn admit(client: UnixStream) -> io::Result<Option<UnixStream>> {
    let uid = client.peer_cred()?.uid();
    let may = uid == geteuid().as_raw() || uid == 0;
    Ok(may.then_some(client))
}

/// Has the server that is this process reread its files; the error says why it did not, as far as is known.
pub fn ask_reload(pid: u32) -> Result<(), String> {
    match ask(RELOAD, pid)? {
        text if text == DONE => Ok(()),
        text => Err(text),
    }
}

/// What the server that is this process answers to a request of this `kind`.
pub fn ask(kind: &str, pid: u32) -> Result<String, String> {
    let answer = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .and_then(|runtime| runtime.block_on(answer(kind, pid)));
    let silent = |why: &dyn Display| format!("process {pid} is no server that can be asked: {why}");
    match answer {
        Ok(text) if text.is_empty() => Err(silent(&"it hears root and its own user alone")),
        answer => answer.map_err(|why| silent(&why)),
    }
}

async fn answer(kind: &str, pid: u32) -> io::Result<String> {
    let server = StdStream::connect_addr(&address(kind, pid)?)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{Instant, sleep};

    const GRACE: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn finished_when_the_last_holder_is_gone() {
        let start = Instant::now();
        let (drain, mut first) = drain();
        let mut second = first.clone();
        let holders = async {
            first.started().await;
            drop(first);
            sleep(GRACE / 2).await;
            second.started().await;
            drop(second);
        };
        tokio::join!(drain.finish(GRACE), holders);
        assert_eq!(start.elapsed(), GRACE / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_not_finished_is_abandoned_after_the_grace_period() {
        let start = Instant::now();
        let (drain, mut holder) = drain();
        let abandoned = async {
            holder.abandoned().await;
            assert_eq!(start.elapsed(), GRACE);
            drop(holder);
        };
        tokio::join!(drain.finish(GRACE), abandoned);
    }
}
