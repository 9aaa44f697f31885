//! GET of an archive: the values below a folder, in the order of their keys, each opened when its turn comes.
//!
//! At most one value is open, and in memory are a page of keys, one piece of the archive and, for a zip, the directory that ends it: its
//! bytes are reserved before the first byte is sent, from the share of this reactor. A value that was removed since the keys were listed is
//! left out. One that cannot be read ends the archive before its end, and so its body: no client takes it for whole.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, StreamExt as _, try_unfold};
use tokio::sync::OwnedSemaphorePermit;

use crate::access::Right;
use crate::failpoint;
use crate::http::archives::zip::{Zip, record_len};
use crate::http::archives::{ArchiveFormat, ArchiveRequest, Pieces, tar};
use crate::http::auth::credentials::Principal;
use crate::http::body::{Content, Piece};
use crate::http::refusal::Refusal;
use crate::http::response::outcome::Outcome;
use crate::http::service::context::{RequestContext, Service};
use crate::store::{CONTENDED, Error, Found, IN_MEMORY, Key, Page, TRIES};

/// Headers and short values are sent together, about so many bytes of them.
const BATCH: usize = 16 << 10;

/// The error of a zip for whose directory there is no room now.
const NO_ROOM: Error =
    Error::Exhausted("memory for the directories of zips, which a tar does not need");

/// Answers the archive that was `asked` for.
pub async fn archive(request: &RequestContext, asked: ArchiveRequest) -> Result<Outcome, Refusal> {
    let ArchiveRequest { format, page } = asked;
    let folder = page.prefix.clone();
    let pieces: Pieces = if request.is_head() {
        Box::pin(stream::empty())
    } else {
        let mut packer = Packer::new(request, format, page);
        packer.reserve().await?;
        // What fails at once is an error, and no archive that breaks off.
        let first = packer.next().await?;
        let rest = try_unfold(packer, async |mut packer| {
            let piece = packer.next().await?;
            Ok(piece.map(|piece| (piece, packer)))
        });
        Box::pin(stream::iter(first.map(Ok)).chain(rest))
    };
    Ok(Outcome::Archive {
        format,
        folder,
        pieces,
    })
}

/// An archive that is being made.
struct Packer {
    service: Rc<Service>,
    /// `None` where there are no rules.
    principal: Option<Rc<Principal>>,
    /// The state of a zip; a tar has none.
    zip: Option<Zip>,
    /// The memory for the directory of the zip.
    reserved: Option<OwnedSemaphorePermit>,
    /// The next page of keys, if there is one.
    page: Option<Page>,
    keys: VecDeque<Key<'static>>,
    /// The value that is sent next, and its length.
    value: Option<(Content, u64)>,
    /// The headers and the short values that are sent before it.
    out: BytesMut,
    /// The end of the archive, once all values are sent.
    end: Option<VecDeque<Bytes>>,
    folder_len: usize,
}

impl Packer {
    fn new(request: &RequestContext, format: ArchiveFormat, page: Page) -> Self {
        Self {
            service: Rc::clone(&request.service),
            principal: request.context.principal.clone(),
            zip: (format == ArchiveFormat::Zip).then(Zip::default),
            reserved: None,
            folder_len: page.prefix.len(),
            page: Some(page),
            keys: VecDeque::new(),
            value: None,
            out: BytesMut::new(),
            end: None,
        }
    }

    /// Reserves the memory for the directory of a zip of the keys that there are now, and of some more.
    async fn reserve(&mut self) -> Result<(), Error> {
        if self.zip.is_none() {
            return Ok(());
        }
        let (first, mut len) = (self.page.clone(), BATCH);
        while let Some(page) = self.page.take() {
            for key in self.list(page).await? {
                len += record_len(&key.as_str()[self.folder_len..]);
            }
            if len > self.service.directories.available_permits() {
                return Err(NO_ROOM);
            }
        }
        self.page = first;
        self.reserve_more(len)
    }

    fn reserve_more(&mut self, len: usize) -> Result<(), Error> {
        let memory = Arc::clone(&self.service.directories);
        let len = u32::try_from(len).map_err(|_| NO_ROOM)?;
        let more = memory.try_acquire_many_owned(len).map_err(|_| NO_ROOM)?;
        match &mut self.reserved {
            Some(reserved) => reserved.merge(more),
            none => *none = Some(more),
        }
        Ok(())
    }

    /// The keys of `page` that the client may read. The page behind it is the next one.
    async fn list(&mut self, page: Page) -> Result<VecDeque<Key<'static>>, Error> {
        let (store, reactor) = (&self.service.store, self.service.reactor);
        let listing = store.list(reactor, page.clone()).await?;
        let next = listing.next.clone();
        self.page = next.map(|after| Page { after, ..page });
        let principal = self.principal.as_deref();
        let may_read = |key: &&Key<'_>| {
            principal.is_none_or(|it| it.subject.grant.allows(Right::Read, key.as_str()))
        };
        let keys = listing.keys.iter().map(|(key, _)| key);
        Ok(keys.filter(may_read).cloned().collect())
    }

    /// The next piece of the archive, or `None` at its end.
    async fn next(&mut self) -> Result<Option<Piece>, Error> {
        loop {
            if self.out.len() >= BATCH || (self.value.is_some() && !self.out.is_empty()) {
                return Ok(Some(Piece::Bytes(self.out.split().freeze())));
            }
            if let Some(end) = &mut self.end {
                return Ok(end.pop_front().map(Piece::Bytes));
            }
            if let Some((value, len)) = &mut self.value {
                let is_long = value.remaining().is_some_and(|left| left > IN_MEMORY);
                // A zip has the sum of the bytes, so they are read.
                let as_file = is_long && self.zip.is_none() && failpoint::takes_over();
                let piece = poll_fn(|cx| value.poll_piece(cx, as_file)).await;
                if let Some(piece) = piece.transpose()? {
                    if let (Some(zip), Piece::Bytes(bytes)) = (&mut self.zip, &piece) {
                        zip.note(bytes);
                    }
                    return Ok(Some(piece));
                }
                let len = *len;
                self.value = None;
                self.end_member(len);
            } else if let Some(key) = self.keys.pop_front() {
                self.begin_member(&key).await?;
            } else if let Some(page) = self.page.take() {
                self.keys = self.list(page).await?;
            } else {
                self.finish();
            }
        }
    }

    /// Begins with the value of `key`, if there is still one; a short one is sent with its header.
    async fn begin_member(&mut self, key: &Key<'static>) -> Result<(), Error> {
        let Some((len, modified, content)) = open(&self.service, key).await? else {
            return Ok(());
        };
        let name = &key.as_str()[self.folder_len..];
        let directory_len = self.zip.as_ref().map(|zip| zip.directory_len);
        let reserved = self
            .reserved
            .as_ref()
            .map(OwnedSemaphorePermit::num_permits);
        if directory_len.map(|len| len + record_len(name)) > reserved {
            // There are more keys than at first.
            self.reserve_more(BATCH)?;
        }
        let out = &mut self.out;
        match &mut self.zip {
            None => tar::begin(out, name, len, modified),
            Some(zip) => zip.begin(out, name, len, modified),
        }
        match content {
            Content::Bytes(bytes) => {
                if let Some(zip) = &mut self.zip {
                    zip.note(&bytes);
                }
                out.extend_from_slice(&bytes);
                self.end_member(len);
            }
            content => self.value = Some((content, len)),
        }
        Ok(())
    }

    fn end_member(&mut self, len: u64) {
        match &mut self.zip {
            None => tar::end(&mut self.out, len),
            Some(zip) => zip.end(&mut self.out),
        }
    }

    fn finish(&mut self) {
        let mut end = VecDeque::new();
        match &mut self.zip {
            None => tar::finish(&mut self.out),
            Some(zip) => end.extend(zip.finish()),
        }
        end.push_front(mem::take(&mut self.out).freeze());
        end.retain(|bytes| !bytes.is_empty());
        self.end = Some(end);
    }
}

/// The length of the value of `key`, the second in which it was written, and its bytes; `None` where there is no value.
async fn open(service: &Service, key: &Key<'_>) -> Result<Option<(u64, u64, Content)>, Error> {
    for _ in 0..TRIES {
        let Some(mut found) = service.store.get(service.reactor, key, true).await? else {
            return Ok(None);
        };
        let len = found.len();
        if len > 0 && !found.open_range(0..len).await? {
            continue;
        }
        let (modified, content) = match &mut found {
            Found::File(object) => {
                let second = object.meta.version.nanos() / 1_000_000_000;
                (
                    u64::try_from(second).unwrap_or_default(),
                    Content::part(object, 0..len),
                )
            }
            Found::Object(object) => {
                let since = object.meta.modified.duration_since(UNIX_EPOCH);
                let content = match len {
                    0 => Content::empty(),
                    len => Content::remote(object.part(0..len)),
                };
                (since.unwrap_or_default().as_secs(), content)
            }
        };
        return Ok(Some((len, modified, content)));
    }
    Err(CONTENDED)
}
