//! The framing of requests against hyper's own: what one takes for a request must be one for the other.

use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};

use crate::http::head::framing::Framing;
use crate::http::head::syntax::MAX_HEAD;

/// hyper finds every head where the framing found it, and nothing else; and cutting the bytes anywhere changes nothing.
/// The first byte says where they are cut.
pub fn framing(data: &[u8]) {
    let Some((&cut, bytes)) = data.split_first() else {
        return;
    };
    let whole = Heads::of(bytes, usize::MAX);
    let pieces = Heads::of(bytes, usize::from(cut) + 1);
    let told = bytes.escape_ascii();
    assert_eq!(whole.targets, pieces.targets, "{told}");
    assert_eq!(whole.is_faulty, pieces.is_faulty, "{told}");
    // How much of a broken body comes before the fault depends on how it arrives.
    assert!(whole.is_faulty || whole.kept == pieces.kept, "{told}");
    let served = serve(&whole.kept);
    assert!(served.len() <= whole.targets.len(), "{served:?} in {told}");
    for (served, sent) in served.iter().zip(&whole.targets) {
        // hyper writes other forms of a target in its own way.
        let is_same = served == sent || !sent.contains(" /");
        assert!(is_same, "{served} is {sent}: {told}");
    }
}

/// What the framing says of a stream of requests.
#[derive(Debug, Default)]
pub(super) struct Heads {
    /// The first two words of each head.
    pub(super) targets: Vec<String>,
    /// What it gives on.
    kept: Vec<u8>,
    pub(super) is_faulty: bool,
}

impl Heads {
    /// Of `bytes` that arrive in pieces of `size`.
    pub(super) fn of(bytes: &[u8], size: usize) -> Self {
        let (mut heads, mut framing) = (Self::default(), Framing::default());
        let mut held = Vec::new();
        for piece in bytes.chunks(size) {
            held.extend_from_slice(piece);
            while !held.is_empty() && !heads.is_faulty {
                let heads_before = framing.heads;
                let Ok(passed) = framing.pass(&mut held) else {
                    heads.is_faulty = true;
                    break;
                };
                let kept = &held[..passed.kept];
                if framing.heads > heads_before {
                    heads.targets.push(target_of(kept));
                }
                heads.kept.extend_from_slice(kept);
                held.drain(..passed.len);
                if passed.len == 0 {
                    break;
                }
            }
        }
        heads
    }
}

fn target_of(head: &[u8]) -> String {
    let text = String::from_utf8_lossy(head);
    let words: Vec<&str> = text.trim_start().splitn(3, ' ').take(2).collect();
    words.join(" ")
}

/// Method and target of each request that hyper finds in `bytes`, whose bodies it reads whole.
pub(super) fn serve(bytes: &[u8]) -> Vec<String> {
    let served = Arc::new(Mutex::new(Vec::new()));
    let service = service_fn(|request: Request<Incoming>| {
        let served = Arc::clone(&served);
        async move {
            // No 2xx: that to CONNECT would turn the connection over.
            let response = Response::builder().status(404).body(Empty::<Bytes>::new());
            let (head, body) = request.into_parts();
            let line = format!("{} {}", head.method, head.uri);
            served.lock().expect("no panic under the lock").push(line);
            let _may_be_cut_off = body.collect().await;
            response
        }
    });
    let mut protocol = http1::Builder::new();
    protocol.half_close(true).header_read_timeout(None);
    protocol.max_header_size(MAX_HEAD);
    let mut connection = pin!(protocol.serve_connection(Script(bytes), service));
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..1000 {
        if connection.as_mut().poll(&mut cx).is_ready() {
            break;
        }
    }
    let served = served.lock().expect("no panic under the lock");
    served.clone()
}

/// A client that sends these bytes and takes every answer.
struct Script<'a>(&'a [u8]);

impl Read for Script<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let (now, later) = self.0.split_at(self.0.len().min(buf.remaining()));
        buf.put_slice(now);
        self.0 = later;
        Poll::Ready(Ok(()))
    }
}

impl Write for Script<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
