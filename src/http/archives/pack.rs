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

use crate::access::Right;
use crate::failpoint;
use crate::http::archives::zip::{Zip, record_len};
use crate::http::archives::{Archive, ArchiveFormat, ArchiveRequest, BadArchive, tar};
use crate::http::auth::credentials::Principal;
use crate::http::body::{Content, Piece};
use crate::http::refusal::Refusal;
use crate::http::response::outcome::Outcome;
use crate::http::service::context::{RequestContext, Service};
use crate::store::{CONTENDED, Error, Found, IN_MEMORY, Key, Page, TRIES};

/// Headers and short values are sent together, about so many bytes of them.
const BATCH: usize = 16 << 10;

/// The most bytes that the directories of all zips of a reactor take while they are made.
pub const MAX_DIRECTORIES: usize = 64 << 20;

/// The error of a zip for whose directory there is no room now.
const NO_ROOM: Error = Error::Exhausted("memory for the directories of zips");

/// Answers the archive that was `asked` for.
pub async fn archive(request: &RequestContext, asked: ArchiveRequest) -> Result<Outcome, Refusal> {
    let ArchiveRequest {
        format,
        folder,
        page,
    } = asked;
    let mut archive = Archive {
        format,
        folder,
        pieces: Box::pin(stream::empty()),
    };
    if !request.is_head() {
        let mut packer = Packer::new(request, format, page);
        if format == ArchiveFormat::Zip {
            packer.reserve().await?;
        }
        // What fails at once is an error, and no archive that breaks off.
        let first = packer.next().await?;
        let rest = try_unfold(packer, async |mut packer| {
            let piece = packer.next().await?;
            Ok(piece.map(|piece| (piece, packer)))
        });
        archive.pieces = Box::pin(stream::iter(first.map(Ok)).chain(rest));
    }
    Ok(Outcome::Archive(Box::new(archive)))
}

/// A share in the memory of the directories of zips.
struct Reserved {
    service: Rc<Service>,
    bytes: usize,
}

impl Reserved {
    fn grow(&mut self, bytes: usize) -> Result<(), Error> {
        let taken = &self.service.directories;
        let sum = taken.get().checked_add(bytes);
        taken.set(sum.filter(|&sum| sum <= MAX_DIRECTORIES).ok_or(NO_ROOM)?);
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let taken = &self.service.directories;
        taken.set(taken.get() - self.bytes);
    }
}

/// The format of an archive, with its state.
enum Format {
    Tar,
    Zip(Zip),
}

/// An archive that is being made.
struct Packer {
    reserved: Reserved,
    /// `None` where there are no rules.
    principal: Option<Rc<Principal>>,
    format: Format,
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
            reserved: Reserved {
                service: Rc::clone(&request.service),
                bytes: 0,
            },
            principal: request.context.principal.clone(),
            format: match format {
                ArchiveFormat::Tar => Format::Tar,
                ArchiveFormat::Zip => Format::Zip(Zip::default()),
            },
            folder_len: page.prefix.len(),
            page: Some(page),
            keys: VecDeque::new(),
            value: None,
            out: BytesMut::new(),
            end: None,
        }
    }

    /// Reserves the memory of the directory of a zip of the keys that there are now.
    async fn reserve(&mut self) -> Result<(), Refusal> {
        let (first, mut len) = (self.page.clone(), 0);
        while let Some(page) = self.page.take() {
            for key in self.list(page).await? {
                len += record_len(&key.as_str()[self.folder_len..]);
            }
            if len > MAX_DIRECTORIES {
                return Err(BadArchive::TooMany.into());
            }
        }
        self.page = first;
        Ok(self.reserved.grow(len)?)
    }

    /// The keys of `page` that the client may read. The next page is listed after it.
    async fn list(&mut self, page: Page) -> Result<VecDeque<Key<'static>>, Error> {
        let service = &self.reserved.service;
        let listing = service.store.list(service.reactor, page.clone()).await?;
        let next = listing.next.clone();
        self.page = next.map(|after| Page { after, ..page });
        let keys = listing.keys.iter().map(|(key, _)| key);
        let principal = self.principal.as_deref();
        let may_read = |key: &&Key<'_>| {
            principal.is_none_or(|it| it.subject.grant.allows(Right::Read, key.as_str()))
        };
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
            if let Some((value, _)) = &mut self.value {
                let is_long = value.remaining().is_some_and(|left| left > IN_MEMORY);
                // A zip has the sum of the bytes, so they are read.
                let as_file = is_long && matches!(self.format, Format::Tar);
                let as_file = as_file && failpoint::takes_over();
                match poll_fn(|cx| value.poll_piece(cx, as_file))
                    .await
                    .transpose()?
                {
                    Some(piece) => {
                        self.note(&piece);
                        return Ok(Some(piece));
                    }
                    None => self.end_member(),
                }
            } else if let Some(key) = self.keys.pop_front() {
                self.open(&key).await?;
            } else if let Some(page) = self.page.take() {
                self.keys = self.list(page).await?;
            } else {
                self.finish();
            }
        }
    }

    /// Begins with the value of `key`, if there is still one.
    async fn open(&mut self, key: &Key<'static>) -> Result<(), Error> {
        let service = Rc::clone(&self.reserved.service);
        let Some((len, modified, content)) = open(&service, key).await? else {
            return Ok(());
        };
        let (name, out) = (&key.as_str()[self.folder_len..], &mut self.out);
        match &mut self.format {
            Format::Tar => tar::begin(out, name, len, modified),
            Format::Zip(zip) => {
                let missing = zip.directory_len + record_len(name);
                let missing = missing.saturating_sub(self.reserved.bytes);
                self.reserved.grow(missing)?;
                zip.begin(out, name, len, modified);
            }
        }
        self.value = Some((Content::empty(), len));
        if let Content::Bytes(bytes) = content {
            let piece = Piece::Bytes(bytes);
            self.note(&piece);
            if let Piece::Bytes(bytes) = piece {
                self.out.extend_from_slice(&bytes);
            }
            self.end_member();
        } else {
            self.value = Some((content, len));
        }
        Ok(())
    }

    fn note(&mut self, piece: &Piece) {
        if let (Format::Zip(zip), Piece::Bytes(bytes)) = (&mut self.format, piece) {
            zip.note(bytes);
        }
    }

    fn end_member(&mut self) {
        if let Some((_, len)) = self.value.take() {
            match &mut self.format {
                Format::Tar => tar::end(&mut self.out, len),
                Format::Zip(zip) => zip.end(&mut self.out),
            }
        }
    }

    fn finish(&mut self) {
        let mut end = VecDeque::new();
        match &mut self.format {
            Format::Tar => tar::finish(&mut self.out),
            Format::Zip(zip) => end.extend(zip.finish()),
        }
        let last = mem::take(&mut self.out).freeze();
        end.push_front(last);
        end.retain(|bytes| !bytes.is_empty());
        self.end = Some(end);
    }
}

/// The length of the value of `key`, the second in which it was written, and its bytes; `None` where there is no value.
async fn open(service: &Service, key: &Key<'static>) -> Result<Option<(u64, u64, Content)>, Error> {
    for _ in 0..TRIES {
        let Some(mut found) = service.store.get(service.reactor, key, true).await? else {
            return Ok(None);
        };
        let len = found.len();
        if len > 0 && !found.open_range(0..len).await? {
            continue;
        }
        let (nanos, content) = match &mut found {
            Found::File(object) => (
                object.meta.version.nanos(),
                Content::part(&Arc::clone(object), 0..len),
            ),
            Found::Object(object) => {
                let since = object.meta.modified.duration_since(UNIX_EPOCH);
                let nanos = since.unwrap_or_default().as_nanos();
                let content = if len > 0 {
                    Content::remote(object.part(0..len))
                } else {
                    Content::empty()
                };
                (i128::try_from(nanos).unwrap_or_default(), content)
            }
        };
        let modified = u64::try_from(nanos / 1_000_000_000).unwrap_or_default();
        return Ok(Some((len, modified, content)));
    }
    Err(CONTENDED)
}
