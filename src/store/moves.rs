//! Moves and copies of a value from one key to another, in a directory.
//!
//! A move is one rename by the publisher (`commit::rename`), so that the value always has one name, but on FUSE and
//! NFS; the value gets a new version with it, and keeps its date.
//! A copy is an upload whose bytes come from the open file of the source: by a reflink where the file system has one,
//! else by the kernel, else by reads and writes. Both begin with a value that was read, and a move is made only if its
//! key still has that value. In an S3 store a move is a copy and a removal.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use super::attributes::Attributes;
use super::directory::Directory;
use super::engine::{Found, Published, Store, check, condition, holds};
use super::new_value::{MovedValue, Source};
use super::object::Object;
use super::publish::{Change, Condition};
use super::write_context::Durability;
use crate::s3::{Gateway, RemoteValue};
use crate::transfer::{UploadHead, is_large};
use crate::value::{Error, Key, Meta, Preconditions, dated};

/// What is done with a value that was found under one key.
#[derive(Clone, Debug)]
pub struct Relocation {
    /// The key that has the value.
    pub from: Key<'static>,
    /// The key that gets it.
    pub to: Key<'static>,
    /// The first key keeps the value.
    pub is_copy: bool,
    /// The preconditions of the value that the second key has now.
    pub preconditions: Option<Preconditions>,
    /// What is kept with a copy in a directory, in place of what is kept with the value.
    pub attributes: Option<Attributes>,
}

/// A value that was moved or copied.
#[derive(Debug)]
pub struct Relocated {
    /// Its validators under the new key.
    pub published: Published,
    /// The key had no value before.
    pub is_new: bool,
}

impl Found {
    /// True if `preconditions` let the value be taken from its key.
    pub fn allows(&self, preconditions: &Preconditions) -> bool {
        match self {
            Self::File(object) => holds(preconditions, Some(object.meta)),
            Self::Object(object) => object.allows(preconditions),
        }
    }
}

impl Store {
    /// Moves or copies the value `found`; `None` where its key has another value, or none, by now. What `head` says of
    /// the uploader counts.
    pub async fn relocate(
        &self,
        reactor: usize,
        found: Found,
        how: Relocation,
        head: UploadHead,
    ) -> Result<Option<Relocated>, Error> {
        match (self, found) {
            (Self::Directory(directory), Found::File(object)) if how.is_copy => {
                if let Some(preconditions) = &how.preconditions {
                    check(directory, &how.to, preconditions).await?;
                }
                directory.copy(&object, how, head).await.map(Some)
            }
            (Self::Directory(directory), Found::File(object)) => {
                directory.rename(&object, how).await
            }
            (Self::S3(s3), Found::Object(object)) => {
                let gateway = s3.gateway(reactor);
                Box::pin(relocate_object(gateway, *object, how, head)).await
            }
            (Self::Directory(_), Found::Object(_)) | (Self::S3(_), Found::File(_)) => Ok(None),
        }
    }
}

/// As [`Store::relocate`], of an object. A move is a copy, and a removal of the version that was copied: a failure
/// between leaves both.
async fn relocate_object(
    gateway: &Gateway,
    mut object: RemoteValue,
    how: Relocation,
    mut head: UploadHead,
) -> Result<Option<Relocated>, Error> {
    if !how.is_copy {
        gateway.may_move()?;
    }
    head.preconditions = how.preconditions;
    let Some((etag, is_new)) = gateway.copy(&mut object, &how.to, head).await? else {
        return Ok(None);
    };
    let published = Published {
        etag,
        modified: None,
    };
    let relocated = Relocated { published, is_new };
    if how.is_copy {
        return Ok(Some(relocated));
    }
    // From here on no answer may say that nothing was changed.
    match gateway.delete(&how.from, Some(&object.meta.etag)).await {
        Ok(true) => Ok(Some(relocated)),
        Ok(false) | Err(Error::Precondition) => {
            let [from, to] = [how.from, how.to].map(|key| key.as_str().to_owned());
            Err(Error::HalfMoved(from, to))
        }
        Err(Error::Unreachable(_) | Error::Busy { .. }) => {
            Err(Error::OutcomeUnknown { is_late: false })
        }
        Err(Error::TimedOut) => Err(Error::OutcomeUnknown { is_late: true }),
        Err(error @ Error::OutcomeUnknown { .. }) => Err(error),
        Err(error) => Err(error.in_doubt()),
    }
}

/// `preconditions` as the publisher decides them, and whether there was a value when they were decided last.
fn noted(preconditions: Option<Preconditions>) -> (Condition, Arc<AtomicBool>) {
    let was_there = Arc::new(AtomicBool::new(false));
    let note = Arc::clone(&was_there);
    let allows = preconditions.map(condition);
    let condition = move |current: Option<Meta>| {
        note.store(current.is_some(), Relaxed);
        allows.as_ref().is_none_or(|allows| allows(current))
    };
    (Box::new(condition), was_there)
}

impl Relocated {
    fn new(meta: Meta, was_there: &AtomicBool) -> Self {
        Self {
            published: meta.into(),
            is_new: !was_there.load(Relaxed),
        }
    }
}

impl Directory {
    async fn rename(&self, object: &Object, how: Relocation) -> Result<Option<Relocated>, Error> {
        let writer = &self.writing()?.writer;
        let meta = object.meta;
        let is_journaled = writer.journal.is_used.load(Relaxed) && !is_large(meta.len);
        let mut value = MovedValue {
            source: Source {
                key: how.from.clone(),
                version: meta.version,
            },
            len: meta.len,
            taken: object.taken()?,
            attributes: attributes(object),
            small: None,
        };
        if is_journaled {
            value.small = Some(vec![object.whole().await?]);
        } else if writer.durability == Durability::Disk {
            // The record of the move has no bytes, and the next sync is of names and of the version.
            let (writer, file, from) = (Arc::clone(writer), object.shared(), how.from.clone());
            let sync = move || writer.sync_named(&*file, &from);
            self.dir.disk.spawn(sync).await?;
        }
        let (condition, was_there) = noted(how.preconditions);
        let publisher = &self.writing()?.publisher;
        let change = Change::Move(value);
        let moved = publisher.change(how.to.clone(), change, Some(condition));
        let moved = moved.await;
        self.cache.forget(&how.from);
        self.cache.forget(&how.to);
        let moved = moved.or_else(|error| writer.note(Err(error)))?;
        Ok(moved.map(|meta| Relocated::new(meta, &was_there)))
    }

    async fn copy(
        &self,
        object: &Object,
        how: Relocation,
        mut head: UploadHead,
    ) -> Result<Relocated, Error> {
        let len = object.meta.len;
        let uploader = head.uploader.take();
        let mut upload = self.upload(&how.to, Some(len), uploader).await?;
        upload.attributes = how.attributes.unwrap_or_else(|| attributes(object));
        if is_large(len) {
            upload.copy(object, &how.to).await?;
        } else {
            upload.push(object.whole().await?).await?;
        }
        let (condition, was_there) = noted(how.preconditions);
        let meta = self.put(how.to, upload, Some(condition)).await?;
        Ok(Relocated::new(meta, &was_there))
    }
}

/// What is kept with the value of `object`, and its date, which the version does not keep.
fn attributes(object: &Object) -> Attributes {
    let fields = object.fields.as_deref().unwrap_or_default();
    Attributes {
        media_type: object.media_type.clone(),
        fields: Some(dated(fields, object.meta.version.time())),
    }
}
