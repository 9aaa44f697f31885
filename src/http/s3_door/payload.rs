//! The body of a request of this door: how long it is, and what its client says of it.

use crate::http::body::request::Received;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::too_large;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::values::put::{PutRequest, verify};
use crate::store::{Digests, Hasher, Wanted};

/// What the head of a request says of its body.
#[derive(Debug, Default)]
pub struct Payload {
    /// Its length in bytes, where that is known.
    pub len: Option<u64>,
    expected: Digests,
}

impl Payload {
    pub fn of(asked: &RequestHead<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            len: asked.len,
            expected: Digests::of(&asked.head.headers)?,
        })
    }

    /// The digests that it must have.
    pub fn expected(&self) -> Digests {
        self.expected
    }

    /// The digests that follow as trailers.
    pub fn announced(&self) -> Wanted {
        Wanted::default()
    }

    /// Gives `put` the length of its value, and its digests.
    pub fn expect(&self, put: &mut PutRequest) -> Result<(), Refusal> {
        (put.len, put.following) = (self.len, self.announced());
        put.expect(self.expected)
    }

    /// Has `body` give the bytes of the value.
    pub fn open(self, _: &RequestContext, _: &mut Received<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    /// All of a body, which is `most` bytes long at most.
    pub async fn read(
        self,
        request: &RequestContext,
        body: &mut Received<'_>,
        most: usize,
    ) -> Result<Vec<u8>, Refusal> {
        let expected = self.expected;
        self.open(request, body)?;
        let mut text = Vec::new();
        while let Some(bytes) = body.next().await? {
            if text.len() + bytes.len() > most {
                return Err(too_large(most as u64));
            }
            text.extend_from_slice(&bytes);
        }
        let mut hasher = Hasher::new(expected.wanted());
        hasher.update(&text);
        verify(&expected, &hasher.finish())?;
        Ok(text)
    }
}
