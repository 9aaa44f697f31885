//! PUT of an archive: the members of a tar are received one after the other, each becomes a value as a PUT would store
//! it.
//!
//! Short values are published together: while the publisher takes some, the next ones arrive. Nothing is stored of a
//! member that is truncated or refused. The first one that is refused ends the archive: what came before it is stored,
//! and the response counts that.

use std::collections::HashSet;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use async_trait::async_trait;
use futures_util::future::{FutureExt as _, LocalBoxFuture};
use futures_util::stream::{FuturesOrdered, StreamExt as _};
use hyper::StatusCode;
use serde::Serialize;

use crate::access::Right;
use crate::http::archives::tar::{Member, TarReader};
use crate::http::archives::{BAD_ARCHIVE, UnpackRequest, check_digests};
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::refusal::common::{PRECONDITION, too_large};
use crate::http::refusal::{BulkProgress, BulkWork, Refusal};
use crate::http::request::RequestContext;
use crate::http::response::{JSON, Outcome, unstored};
use crate::http::values::put::{PutRequest, receive_part};
use crate::http::values::siblings::value_of;
use crate::http::verb::{BodyUse, Verb};
use crate::store::bounds::Together;
use crate::store::{BadKey, Key, MAX_LEN, Preconditions, Published, StagingQuota, Store};

/// The most values that are published at once. Each that goes to an S3 store has one of its connections, which others
/// need too.
const MOST_AT_ONCE: usize = 256;
const MOST_AT_ONCE_S3: usize = 8;

/// What has become of an archive.
#[derive(Debug, Default, Serialize)]
struct Unpacked {
    /// The number of values that were stored, and of their bytes.
    stored: u64,
    bytes: u64,
    /// The number of members that were not stored, as their keys had values already; and the keys of the first ones.
    existing: u64,
    existing_keys: Vec<String>,
}

/// The publishing of a value of this length.
type MemberPublishing<'r> = LocalBoxFuture<'r, (Key<'static>, u64, Result<Published, Refusal>)>;

/// The key of the member that is not stored, if the archive had come to one, and why.
type Halted = (Option<String>, Refusal);

/// An archive that is being unpacked.
struct Unpacking<'r> {
    request: &'r RequestContext,
    asked: UnpackRequest,
    under_way: FuturesOrdered<MemberPublishing<'r>>,
    /// The keys and the bytes of what is under way.
    keys: HashSet<Key<'static>>,
    bytes: u64,
    /// The members so far.
    together: Together,
    unpacked: Unpacked,
    /// The keys of the first values that were stored.
    first: Vec<Key<'static>>,
    halted: Option<Halted>,
}

#[async_trait(?Send)]
impl Verb for UnpackRequest {
    fn body(&self) -> BodyUse {
        BodyUse::Values
    }

    fn needs(&self) -> Vec<Need<'_>> {
        vec![Need::any(Right::Create, &self.folder)]
    }

    fn of_each(&self) -> Option<&'static str> {
        Some("PUT")
    }

    async fn perform(
        self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        let mut unpacking = Unpacking {
            request,
            asked: *self,
            under_way: FuturesOrdered::new(),
            keys: HashSet::new(),
            bytes: 0,
            together: Together::default(),
            unpacked: Unpacked::default(),
            first: Vec::new(),
            halted: None,
        };
        let received = unpacking.receive(&mut TarReader::new(body)).await;
        unpacking.settle(0, 0).await;
        // Of several failures, the first member's.
        let halted = unpacking.halted.or(received.err());
        let Some((key, why)) = halted else {
            let mut json = serde_json::to_vec(&unpacking.unpacked).unwrap_or_default();
            json.push(b'\n');
            return Ok(unstored(StatusCode::OK, JSON, json).into());
        };
        let Unpacked { stored, bytes, .. } = unpacking.unpacked;
        Err(why.after(BulkProgress {
            at: key,
            values: Some(stored),
            bytes: Some(bytes),
            keys: unpacking.first,
            ..BulkProgress::of(BulkWork::Archive)
        }))
    }
}

impl Unpacking<'_> {
    /// Receives all members, up to the first that is refused.
    async fn receive(&mut self, tar: &mut TarReader<'_, Received<'_>>) -> Result<(), Halted> {
        while let Some(next) = self.meanwhile(tar.next()).await {
            let Some(member) = next.map_err(|why| (None, why))? else {
                break;
            };
            // As archives of `.` have it.
            let name = member.name.strip_prefix(b"./").unwrap_or(&member.name);
            let key = format!("{}{}", self.asked.folder, String::from_utf8_lossy(name));
            let stored = match std::str::from_utf8(name) {
                Ok(_) => self.store(&key, &member, tar).await,
                Err(_) => Err(BadKey::NotUtf8.into()),
            };
            // No more is told of what is too long for a key.
            stored.map_err(|why| (Some(key.chars().take(MAX_LEN).collect()), why))?;
        }
        let trailers = tar.body.trailers.as_ref();
        let checked = trailers.map_or(Ok(()), check_digests);
        checked.map_err(|why| (None, why))
    }

    /// Receives a member, and begins to publish it.
    async fn store(
        &mut self,
        key: &str,
        member: &Member,
        tar: &mut TarReader<'_, Received<'_>>,
    ) -> Result<(), Refusal> {
        let request = self.request;
        if let Some(kind) = member.other {
            return Err(
                BAD_ARCHIVE.because(format!("it is {kind}, and only plain files are stored"))
            );
        }
        let key = Key::new(key.to_owned())?;
        let (len, limit) = (member.len, request.service.config.limits.max_body);
        if len > limit {
            return Err(too_large(limit));
        }
        if let Some(account) = request.service.store.account() {
            account.may_join(&mut self.together, key.as_str(), len)?;
        }
        // Of two members with one name, the later one stays. A sibling counts only if it is later than its value.
        let value = value_of(&key, &request.service.config);
        let waits = |before: &Key<'_>| self.keys.contains(before);
        let before = match *request.service.store {
            _ if waits(&key) || value.as_ref().is_some_and(waits) => 0,
            Store::Directory(_) => MOST_AT_ONCE - 1,
            Store::S3(_) => MOST_AT_ONCE_S3 - 1,
        };
        let quota = request.service.store.quota();
        let most = quota.map_or(0, StagingQuota::most_at_once);
        self.settle(before, most.saturating_sub(len)).await;
        let mut put = PutRequest::of(key.clone(), &request.service.config)?;
        put.preconditions = self.asked.only_new.then_some(Preconditions::NEW);
        put.len = Some(len);
        if let Some(date) = member.date {
            put.set_date(date);
        }
        let received = receive_part(request, put, async || tar.data().await);
        match self.meanwhile(received).await {
            Some(Ok(Some(publishing))) => {
                self.keys.insert(key.clone());
                self.bytes += len;
                let published = publishing.map(move |published| (key, len, published));
                self.under_way.push_back(published.boxed_local());
            }
            // Values are dropped, or the archive has ended.
            Some(Ok(None)) | None => {}
            Some(Err(why)) if why.kind == PRECONDITION.kind => self.leave(&key),
            Some(Err(why)) => return Err(why),
        }
        Ok(())
    }

    /// What `future` becomes, while values are published; `None` once the archive is halted. A publishing has a place
    /// in the queue of the publisher, or a connection, which it would keep from all others if a client that sends
    /// nothing could stop it.
    async fn meanwhile<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|cx| {
            while let Poll::Ready(Some(published)) = self.under_way.poll_next_unpin(cx) {
                self.note(published);
            }
            match self.halted {
                Some(_) => Poll::Ready(None),
                None => future.as_mut().poll(cx).map(Some),
            }
        })
        .await
    }

    /// Waits until at most so many values, and bytes of them, are under way.
    async fn settle(&mut self, most: usize, most_bytes: u64) {
        while (self.under_way.len() > most || self.bytes > most_bytes)
            && let Some(published) = self.under_way.next().await
        {
            self.note(published);
        }
    }

    fn note(&mut self, (key, len, published): (Key<'static>, u64, Result<Published, Refusal>)) {
        self.keys.remove(&key);
        self.bytes -= len;
        match published {
            Ok(_) => {
                self.unpacked.stored += 1;
                self.unpacked.bytes += len;
                self.request.audit_changed(&key);
                if self.first.len() < BulkProgress::MOST_NAMED {
                    self.first.push(key);
                }
            }
            Err(why) if why.kind == PRECONDITION.kind => self.leave(&key),
            Err(why) => {
                self.halted
                    .get_or_insert((Some(key.as_str().to_owned()), why));
            }
        }
    }

    /// Counts a member whose key has a value, where only new ones are stored.
    fn leave(&mut self, key: &Key<'_>) {
        self.unpacked.existing += 1;
        if self.unpacked.existing_keys.len() < BulkProgress::MOST_NAMED {
            self.unpacked.existing_keys.push(key.as_str().to_owned());
        }
    }
}
