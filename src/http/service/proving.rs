//! A request that waits until it is known who asks: nothing but its head has been looked at.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use hyper::http::request::Parts;

use crate::http::client::Client;
use crate::http::exchange::connection_state::ConnectionState;
use crate::http::exchange::record::RequestRecord;
use crate::http::request::body::Frames;

/// A check of what proves a client; what comes of it is kept with the connection.
pub(in crate::http) type Check = Pin<Box<dyn Future<Output = ()>>>;

/// See the module. Resolves to the request, with which the service goes on.
pub struct Proving {
    check: Check,
    arrived: Option<Box<Arrived>>,
}

/// A request whose head has arrived.
pub struct Arrived {
    pub(in crate::http) connection: Rc<ConnectionState>,
    pub(in crate::http) client: Client,
    pub(in crate::http) head: Parts,
    pub(in crate::http) body: Frames,
    pub(in crate::http) record: RequestRecord,
}

impl Proving {
    pub(in crate::http) fn new(check: Check, arrived: Arrived) -> Self {
        let arrived = Some(Box::new(arrived));
        Self { check, arrived }
    }
}

impl Future for Proving {
    type Output = Box<Arrived>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Box<Arrived>> {
        match self.check.as_mut().poll(cx) {
            Poll::Ready(()) => self.arrived.take().map_or(Poll::Pending, Poll::Ready),
            Poll::Pending => Poll::Pending,
        }
    }
}
