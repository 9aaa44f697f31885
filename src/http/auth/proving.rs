//! A request that waits until it is known who asks: nothing but its head has been looked at.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use hyper::http::request::Parts;

use crate::http::body::request::Frames;
use crate::http::client::Client;
use crate::http::exchange::connection_state::ConnectionState;
use crate::http::exchange::record::RequestRecord;

/// A check of what proves a client; what comes of it is kept with the connection.
pub type Check = Pin<Box<dyn Future<Output = ()>>>;

/// See the module. Resolves to the request, with which the service goes on.
pub struct Proving {
    check: Check,
    arrived: Option<Box<Arrived>>,
}

/// A request whose head has arrived.
pub struct Arrived {
    pub(crate) connection: Rc<ConnectionState>,
    pub(crate) client: Client,
    pub(crate) head: Parts,
    pub(crate) body: Frames,
    pub(crate) record: RequestRecord,
}

impl Proving {
    pub(crate) fn new(check: Check, arrived: Arrived) -> Self {
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
