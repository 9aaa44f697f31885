//! A value as it is read: its version, its length, and, for a large one, an open file.
//!
//! An [`Object`] is a snapshot: replacing or deleting the value does not change what it reads. Cutting or editing the
//! file by hand does, and shows as a file that ends too early.

use std::any::Any;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use rustix::fs::{Advice, Stat};
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};

use super::file_stamp::FileStamp;
use super::residency::{self, Residency};
use super::text::{LOOKED_AT, is_utf8};
use super::value_file::ValueFile;
use super::{attributes, read};
use crate::transfer::BlockingPool;
use crate::value::{Error, Meta};

/// A value, open for reading; a small one has its bytes in memory too.
pub struct Object {
    file: Arc<ValueFile>,
    meta: Meta,
    stamp: FileStamp,
    bytes: Option<Bytes>,
    media_type: Option<Box<str>>,
    fields: Option<Box<[u8]>>,
    is_utf8: bool,
    is_memory: bool,
    residency: Residency,
    note: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl Object {
    /// The value in `fd`, described by `stat` from before `bytes` were read.
    pub(super) fn new(
        fd: OwnedFd,
        stat: &Stat,
        bytes: Option<Bytes>,
        disk: BlockingPool,
        is_memory: bool,
    ) -> Result<Self, Error> {
        Ok(Self {
            media_type: attributes::media_type(&fd)?,
            fields: attributes::fields(&fd)?,
            is_utf8: false,
            is_memory,
            file: Arc::new(ValueFile::new(fd, disk)),
            meta: Meta::of(stat),
            stamp: FileStamp::of(stat),
            bytes,
            residency: Residency::default(),
            note: OnceLock::new(),
        })
    }

    /// Length and version, as they were when the value was opened.
    pub fn meta(&self) -> Meta {
        self.meta
    }

    pub(super) fn file(&self) -> &ValueFile {
        &self.file
    }

    /// All of the value, if it is in memory.
    pub fn bytes(&self) -> Option<&Bytes> {
        self.bytes.as_ref()
    }

    /// The media type it was stored with.
    pub fn media_type(&self) -> Option<&str> {
        self.media_type.as_deref()
    }

    /// The fields it was stored with, as [`Upload::set_fields`](super::Upload::set_fields) got them.
    pub fn fields(&self) -> Option<&[u8]> {
        self.fields.as_deref()
    }

    /// Whether it was looked at, and is UTF-8 text as far as its first bytes show.
    pub fn is_utf8(&self) -> bool {
        self.is_utf8
    }

    /// Looks at its first bytes, for [`Object::is_utf8`], without blocking the caller's thread.
    pub(super) async fn look(&mut self) -> Result<(), Error> {
        if let Some(bytes) = &self.bytes {
            self.is_utf8 = is_utf8(bytes, true);
            return Ok(());
        }
        let len = usize::try_from(self.meta.len).map_or(LOOKED_AT, |len| len.min(LOOKED_AT));
        let start = read::start(&self.file, len, self.file.disk(), self.is_memory).await?;
        self.is_utf8 = is_utf8(&start, len as u64 == self.meta.len);
        Ok(())
    }

    /// Reads up to `buf.len()` bytes from `offset` on; how many, 0 only at the end. Blocks: not for reactors.
    pub fn read_blocking(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Error> {
        loop {
            match rustix::io::pread(&*self.file, &mut *buf, offset) {
                Err(Errno::INTR) => {}
                read => return read.map_err(Error::errno_while("read")),
            }
        }
    }

    /// The bytes from `offset` on, `len` of them, if the kernel has them in memory.
    pub fn read_now(&self, offset: u64, len: usize) -> Option<Bytes> {
        let mut bytes = vec![0; len];
        let read = if self.is_memory {
            rustix::io::pread(&*self.file, &mut bytes, offset)
        } else {
            let into = &mut [IoSliceMut::new(&mut bytes)];
            rustix::io::preadv2(&*self.file, into, offset, ReadWriteFlags::NOWAIT)
        };
        (read == Ok(len)).then(|| bytes.into())
    }

    /// Reads the bytes from `offset` on, at most `len` of them and not none, on a disk thread.
    pub fn read(
        &self,
        offset: u64,
        len: usize,
    ) -> impl Future<Output = Result<Bytes, Error>> + use<> {
        let file = Arc::clone(&self.file);
        let disk = self.file.disk().clone();
        async move {
            disk.run(move || {
                let mut bytes = vec![0; len];
                let read = retry_on_intr(|| rustix::io::pread(&*file, &mut bytes, offset));
                match read.map_err(Error::errno_while("read"))? {
                    0 => Err(Error::Truncated),
                    read => {
                        bytes.truncate(read);
                        Ok(bytes.into())
                    }
                }
            })
            .await
        }
    }

    /// What `http` keeps beside this version of the value; the first call makes it.
    ///
    /// # Panics
    /// When it is asked for as another type than it was made.
    pub fn note<N: Any + Send + Sync>(&self, make: impl FnOnce() -> N) -> &N {
        let note = self.note.get_or_init(|| Box::new(make()));
        note.downcast_ref().expect("a note has one type")
    }

    /// What [`Object::note`] made, if it was of this type.
    pub fn noted<N: Any + Send + Sync>(&self) -> Option<&N> {
        self.note.get()?.downcast_ref()
    }

    /// Whether [`Object::is_current`] would notice any edit from now on.
    pub(super) fn is_quiescent(&self) -> bool {
        self.stamp.is_quiescent()
    }

    /// Whether the file still has its name in its folder and has not been changed: one system call.
    pub(super) fn is_current(&self) -> bool {
        rustix::fs::fstat(&*self.file).is_ok_and(|now| self.is(FileStamp::of(&now)))
    }

    /// Whether it is the file of this stamp.
    pub(super) fn is(&self, stamp: FileStamp) -> bool {
        self.stamp == stamp
    }

    /// Whether `offset..offset + len` can be sent now without waiting for the device, as far as can be told cheaply.
    pub fn is_resident(&self, offset: u64, len: u64) -> bool {
        self.is_memory
            || self
                .residency
                .is_resident(&*self.file, self.meta.len, offset, len)
    }

    /// Brings `offset..offset + len` into memory on a disk thread, and asks the kernel for as much again behind it.
    pub fn make_resident(
        &self,
        offset: u64,
        len: u64,
    ) -> impl Future<Output = Result<(), Error>> + use<> {
        let file = Arc::clone(&self.file);
        let disk = self.file.disk().clone();
        async move {
            disk.run(move || {
                // Advice only: a file system without readahead still serves the reads below.
                let _ = rustix::fs::fadvise(
                    &*file,
                    offset,
                    std::num::NonZeroU64::new(len * 2),
                    Advice::WillNeed,
                );
                let mut byte = [0];
                for at in (offset..offset + len)
                    .step_by(residency::STRIDE)
                    .chain([offset + len.saturating_sub(1)])
                {
                    retry_on_intr(|| rustix::io::pread(&*file, &mut byte, at))
                        .map_err(Error::errno_while("read ahead"))?;
                }
                Ok(())
            })
            .await
        }
    }

    /// The file, to send it to a socket.
    pub fn descriptor(&self) -> Descriptor {
        Descriptor(Arc::clone(&self.file))
    }
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Object")
            .field("meta", &self.meta)
            .finish_non_exhaustive()
    }
}

/// A share in an object's open file: to send from, not to read versions or lengths from.
#[derive(Clone, Debug)]
pub struct Descriptor(Arc<ValueFile>);

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
