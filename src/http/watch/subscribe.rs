//! The answer to a client that follows changes: events without end, or another protocol.

use hyper::Response;

use crate::http::body::response::Body;
use crate::http::exchange::connection_state::ConnectionState;
use crate::http::exchange::record::RequestRecord;
use crate::http::response::outcome::Outcome;
use crate::http::service::handler::{Handler, seal};
use crate::http::service::operation::ResponseContext;
use crate::http::watch::request::WatchTransport;
use crate::http::watch::{Events, Session, Subscription, Upgraded};
use crate::store::Error;

/// A store that others write to tells its changes in no order that holds for all.
pub const NO_WATCH: Error = Error::NotSupported {
    name: "no-watch",
    what: "changes of an S3 store are not told: list the keys from time to time",
};

/// The response; where the protocol is another behind it, `upgraded` gets the session.
pub fn subscribe(
    handler: &Handler,
    subscription: Subscription,
    transport: WatchTransport,
    context: &ResponseContext,
    connection: &ConnectionState,
    record: RequestRecord,
    upgraded: &Upgraded,
) -> Response<Body> {
    record.watches();
    match transport {
        WatchTransport::Events => {
            // The kernel holds little for a subscriber, which the next response would have too.
            connection.close_after_response();
            let outcome = Outcome::Subscribed(Box::new(Events::new(subscription)));
            seal(handler.render(outcome, context), connection, record)
        }
        WatchTransport::WebSocket(accept) => {
            let mut response = handler.render(Outcome::Upgraded(accept), context);
            let status = response.status().as_u16();
            record.answered(status, response.headers_mut());
            let session = Session::new(subscription, record);
            upgraded.set(Some(Box::new(session)));
            response
        }
    }
}
