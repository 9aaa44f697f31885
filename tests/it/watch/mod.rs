//! The feed of changes, over server-sent events and WebSocket.

use crate::support::prelude::*;

mod events;
mod subscribers;
mod websocket;

/// A server of which many changes are made: in memory, for they would wait for a busy disk.
fn start(args: &[&str]) -> TestServer {
    Launch::new(args).on(&DataDir::in_memory()).start()
}

/// A path whose key takes 1.5 KB in an event: 255 bytes that JSON escapes.
fn long_key() -> String {
    "%01".repeat(255)
}

/// Changes `key` so many times, in hundreds on one connection.
#[track_caller]
fn burst(server: &TestServer, key: &str, times: usize) {
    let mut raw = server.connect();
    let request = format!("{}v", put_head(key, 1));
    for _ in 0..times / 100 {
        raw.send(request.repeat(100));
        for _ in 0..100 {
            assert_eq!(raw.answer().status, 200);
        }
    }
}
