//! GET of an archive: the values below a folder, in the order of their keys, each opened when its turn comes.
//!
//! At most one value is open, and in memory are a page of keys, one piece of the archive and, for a zip, the directory
//! that ends it: its bytes are reserved before the first byte is sent, from the share of this reactor. A value that was
//! removed since the keys were listed is left out. One that cannot be read, or that the client may no longer read, ends
//! the archive before its end, and so its body, and so does a folder that cannot be read: no client takes it for whole.

use std::future::{poll_fn, ready};
use std::rc::Rc;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::BytesMut;
use crc32fast::Hasher;
use futures_util::stream::{self, PollNext, StreamExt as _, TryStreamExt as _};
use hyper::StatusCode;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::yield_now;

use crate::access::Right;
use crate::failpoint;
use crate::http::archives::zip::{Zip, record_len};
use crate::http::archives::{ArchiveFormat, ArchiveRequest, describe, saved_as, tar};
use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::body::response::Body;
use crate::http::body::{Content, Pieces};
use crate::http::piece::Piece;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::{NO_SUCH_FOLDER, NO_SUCH_KEY};
use crate::http::request::{RequestContext, Service};
use crate::http::response::{Outcome, Reply, plain};
use crate::http::values::symlinks;
use crate::http::verb::Verb;
use crate::store::{CONTENDED, Error, IN_MEMORY, Key, Page, Purpose, TRIES, ValuesBelow, second};

/// Headers and short values are sent together, about so many bytes of them.
const BATCH: usize = 16 << 10;

/// Other requests get a turn after so many keys or names of which nothing is sent.
const IDLE: usize = 64;

/// The error of a zip for whose directory there is no room now.
const NO_ROOM: Error =
    Error::Exhausted("memory for the directories of zips, which a tar does not need");

#[async_trait(?Send)]
impl Verb for ArchiveRequest {
    fn needs(&self) -> Vec<Need<'_>> {
        let prefix = &self.page.prefix;
        vec![
            Need::any(Right::Read, prefix),
            Need::any(Right::List, prefix),
        ]
    }

    fn of_each(&self) -> Option<&'static str> {
        Some("GET and listing")
    }

    fn permit(&mut self, client: &Principal) -> Result<(), Refusal> {
        client.meet_all(self.needs())?;
        client.may_list(&mut self.page);
        Ok(())
    }

    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        let Self {
            format,
            mut page,
            selected,
        } = *self;
        let (name, selects) = (
            saved_as(&page.prefix, selected.as_deref()),
            selected.is_some(),
        );
        // A selection is looked for name by name.
        if !selects || request.service.config.follows_symlinks {
            let is_there = Box::pin(is_there(request, &mut page)).await?;
            if !is_there && !selects {
                return Err(NO_SUCH_FOLDER);
            }
        }
        let (sender, mut pieces) = channel(1);
        let packer = Packer {
            service: Rc::clone(&request.service),
            principal: request.context.principal.clone(),
            zip: (format == ArchiveFormat::Zip).then(Zip::default),
            reserved: reserve(&request.service, 0)?,
            page,
            selected,
            out: BytesMut::new(),
            is_within: false,
            has_begun: false,
            pieces: sender,
        };
        if selects && request.is_head() && !packer.has_members().await? {
            return Err(NO_SUCH_KEY);
        }
        let packing = packer.pack();
        let failed = stream::once(packing).filter_map(|it| ready(it.err().map(Err)));
        let pieces = stream::poll_fn(move |cx| pieces.poll_recv(cx)).map(Ok);
        let made = stream::select_with_strategy(pieces, failed, |(): &mut ()| PollNext::Left);
        let mut made = Box::pin(made);
        let mut first = None;
        if !request.is_head() {
            // What fails at once is an error, and no archive that breaks off.
            first = made.try_next().await?;
            if first.is_none() {
                return Err(NO_SUCH_KEY);
            }
        }
        let service = Rc::clone(&request.service);
        let exchange = Rc::clone(&request.guard.exchange);
        let rest = made.map_err(move |why: Refusal| service.broke_off(why, &exchange));
        let pieces: Pieces = Box::pin(stream::iter(first.map(Ok)).chain(rest));
        let response = plain(StatusCode::OK, Body::of(Content::Made(pieces)));
        Ok(Reply::from(response).with(|headers| {
            describe(headers, format, &name, &request.service.config);
        }))
    }
}

/// True where the folder of the `page` is there, or symbolic links lead from it to one: then the page becomes of that.
async fn is_there(request: &RequestContext, page: &mut Page) -> Result<bool, Refusal> {
    let service = &*request.service;
    if is_folder(service, page).await? {
        return Ok(true);
    }
    let name = Key::new(page.prefix.trim_end_matches('/'))?;
    let Some(target) = symlinks::target(request, &name, true).await? else {
        return Ok(false);
    };
    page.prefix = format!("{target}/");
    is_folder(service, page).await
}

/// True for the folder of a client that may list all of it, if it is there, and of another if there is something that
/// it may list.
async fn is_folder(service: &Service, page: &Page) -> Result<bool, Refusal> {
    let Service { store, reactor, .. } = service;
    let Some(folder) = page.prefix.strip_suffix('/') else {
        return Ok(true); // the root
    };
    if page.within.has(&page.prefix) && store.has_folder(&Key::new(folder.to_owned())?).await? {
        return Ok(true);
    }
    let mut page = page.clone();
    (page.limit, page.folders) = (1, true);
    let found = store.list(*reactor, page).await?;
    Ok(!found.keys.is_empty() || !found.folders.is_empty())
}

/// A place among the names of an archive.
#[derive(Default)]
struct PackPosition {
    /// The number of the names before it.
    begun: usize,
    /// The values of a name that has begun.
    below: Option<ValuesBelow>,
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
    /// The first page of the keys below the folder.
    page: Page,
    selected: Option<Vec<Box<str>>>,
    /// The headers and the short values that are sent next.
    out: BytesMut,
    /// A member has begun, and not ended.
    is_within: bool,
    /// Some of it was sent.
    has_begun: bool,
    pieces: Sender<Piece>,
}

impl Packer {
    /// Sends the archive, and where that fails what says so inside of it, for a program behind a pipe sees no more:
    /// readers of tars take an end between two members for the end. A zip that breaks off has no directory.
    async fn pack(mut self) -> Result<(), Refusal> {
        let packed = self.send_all().await;
        if packed.is_err() && self.has_begun && self.zip.is_none() {
            if !self.is_within {
                tar::break_off(&mut self.out);
            }
            self.flush(1).await;
        }
        packed
    }

    /// Sends the archive; sends nothing if it is one of a selection, and no key has a value.
    async fn send_all(&mut self) -> Result<(), Refusal> {
        if self.zip.is_some() {
            self.reserve_for_all().await?;
        }
        let (mut has_members, mut missing) = (self.selected.is_none(), 0);
        let mut place = PackPosition::default();
        while let Some(keys) = self.list(&mut place).await? {
            for key in keys {
                if self.send_member(&key).await? {
                    has_members = true;
                } else {
                    rest(&mut missing).await;
                }
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

    /// True where a key has a value, up to the first of which it looks.
    async fn has_members(&self) -> Result<bool, Refusal> {
        let (mut place, mut missing) = (PackPosition::default(), 0);
        while let Some(keys) = self.list(&mut place).await? {
            for key in keys {
                if self.open(&key).await?.is_some() {
                    return Ok(true);
                }
                rest(&mut missing).await;
            }
        }
        Ok(false)
    }

    /// Reserves the memory for the directory of a zip of the keys that there are now, and of some more.
    async fn reserve_for_all(&mut self) -> Result<(), Refusal> {
        let (mut len, mut place) = (BATCH, PackPosition::default());
        while let Some(keys) = self.list(&mut place).await? {
            let prefix = self.page.prefix.len();
            let lens = keys.iter().map(|key| record_len(&key.as_str()[prefix..]));
            len += lens.sum::<usize>();
            if len > self.service.directories.available_permits() {
                return Err(NO_ROOM.into());
            }
        }
        self.reserved.merge(reserve(&self.service, len)?);
        Ok(())
    }

    /// The prefix of the keys of the name with this number; `None` behind the last.
    fn prefix(&self, number: usize) -> Option<String> {
        let Some(names) = &self.selected else {
            return (number == 0).then(|| self.page.prefix.clone());
        };
        Some(format!("{}{}", self.page.prefix, names.get(number)?))
    }

    /// The next keys behind this place that the client may read; `None` at the end. Fails where the server may not read
    /// all that it has found.
    async fn list(&self, place: &mut PackPosition) -> Result<Option<Vec<Key<'static>>>, Refusal> {
        let principal = self.principal.as_deref();
        let may_read = |key: &Key<'_>| principal.is_none_or(|it| it.may_read(key.as_str()));
        let (store, within) = (&self.service.store, &self.page.within);
        if place.below.is_none() {
            let Some(prefix) = self.prefix(place.begun) else {
                return Ok(None);
            };
            rest(&mut place.begun).await;
            if !prefix.is_empty() && !prefix.ends_with('/') {
                // One value, which was selected: if it is not there, it is left out when its turn comes.
                let key = Key::new(prefix).ok().filter(|key| within.has(key.as_str()));
                return Ok(Some(key.filter(may_read).into_iter().collect()));
            }
            place.below = Some(ValuesBelow::for_client(&prefix, within.clone()));
        }
        let reactor = self.service.reactor;
        let found = match &mut place.below {
            Some(below) => store.next_values(reactor, below).await?,
            None => None,
        };
        let Some(found) = found else {
            place.below = None;
            return Ok(Some(Vec::new()));
        };
        if let Some((_, why)) = found.unreadable.into_iter().next() {
            return Err(why.into());
        }
        let keys = found.values.into_iter().map(|(key, _)| key);
        Ok(Some(keys.filter(may_read).collect()))
    }

    /// Opens the value of `key`, if the client may still read it: its length, the second of its date, and its bytes.
    /// `None` where there is no value.
    async fn open(&self, key: &Key<'_>) -> Result<Option<(u64, u64, Content)>, Refusal> {
        if let Some(client) = &self.principal {
            let client = client.by_now()?;
            if !client.may_read(key.as_str()) {
                return Err(client.deny(Right::Read));
            }
        }
        Ok(open(&self.service, key).await?)
    }

    /// Sends the value of `key`, if there is still one: then it is true.
    async fn send_member(&mut self, key: &Key<'static>) -> Result<bool, Refusal> {
        let Some((len, modified, mut content)) = self.open(key).await? else {
            return Ok(false);
        };
        let name = &key.as_str()[self.page.prefix.len()..];
        // A zip has the sum of the bytes, so they are read.
        let (is_zip, mut sum) = (self.zip.is_some(), Hasher::new());
        self.is_within = true;
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
            match (&mut self.zip, piece) {
                (Some(zip), Piece::Bytes(bytes)) => {
                    sum.update(&bytes);
                    zip.append(&mut self.out, &bytes);
                    self.flush(BATCH).await;
                }
                (_, piece) => self.send(piece).await,
            }
        }
        match &mut self.zip {
            None => tar::end(&mut self.out, len),
            Some(zip) => zip.end(&mut self.out, sum.finalize()),
        }
        self.is_within = false;
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
    async fn hand_over(&mut self, piece: Piece) {
        self.has_begun = true;
        let _ = self.pieces.send(piece).await;
        let _ = self.pieces.reserve().await;
    }
}

/// Counts one more; now and then lets others have a turn.
async fn rest(count: &mut usize) {
    *count += 1;
    if count.is_multiple_of(IDLE) {
        yield_now().await;
    }
}

/// Reserves so many bytes for the directory of a zip.
fn reserve(service: &Service, len: usize) -> Result<OwnedSemaphorePermit, Error> {
    let memory = Arc::clone(&service.directories);
    let len = u32::try_from(len).map_err(|_| NO_ROOM)?;
    memory.try_acquire_many_owned(len).map_err(|_| NO_ROOM)
}

/// The length of the value of `key`, the second of its date, and its bytes; `None` where there is no value.
async fn open(service: &Service, key: &Key<'_>) -> Result<Option<(u64, u64, Content)>, Error> {
    for _ in 0..TRIES {
        let Some(mut found) = service
            .store
            .get(service.reactor, key, true, Purpose::Scan)
            .await?
        else {
            return Ok(None);
        };
        let len = found.len();
        if found.open_range(0..len).await? {
            let date = second(found.date());
            return Ok(Some((len, date, Content::of(&mut found, 0..len))));
        }
    }
    Err(CONTENDED)
}
