//! GET of an archive: the values below a folder, in the order of their keys, each opened when its turn comes.
//!
//! At most one value is open, and in memory are a page of keys, one piece of the archive and, for a zip, the directory that ends it: its
//! bytes are reserved before the first byte is sent, from the share of this reactor. A value that was removed since the keys were listed is
//! left out. One that cannot be read, or that the client may no longer read, ends the archive before its end, and so its body: no client
//! takes it for whole.

use std::collections::VecDeque;
use std::future::{poll_fn, ready};
use std::rc::Rc;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use bytes::BytesMut;
use crc32fast::Hasher;
use futures_util::stream::{self, PollNext, StreamExt as _, TryStreamExt as _};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Sender, channel};

use crate::failpoint;
use crate::http::archives::zip::{Zip, record_len};
use crate::http::archives::{ArchiveFormat, ArchiveRequest, Pieces, tar};
use crate::http::auth::credentials::Principal;
use crate::http::body::{Content, Piece};
use crate::http::refusal::Refusal;
use crate::http::response::outcome::Outcome;
use crate::http::service::context::{RequestContext, Service};
use crate::http::values::representation::validators;
use crate::store::{CONTENDED, Error, IN_MEMORY, Key, Page, TRIES};

/// Headers and short values are sent together, about so many bytes of them.
const BATCH: usize = 16 << 10;

/// The error of a zip for whose directory there is no room now.
const NO_ROOM: Error =
    Error::Exhausted("memory for the directories of zips, which a tar does not need");

/// Answers the archive that was `asked` for.
pub async fn archive(request: &RequestContext, asked: ArchiveRequest) -> Result<Outcome, Refusal> {
    let ArchiveRequest {
        format,
        page,
        selected,
    } = asked;
    let (folder, selects) = (page.prefix.clone(), selected.is_some());
    let of_all = || [folder.clone()].into();
    let prefixes = selected.unwrap_or_else(of_all).into_iter();
    let pages = prefixes.map(|prefix| Page {
        prefix,
        ..page.clone()
    });
    let (sender, mut pieces) = channel(1);
    let packer = Packer {
        service: Rc::clone(&request.service),
        principal: request.context.principal.clone(),
        zip: (format == ArchiveFormat::Zip).then(Zip::default),
        reserved: reserve(&request.service, 0)?,
        folder_len: folder.len(),
        out: BytesMut::new(),
        pieces: sender,
    };
    let packing = packer.pack(pages.collect(), selects);
    let failed = stream::once(packing).filter_map(|it| ready(it.err().map(Err)));
    let pieces = stream::poll_fn(move |cx| pieces.poll_recv(cx)).map(Ok);
    let made = stream::select_with_strategy(pieces, failed, |(): &mut ()| PollNext::Left);
    let mut made: Pieces = Box::pin(made);
    if selects || !request.is_head() {
        // What fails at once is an error, and no archive that breaks off.
        let Some(first) = made.try_next().await? else {
            return Ok(Outcome::NoValue);
        };
        made = Box::pin(stream::iter([Ok(first)]).chain(made));
    }
    Ok(Outcome::Archive {
        format,
        folder,
        pieces: made,
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
    reserved: OwnedSemaphorePermit,
    folder_len: usize,
    /// The headers and the short values that are sent next.
    out: BytesMut,
    pieces: Sender<Piece>,
}

impl Packer {
    /// Sends the archive of the keys on these pages and those behind them; sends nothing if it is one of a selection, and no key has a value.
    async fn pack(mut self, mut pages: VecDeque<Page>, selects: bool) -> Result<(), Error> {
        if self.zip.is_some() {
            self.reserve_for(pages.clone()).await?;
        }
        let mut has_members = !selects;
        while let Some(keys) = self.list(&mut pages).await? {
            for key in keys {
                has_members |= self.send_member(&key).await?;
            }
        }
        if !has_members {
            return Ok(());
        }
        let end = self.zip.take().map_or_else(tar::end_mark, Zip::finish);
        for piece in end {
            self.send(Piece::Bytes(piece)).await;
        }
        self.flush(1).await;
        Ok(())
    }

    /// Reserves the memory for the directory of a zip of the keys that there are now, and of some more.
    async fn reserve_for(&mut self, mut pages: VecDeque<Page>) -> Result<(), Error> {
        let mut len = BATCH;
        while let Some(keys) = self.list(&mut pages).await? {
            let lens = keys
                .iter()
                .map(|key| record_len(&key.as_str()[self.folder_len..]));
            len += lens.sum::<usize>();
            if len > self.service.directories.available_permits() {
                return Err(NO_ROOM);
            }
        }
        self.reserved.merge(reserve(&self.service, len)?);
        Ok(())
    }

    /// The keys of the first page that the client may read, which the page behind it then replaces; `None` behind the last.
    async fn list(&self, pages: &mut VecDeque<Page>) -> Result<Option<Vec<Key<'static>>>, Error> {
        let Some(page) = pages.pop_front() else {
            return Ok(None);
        };
        let principal = self.principal.as_deref();
        let may_read = |key: &&Key<'_>| principal.is_none_or(|it| it.may_read(key.as_str()));
        if !page.prefix.is_empty() && !page.prefix.ends_with('/') {
            // One value, which was selected: if it is not there, it is left out when its turn comes.
            let key = page.within.has(&page.prefix).then_some(page.prefix);
            let key = key.and_then(|key| Key::new(key).ok());
            return Ok(Some(key.filter(|key| may_read(&key)).into_iter().collect()));
        }
        let (store, reactor) = (&self.service.store, self.service.reactor);
        let listing = store.list(reactor, page.clone()).await?;
        if let Some(after) = listing.next.clone() {
            pages.push_front(Page { after, ..page });
        }
        let keys = listing.keys.iter().map(|(key, _)| key);
        Ok(Some(keys.filter(may_read).cloned().collect()))
    }

    /// Sends the value of `key`, if there is still one: then it is true.
    async fn send_member(&mut self, key: &Key<'static>) -> Result<bool, Error> {
        let may_read = |client: &Rc<Principal>| {
            let client = client.by_now();
            client.is_ok_and(|client| client.may_read(key.as_str()))
        };
        if !self.principal.as_ref().is_none_or(may_read) {
            return Err(Error::Incomplete);
        }
        let Some((len, modified, mut content)) = open(&self.service, key).await? else {
            return Ok(false);
        };
        let name = &key.as_str()[self.folder_len..];
        // A zip has the sum of the bytes, so they are read.
        let (is_zip, mut sum) = (self.zip.is_some(), Hasher::new());
        match &mut self.zip {
            None => tar::begin(&mut self.out, name, len, modified),
            Some(zip) => {
                if zip.directory_len + record_len(name) > self.reserved.num_permits() {
                    // There are more keys than at first.
                    self.reserved.merge(reserve(&self.service, BATCH)?);
                }
                zip.begin(&mut self.out, name, len, modified);
            }
        }
        let as_file = !is_zip && len > IN_MEMORY && failpoint::takes_over();
        while let Some(piece) = poll_fn(|cx| content.poll_piece(cx, as_file)).await {
            let piece = piece?;
            if let (true, Piece::Bytes(bytes)) = (is_zip, &piece) {
                sum.update(bytes);
            }
            self.send(piece).await;
        }
        match &mut self.zip {
            None => tar::end(&mut self.out, len),
            Some(zip) => zip.end(&mut self.out, sum.finalize()),
        }
        self.flush(BATCH).await;
        Ok(true)
    }

    /// Sends a piece, a short one together with others.
    async fn send(&mut self, piece: Piece) {
        match piece {
            Piece::Bytes(bytes) if bytes.len() < BATCH => self.out.extend_from_slice(&bytes),
            piece => {
                self.flush(1).await;
                self.hand_over(piece).await;
            }
        }
        self.flush(BATCH).await;
    }

    /// Sends what waits to be sent, once it is `least` bytes.
    async fn flush(&mut self, least: usize) {
        if self.out.len() >= least {
            let piece = Piece::Bytes(self.out.split().freeze());
            self.hand_over(piece).await;
        }
    }

    /// Gives the piece to the body, and waits until the client takes it. Without a body there is no packer.
    async fn hand_over(&self, piece: Piece) {
        let _ = self.pieces.send(piece).await;
        let _ = self.pieces.reserve().await;
    }
}

/// Reserves so many bytes for the directory of a zip.
fn reserve(service: &Service, len: usize) -> Result<OwnedSemaphorePermit, Error> {
    let memory = Arc::clone(&service.directories);
    let len = u32::try_from(len).map_err(|_| NO_ROOM)?;
    memory.try_acquire_many_owned(len).map_err(|_| NO_ROOM)
}

/// The length of the value of `key`, the second in which it was written, and its bytes; `None` where there is no value.
async fn open(service: &Service, key: &Key<'_>) -> Result<Option<(u64, u64, Content)>, Error> {
    for _ in 0..TRIES {
        let Some(mut found) = service.store.get(service.reactor, key, true).await? else {
            return Ok(None);
        };
        let len = found.len();
        if found.open_range(0..len).await? {
            let modified = validators(&found).modified.duration_since(UNIX_EPOCH);
            let modified = modified.unwrap_or_default().as_secs();
            return Ok(Some((len, modified, Content::of(&mut found, 0..len))));
        }
    }
    Err(CONTENDED)
}
