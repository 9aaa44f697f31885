//! What a test reads: the response of a stream as HTTP/1.1.

use std::fmt::Write as _;
use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use http::Response;
use http::header::CONTENT_LENGTH;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::OwnedWriteHalf;

use super::connection::broken;

/// What the test reads.
pub(super) struct Output {
    pub(super) near: OwnedWriteHalf,
}

/// How a response is to be written.
pub(super) struct Asked<'a> {
    pub(super) is_head: bool,
    pub(super) closes: bool,
    /// All of the request has been sent.
    pub(super) is_sent: &'a AtomicBool,
    pub(super) sender: SendRequest<Bytes>,
}

impl Asked<'_> {
    /// Whether the connection ends with this response.
    async fn closes(&mut self) -> bool {
        // A server that goes away takes no more requests, and a client that is answered early does not end its own.
        let sender = &mut self.sender;
        let has_ended = |ready| Poll::Ready(matches!(ready, Poll::Ready(Err(_))));
        let goes_away = poll_fn(|cx| has_ended(sender.poll_ready(cx)));
        self.closes || !self.is_sent.load(Ordering::Acquire) || goes_away.await
    }
}

impl Output {
    /// Writes the whole response; whether the connection may go on.
    pub(super) async fn answer(
        &mut self,
        mut response: ResponseFuture,
        asked: &mut Asked<'_>,
    ) -> io::Result<bool> {
        while let Some(interim) = poll_fn(|cx| response.poll_informational(cx)).await {
            let head = head(&interim.map_err(broken)?, "");
            self.near.write_all(head.as_bytes()).await?;
        }
        let response = response.await.map_err(broken)?;
        let closes = asked.closes().await;
        let is_empty = asked.is_head || matches!(response.status().as_u16(), 204 | 304);
        let is_chunked = !is_empty && !response.headers().contains_key(CONTENT_LENGTH);
        let close = closes.then_some("connection: close\r\n");
        let coding = is_chunked.then_some("transfer-encoding: chunked\r\n");
        let more = [close, coding].map(Option::unwrap_or_default).concat();
        let head = head(&response, &more);
        self.near.write_all(head.as_bytes()).await?;
        let mut body = response.into_body();
        while let Some(data) = body.data().await {
            let data = data.map_err(broken)?;
            if is_chunked && !data.is_empty() {
                let line = format!("{:x}\r\n", data.len());
                let chunk = [line.as_bytes(), &data, b"\r\n"].concat();
                self.near.write_all(&chunk).await?;
            } else {
                self.near.write_all(&data).await?;
            }
            let released = body.flow_control().release_capacity(data.len());
            released.map_err(broken)?;
        }
        if is_chunked {
            self.near.write_all(b"0\r\n\r\n").await?;
        }
        Ok(!closes)
    }
}

fn head<T>(response: &Response<T>, more: &str) -> String {
    let mut head = format!("HTTP/1.1 {}\r\n", response.status());
    for (name, value) in response.headers() {
        let value = String::from_utf8_lossy(value.as_bytes());
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head + more + "\r\n"
}
