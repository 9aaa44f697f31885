//! A body that is sent to the store as it comes: a PUT of a whole value or of a part, of known length.
//!
//! Time counts only while the store is the one that is waited for. The store may answer before all is sent: that answer is
//! the outcome. Dropped, the request is cut off, and leaves what was there.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::time::{Instant, sleep, timeout};

use crate::s3::transport::answer::{Answer, Failure};
use crate::s3::transport::call::Call;
use crate::s3::transport::client::Client;
use crate::s3::transport::feed::Feed;
use crate::s3::transport::framing::Framing;
use crate::s3::transport::send_body::SendBody;
use crate::s3::transport::tries::Tries;
use crate::transfer::COPIED;
use crate::value::Error;

type Sent = Pin<Box<dyn Future<Output = Result<Answer, Failure>> + Send>>;

/// A body on its way to the store.
pub struct Sending {
    client: Arc<Client>,
    framing: Framing,
    feed: Feed,
    sent: Sent,
}

impl Sending {
    /// Begins to send `len` bytes as `call` says; their digest may be known.
    pub fn begin(
        client: &Arc<Client>,
        call: &Call,
        len: u64,
        sha256: Option<[u8; 32]>,
    ) -> Result<Self, Error> {
        let framing = Framing::new(len, sha256);
        let call = framing.describe(call.clone())?;
        let (payload, body_len) = (framing.payload(), framing.body_len());
        let feed = Feed::default();
        let (taker, to) = (feed.fed(), Arc::clone(client));
        let sent = async move {
            let mut tries = Tries::until(Instant::now() + to.timeout(), to.counters());
            loop {
                let permit = to.permit(Instant::now() + to.timeout()).await?;
                let body = SendBody::Fed(taker.clone(), body_len);
                let failure = match to.send(&call, body, &payload, permit).await {
                    Ok(answer) => return answer.checked(to.timeout()).await,
                    Err(failure) => failure,
                };
                // What a connection has taken is gone.
                let pause = if taker.is_taken() {
                    None
                } else {
                    tries.pause_after(&failure)
                };
                match pause {
                    Some(pause) if matches!(failure, Failure::NotSent(_)) => sleep(pause).await,
                    _ => return Err(failure),
                }
            }
        };
        Ok(Self {
            client: Arc::clone(client),
            framing,
            feed,
            sent: Box::pin(sent),
        })
    }

    /// How many bytes are to come.
    pub fn left(&self) -> u64 {
        self.framing.left()
    }

    /// Sends the next bytes, waiting while the store is slower than the sender. The write is not made whatever comes.
    pub async fn push(&mut self, data: Bytes) -> Result<(), Failure> {
        let room = timeout(self.client.timeout(), poll_fn(|cx| self.poll_room(cx)));
        room.await.map_err(|_| Failure::Late)??;
        // A short run would keep all that was received with it.
        let data = if data.len() < COPIED {
            Bytes::copy_from_slice(&data)
        } else {
            data
        };
        let feed = &self.feed;
        let framed = self.framing.frame(data, |bytes| feed.push(bytes));
        framed.map_err(Failure::Unfit)
    }

    /// Sends the end, and waits for the answer.
    pub async fn finish(self) -> Result<Answer, Failure> {
        self.feed.push(self.framing.end().map_err(Failure::Unfit)?);
        self.feed.end();
        // All of it is in the connection's hands, or in the queue: both move within the time.
        let sent = timeout(self.client.timeout(), self.sent).await;
        sent.map_err(|_| Failure::Late)?
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        if let Poll::Ready(early) = self.sent.as_mut().poll(cx) {
            return Poll::Ready(Err(match early {
                Ok(_) => Failure::Lost("an answer before the end".to_owned()),
                Err(failure) => failure,
            }));
        }
        ready!(self.feed.poll_room(cx));
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sending")
            .field("left", &self.left())
            .finish_non_exhaustive()
    }
}
