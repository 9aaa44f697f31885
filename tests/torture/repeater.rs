//! What the server must not do: a proxy that sends a request again when its answer is lost, as most client libraries do.
//!
//! It does not know what it sends again: a write that was made is made twice, or refused by the condition that it ended.

use std::io::{Read, Write};
use std::net::Shutdown;

use crate::support::prelude::*;

/// How often a request is sent at most.
const TRIES: usize = 3;

/// Passes requests on, one at a time by each connection, until it is dropped.
pub(crate) struct Repeater {
    pub(crate) accepting: Accepting,
    repeated: Arc<AtomicUsize>,
}

impl Repeater {
    pub(crate) fn to(store: SocketAddr) -> Self {
        let repeated = Arc::<AtomicUsize>::default();
        let counter = Arc::clone(&repeated);
        let accepting = Accepting::with(move |client| {
            let counter = Arc::clone(&counter);
            thread::spawn(move || serve(client, store, &counter));
        });
        Self {
            accepting,
            repeated,
        }
    }

    /// How often it has sent a request again.
    pub(crate) fn repeated(&self) -> usize {
        self.repeated.load(Ordering::Acquire)
    }
}

fn serve(mut client: TcpStream, store: SocketAddr, repeated: &AtomicUsize) {
    let _ = client.set_nodelay(true);
    while let Some(request) = message(&mut client, false) {
        let answer = (0..TRIES).find_map(|n| {
            repeated.fetch_add(n.min(1), Ordering::AcqRel);
            send(&request, store)
        });
        let Some(answer) = answer else {
            return;
        };
        if client.write_all(&answer).is_err() {
            return;
        }
    }
}

/// Sends it by a connection of its own; the answer, unless it is lost.
fn send(request: &[u8], store: SocketAddr) -> Option<Vec<u8>> {
    let mut store = TcpStream::connect(store).ok()?;
    store.write_all(request).ok()?;
    let answer = message(&mut store, request.starts_with(b"HEAD "));
    let _ = store.shutdown(Shutdown::Both);
    answer
}

/// A head, and the body that it announces; `None` where the connection ends before.
fn message(from: &mut TcpStream, is_bare: bool) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    let head = loop {
        if let Some(end) = message.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        fill(from, &mut message)?;
    };
    let text = String::from_utf8_lossy(&message[..head]).to_lowercase();
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length = length.and_then(|length| length.parse().ok());
    let body = if is_bare { 0 } else { length.unwrap_or(0) };
    while message.len() < head + body {
        fill(from, &mut message)?;
    }
    Some(message)
}

fn fill(from: &mut TcpStream, message: &mut Vec<u8>) -> Option<()> {
    let mut buffer = [0; 16 << 10];
    let got = from.read(&mut buffer).ok().filter(|&got| got > 0)?;
    message.extend_from_slice(&buffer[..got]);
    Some(())
}
