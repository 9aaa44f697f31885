//! One exchange: from the head of a request to the last byte of its answer.
//!
//! An [`Exchange`] is alive as long as the exchange is, in the service first and in the body of the answer then, so
//! that its end is known however it ends: sent, given up, or cut off. It writes the line of the access log.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use hyper::Request;

use super::link::Link;

/// An exchange going on.
#[derive(Debug)]
pub(super) struct Exchange {
    link: Rc<Link>,
    log: Option<Box<Line>>,
}

/// What the access log will say.
#[derive(Debug)]
struct Line {
    began: Instant,
    peer: SocketAddr,
    method: String,
    target: String,
    reactor: usize,
    status: u16,
    bytes: u64,
}

impl Exchange {
    pub(super) fn begin(link: &Rc<Link>) -> Self {
        link.begin();
        Self {
            link: Rc::clone(link),
            log: None,
        }
    }

    /// Writes a line to the access log when the exchange ends.
    pub(super) fn log<B>(&mut self, request: &Request<B>, peer: SocketAddr, reactor: usize) {
        self.log = Some(Box::new(Line {
            began: Instant::now(),
            peer,
            method: request.method().to_string(),
            target: request.uri().path().to_owned(),
            reactor,
            status: 0,
            bytes: 0,
        }));
    }

    /// The answer is known.
    pub(super) fn answered(&mut self, status: u16) {
        if let Some(line) = &mut self.log {
            line.status = status;
        }
    }

    /// `bytes` of the answer were handed to the socket.
    pub(super) fn sent(&mut self, bytes: usize) {
        if let Some(line) = &mut self.log {
            line.bytes += bytes as u64;
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.link.end();
        if let Some(line) = self.log.take() {
            let Line {
                began,
                peer,
                method,
                target,
                reactor,
                status,
                bytes,
            } = *line;
            let ms = began.elapsed().as_secs_f64() * 1e3;
            // A status of 0: the client left before there was an answer.
            tracing::info!(target: "access", %peer, method, key = target, status, bytes, ms, reactor);
        }
    }
}
