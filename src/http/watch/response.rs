//! Headers of responses that go on as a watch of changes.

use hyper::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    SEC_WEBSOCKET_ACCEPT, UPGRADE,
};

use crate::http::response::plain::put;

/// Says in `headers` that events follow.
pub fn announce_events(headers: &mut HeaderMap) {
    let media_type = HeaderValue::from_static("text/event-stream");
    headers.insert(CONTENT_TYPE, media_type);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Else nginx keeps events back until it has many.
    let name = HeaderName::from_static("x-accel-buffering");
    headers.insert(name, HeaderValue::from_static("no"));
}

/// Says in `headers` that a WebSocket follows, by this Sec-WebSocket-Accept.
pub fn accept_websocket(headers: &mut HeaderMap, accept: String) {
    headers.extend(upgrade());
    put(headers, SEC_WEBSOCKET_ACCEPT, accept);
}

/// RFC 9110, section 7.8: who sends Upgrade sends Connection with it.
pub fn upgrade() -> [(HeaderName, HeaderValue); 2] {
    [
        (UPGRADE, HeaderValue::from_static("websocket")),
        (CONNECTION, HeaderValue::from_static("upgrade")),
    ]
}
