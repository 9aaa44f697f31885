//! The answer to a client that follows changes: events without end, or another protocol.

use std::rc::Rc;

use hyper::Response;

use crate::http::body::response::Body;
use crate::http::exchange::ConnectionState;
use crate::http::exchange::record::RequestRecord;
use crate::http::response::outcome::Outcome;
use crate::http::service::handler::{Handler, attach_record};
use crate::http::service::operation::ResponseContext;
use crate::http::watch::events::Events;
use crate::http::watch::feed::{Permission, Subscribers, Subscription};
use crate::http::watch::request::{WatchRequest, WatchTransport};
use crate::http::watch::websocket::Session;

/// The response, and the session where the protocol is another behind it. The subscription begins before there is a response,
/// so that a client which acts on the response misses nothing.
pub fn subscribe(
    handler: &Handler,
    subscribers: &Rc<Subscribers>,
    request: WatchRequest,
    context: &ResponseContext,
    connection: &Rc<ConnectionState>,
    record: RequestRecord,
) -> (Response<Body>, Option<Box<Session>>) {
    let WatchRequest {
        transport,
        prefix,
        since,
    } = request;
    let permission = Permission::new(handler.guard.access(), context.proof.as_ref());
    let subscription = Subscription::new(subscribers, connection, prefix, since, permission);
    record.watches();
    match transport {
        WatchTransport::Events => {
            // The kernel holds little for a subscriber, which the next response would have too.
            connection.close_after_response();
            let outcome = Outcome::Subscribed(Box::new(Events::new(subscription)));
            let mut response = handler.render(outcome, context);
            attach_record(&mut response, connection, record);
            (response, None)
        }
        WatchTransport::WebSocket(accept) => {
            let mut response = handler.render(Outcome::Upgraded(accept), context);
            let status = response.status().as_u16();
            record.answered(status, response.headers_mut());
            let session = Session::new(subscription, record);
            (response, Some(Box::new(session)))
        }
    }
}
