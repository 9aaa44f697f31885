//! The bytes of a value, or of a range of it, as the store sends them.
//!
//! Nothing is read ahead but what the connection holds. A long answer can be moved on inside the kernel. An answer that
//! breaks off is resumed where it ended, by a request for the rest of the same version; a few times, and then the body
//! ends with an error.

use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::{fmt, io};

use bytes::Bytes;
use hyper::body::Body;
use hyper::header::IF_MATCH;
use tokio::time::{Instant, Sleep, sleep_until};

use super::head::{check_range, meta};
use crate::s3::transport::call::{Answer, Call, unclear};
use crate::s3::transport::client::{Client, Found};
use crate::s3::transport::connector::Loan;
use crate::transfer::{Pipe, Piped};
use crate::value::Error;

const ENDED_EARLY: &str = "the answer ended early";

/// How often a body is resumed.
const RESUMED: u32 = 3;

/// The shortest body that is spliced; a shorter one goes through memory: a connection that was lent serves no second request.
const WORTH_LENDING: u64 = 1 << 20;

/// The most that is moved at once, in bytes.
const STEP: u64 = 512 << 10;

/// The bytes of a value, or of a range of it, as the store sends them.
pub struct RemoteBody {
    client: Arc<Client>,
    /// A request for the object, without a range.
    call: Box<Call>,
    etag: String,
    /// The bytes that are to come.
    left: Range<u64>,
    state: State,
    resumed: u32,
    /// Until when the next bytes are awaited.
    patience: Option<Pin<Box<Sleep>>>,
    /// Through which bytes are moved.
    pipe: Option<Arc<Pipe>>,
}

/// The next bytes of a value.
#[derive(Debug)]
pub enum RemotePiece {
    /// These.
    Bytes(Bytes),
    /// Those in a pipe.
    Piped(Piped),
}

impl RemotePiece {
    /// How many they are.
    #[expect(clippy::len_without_is_empty, reason = "none is empty")]
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Piped(piped) => piped.len,
        }
    }
}

type Resuming = Pin<Box<dyn Future<Output = Result<Answer, Error>> + Send>>;

enum State {
    Reading(Box<Answer>),
    Resuming(Resuming),
    Ended,
}

impl RemoteBody {
    /// The bytes `left` of the version `etag` of what `call` names, which `answer` brings.
    pub fn new(
        client: &Arc<Client>,
        call: Call,
        etag: &str,
        left: Range<u64>,
        answer: Answer,
    ) -> Self {
        Self {
            client: Arc::clone(client),
            call: Box::new(call),
            etag: etag.to_owned(),
            left,
            state: State::Reading(Box::new(answer)),
            resumed: 0,
            patience: None,
            pipe: None,
        }
    }

    /// The next bytes, or `None` at the end.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        loop {
            let broken = match &mut self.state {
                State::Ended => return Poll::Ready(None),
                State::Resuming(resuming) => match ready!(resuming.as_mut().poll(cx)) {
                    Ok(answer) => {
                        self.state = State::Reading(Box::new(answer));
                        continue;
                    }
                    Err(error) => return self.end_with(error),
                },
                State::Reading(answer) => match Pin::new(&mut answer.body).poll_frame(cx) {
                    Poll::Ready(Some(Ok(frame))) => {
                        self.patience = None;
                        let Ok(data) = frame.into_data() else {
                            continue;
                        };
                        return self.pass(data);
                    }
                    Poll::Ready(None) if self.left.is_empty() => {
                        self.state = State::Ended;
                        continue;
                    }
                    Poll::Ready(None) => ENDED_EARLY.to_owned(),
                    Poll::Ready(Some(Err(error))) => error.to_string(),
                    Poll::Pending => {
                        ready!(self.poll_patience(cx));
                        "the next bytes did not come in time".to_owned()
                    }
                },
            };
            if self.left.is_empty() {
                self.state = State::Ended;
            } else if let Err(error) = self.resume(broken) {
                return self.end_with(error);
            }
        }
    }

    /// As [`RemoteBody::poll_next`], but of a long answer all that hyper has not read is moved through a pipe.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RemotePiece, Error>>> {
        loop {
            self.borrow();
            if let Poll::Ready(next) = self.poll_next(cx) {
                return Poll::Ready(next.map(|bytes| bytes.map(RemotePiece::Bytes)));
            }
            let broken = match ready!(self.poll_pipe(cx)) {
                Ok(Some(piped)) => return Poll::Ready(Some(Ok(RemotePiece::Piped(piped)))),
                Ok(None) => ENDED_EARLY.to_owned(),
                Err(error) => error.to_string(),
            };
            if let Err(error) = self.resume(broken) {
                self.state = State::Ended;
                return Poll::Ready(Some(Err(error)));
            }
        }
    }

    /// The loan of the connection, where so much is to come, and its length is known, that it is worth it.
    fn loan(&self) -> Option<&Loan> {
        let State::Reading(answer) = &self.state else {
            return None;
        };
        let left = self.remaining();
        let is_long = left >= WORTH_LENDING && answer.body.size_hint().exact() == Some(left);
        answer.loan.as_ref().filter(|_| is_long)
    }

    /// Borrows the connection, where that is worth it and there is a pipe.
    fn borrow(&mut self) {
        let Some(loan) = self.loan().filter(|loan| !loan.is_lent()).cloned() else {
            return;
        };
        self.pipe = (self.pipe.take()).or_else(|| self.client.pipe().map(Arc::new));
        if self.pipe.is_some() {
            loan.borrow();
        }
    }

    /// The next bytes through the pipe, `None` at the end of the stream; for ever pending where nothing is borrowed.
    fn poll_pipe(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Piped>>> {
        let (State::Reading(answer), Some(pipe)) = (&self.state, &self.pipe) else {
            return Poll::Pending;
        };
        let Some(loan) = &answer.loan else {
            return Poll::Pending;
        };
        let most = usize::try_from(self.remaining().min(STEP)).unwrap_or(0);
        let moved = ready!(loan.poll_splice(cx, pipe, most))?;
        let piped = (moved > 0).then(|| Piped::new(pipe, moved));
        self.patience = None;
        self.left.start += moved as u64;
        if self.left.is_empty() {
            self.state = State::Ended;
        }
        Poll::Ready(Ok(piped))
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> u64 {
        self.left.end - self.left.start
    }

    fn pass(&mut self, data: Bytes) -> Poll<Option<Result<Bytes, Error>>> {
        let len = data.len() as u64;
        if len > self.remaining() {
            return self.end_with(unclear("the answer is longer than it said"));
        }
        self.left.start += len;
        if self.left.is_empty()
            && let State::Reading(answer) = &self.state
            && answer.body.is_end_stream()
        {
            // The connection is free for the next request.
            self.state = State::Ended;
        }
        Poll::Ready(Some(Ok(data)))
    }

    fn end_with(&mut self, error: Error) -> Poll<Option<Result<Bytes, Error>>> {
        self.state = State::Ended;
        Poll::Ready(Some(Err(error)))
    }

    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let until = Instant::now() + self.client.timeout;
        let patience = self
            .patience
            .get_or_insert_with(|| Box::pin(sleep_until(until)));
        ready!(patience.as_mut().poll(cx));
        self.patience = None;
        Poll::Ready(())
    }

    /// Asks for the rest, after the answer broke off.
    fn resume(&mut self, broken: String) -> Result<(), Error> {
        if self.resumed == RESUMED {
            return Err(Error::BadGateway { said: broken });
        }
        self.resumed += 1;
        let client = Arc::clone(&self.client);
        let (etag, left) = (self.etag.clone(), self.left.clone());
        let call = self.call.ranged(&left)?.with(IF_MATCH, &etag)?;
        self.state = State::Resuming(Box::pin(async move {
            match client.read(&call).await? {
                Found::Answer(answer) => {
                    let meta = meta(&answer, Some(&etag))?;
                    if meta.etag != etag {
                        return Err(Error::Truncated);
                    }
                    check_range(&answer, &left, meta.len).map(|()| answer)
                }
                Found::Missing | Found::Changed => Err(Error::Truncated),
            }
        }));
        Ok(())
    }
}

impl fmt::Debug for RemoteBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteBody")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}
