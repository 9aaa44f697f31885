//! PUT of an archive: the members of a tar are received one after the other, each becomes a value as a PUT would store it.
//!
//! Short values are published together: while the publisher takes some, the next ones arrive. Nothing is stored of a member that is
//! truncated or refused. The first one that is refused ends the archive: what came before it is stored, and the response counts that.

use std::collections::HashSet;

use futures_util::future::{FutureExt as _, LocalBoxFuture};
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use crate::http::archives::tar::{Member, TarReader};
use crate::http::archives::{BadArchive, UnpackRequest, Unpacked, check_digests};
use crate::http::body::request::Received;
use crate::http::head::path::check_depth;
use crate::http::refusal::{HaltedArchive, Refusal};
use crate::http::response::outcome::Outcome;
use crate::http::service::context::RequestContext;
use crate::http::service::operation::PutOptions;
use crate::http::values::content_names::named_sha256;
use crate::http::values::put::receive_part;
use crate::store::{BadKey, Digests, Key, Preconditions, Published};

/// The most values that are published at once, and the most bytes of them.
const MOST_AT_ONCE: usize = 256;
const MOST_BYTES: u64 = 1 << 20;

/// The publishing of a value of this length.
type Publishing<'r> = LocalBoxFuture<'r, (Key<'static>, u64, Result<Published, Refusal>)>;

/// An archive that is being unpacked.
struct Unpacking<'r, 'b, 'c> {
    request: &'r RequestContext,
    asked: UnpackRequest,
    tar: TarReader<'b, Received<'c>>,
    under_way: FuturesUnordered<Publishing<'r>>,
    /// The keys and the bytes of what is under way.
    keys: HashSet<Key<'static>>,
    bytes: u64,
    unpacked: Unpacked,
    /// The member that is not stored, and why.
    halted: Option<(Option<String>, Refusal)>,
}

/// Stores the members of the tar that `body` is.
pub async fn unpack(
    request: &RequestContext,
    asked: UnpackRequest,
    body: &mut Received<'_>,
) -> Result<Outcome, Refusal> {
    let mut unpacking = Unpacking {
        request,
        asked,
        tar: TarReader::new(body),
        under_way: FuturesUnordered::new(),
        keys: HashSet::new(),
        bytes: 0,
        unpacked: Unpacked::default(),
        halted: None,
    };
    unpacking.store_members().await;
    unpacking.settle(0, 0).await;
    let Unpacking {
        unpacked, halted, ..
    } = unpacking;
    match halted {
        None => Ok(Outcome::Unpacked(Box::new(unpacked))),
        Some((member, why)) => Err(Refusal::OfArchive(Box::new(HaltedArchive {
            member,
            unpacked,
            why,
        }))),
    }
}

impl Unpacking<'_, '_, '_> {
    /// Stores all members, up to the first that is refused.
    async fn store_members(&mut self) {
        while self.halted.is_none() {
            let (name, stored) = match self.tar.next().await {
                Ok(Some(member)) => {
                    let name = String::from_utf8_lossy(without_dot(&member.name));
                    let key = format!("{}{name}", self.asked.folder);
                    (Some(key), self.store(member).await)
                }
                Ok(None) => {
                    let trailers = self.tar.body.trailers.as_ref();
                    let checked = trailers.map_or(Ok(()), check_digests);
                    self.halted = checked.err().map(|why| (None, why.into()));
                    return;
                }
                Err(why) => (None, Err(why)),
            };
            if let Err(why) = stored {
                // One of those before it may have failed meanwhile.
                self.settle(0, 0).await;
                self.halted.get_or_insert((name, why));
            }
        }
    }

    /// Receives a member, and begins to publish it.
    async fn store(&mut self, member: Member) -> Result<(), Refusal> {
        let (request, config) = (self.request, &self.request.service.config);
        if let Some(kind) = member.other {
            return Err(BadArchive::Kind(kind).into());
        }
        let name = without_dot(&member.name);
        let name = std::str::from_utf8(name).map_err(|_| BadKey::NotUtf8)?;
        let key = Key::new(format!("{}{name}", self.asked.folder))?;
        check_depth(&key, config.limits.max_key_depth)?;
        let (len, limit) = (member.len, config.limits.max_body);
        if len > limit {
            return Err(Refusal::TooLarge { limit });
        }
        let mut options = PutOptions {
            preconditions: self.asked.only_new.then_some(Preconditions::NEW),
            expected: Digests::default().and_sha256(named_sha256(&key, config)?)?,
            ..PutOptions::default()
        };
        request.permit_put(&key, &mut options)?;
        // Of two members with one name, the later one stays.
        let most = if self.keys.contains(&key) {
            0
        } else {
            MOST_AT_ONCE
        };
        self.settle(most, MOST_BYTES.saturating_sub(len)).await;
        let existing = options.existing;
        let tar = &mut self.tar;
        let received = receive_part(request, &key, options, Some(len), async || tar.data().await);
        let received = request.narrowed(existing, received.await);
        let publishing = match received {
            Err(Refusal::Precondition) if self.asked.only_new => {
                self.unpacked.leave(key.as_str().to_owned());
                return Ok(());
            }
            received => received?,
        };
        // Where values are dropped, none is published.
        let Some(publishing) = publishing else {
            return Ok(());
        };
        self.keys.insert(key.clone());
        self.bytes += len;
        self.under_way.push(Box::pin(async move {
            let published = publishing.await.map_err(Refusal::from);
            (key, len, request.narrowed(existing, published))
        }));
        // A change goes to the publisher when it is first polled.
        while let Some(Some(published)) = self.under_way.next().now_or_never() {
            self.note(published);
        }
        Ok(())
    }

    /// Waits until at most so many values, and bytes of them, are under way.
    async fn settle(&mut self, most: usize, most_bytes: u64) {
        while self.under_way.len() > most || self.bytes > most_bytes {
            let Some(published) = self.under_way.next().await else {
                return;
            };
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
            }
            Err(Refusal::Precondition) if self.asked.only_new => {
                self.unpacked.leave(key.as_str().to_owned());
            }
            Err(why) => {
                let member = Some(key.as_str().to_owned());
                self.halted.get_or_insert((member, why));
            }
        }
    }
}

/// The name of a member without the `./` that it has in an archive of `.`.
fn without_dot(name: &[u8]) -> &[u8] {
    name.strip_prefix(b"./").unwrap_or(name)
}
