//! A value as it is read: its version, its length, and, for a large one, an open file; and its digest, as it is kept
//! beside the value or computed from all of it.
//!
//! An [`Object`] is a snapshot: replacing or deleting the value does not change what it reads. Cutting or editing the
//! file by hand does, and shows as a file that ends too early.
//!
//! A digest is computed by turns, each a job of its own on the compute threads: other jobs have theirs in between,
//! however large the value is, and when the future is dropped there is no next turn.

use std::any::Any;
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::str::from_utf8;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use bytes::Bytes;
use memchr::{memchr, memmem};
use rustix::fs::Advice;
use rustix::io::retry_on_intr;

use super::attributes;
use super::bounds::{Known, Value};
use super::fs_type::FsType;
use super::value_file::{FileStamp, Opened, Residency, STRIDE, ValueFile, read_now, start};
use crate::transfer::{BlockingPool, hash_file, is_large, read_at};
use crate::value::{Digest, Error, Hasher, Meta, Version, Wanted, date, end, with_date};

/// Bytes at the beginning of a value that are looked at.
const LOOKED_AT: usize = 64 << 10;

/// A value, open for reading; a small one has its bytes in memory too.
pub struct Object {
    file: Arc<ValueFile>,
    /// Length, version and end, as they were when the value was opened.
    pub meta: Meta,
    pub(super) stamp: FileStamp,
    /// All of the value, if it is in memory.
    pub bytes: Option<Bytes>,
    /// The media type it was stored with.
    pub media_type: Option<Box<str>>,
    /// The fields it was stored with.
    pub fields: Option<Box<[u8]>>,
    /// True if its first bytes were looked at and are UTF-8 text.
    pub is_utf8: bool,
    pub(super) fs_type: FsType,
    /// Where its uses are noted, if a bound counts it.
    pub(super) counted: Option<Arc<Value>>,
    /// The sweep of the cache since which its bytes were compared with its file's.
    compared: AtomicU32,
    residency: Residency,
    note: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl Object {
    /// The value in `opened`, which has these `bytes` where they were read; its date is read only where values may have
    /// one, `has_dates`.
    pub fn new(
        opened: Opened,
        bytes: Option<Bytes>,
        has_dates: bool,
        disk: BlockingPool,
    ) -> Result<Self, Error> {
        let Opened { fd, stat, fs_type } = opened;
        let mut fields = attributes::fields(&fd, Version::of(&stat))?;
        let date = has_dates.then(|| attributes::date_of(&fd, Version::of(&stat)));
        let date = date
            .transpose()
            .map_err(Error::errno_while("read an attribute"))?;
        if let Some(date) = date.flatten() {
            let undated = fields.as_deref().unwrap_or_default();
            fields = Some(with_date(undated, Some(date)));
        }
        Ok(Self {
            meta: Meta::of(&stat).ending(fields.as_deref().and_then(end)),
            media_type: attributes::media_type(&fd)?,
            fields,
            is_utf8: false,
            fs_type,
            file: Arc::new(ValueFile::new(fd, disk, false)),
            stamp: FileStamp::of(&stat),
            bytes,
            counted: None,
            compared: AtomicU32::new(0),
            residency: Residency::default(),
            note: OnceLock::new(),
        })
    }

    /// The date that is kept with it.
    pub fn date(&self) -> Option<SystemTime> {
        self.fields.as_deref().and_then(date)
    }

    /// Looks at its first bytes, for [`Object::is_utf8`], without blocking the caller's thread.
    pub async fn look(&mut self) -> Result<(), Error> {
        if let Some(bytes) = &self.bytes {
            self.is_utf8 = is_utf8(bytes, true);
            return Ok(());
        }
        let len = usize::try_from(self.meta.len).map_or(LOOKED_AT, |len| len.min(LOOKED_AT));
        let start = start(&self.file, len, self.fs_type.is_memory).await?;
        self.is_utf8 = is_utf8(&start, len as u64 == self.meta.len);
        Ok(())
    }

    /// Bytes of the disk that its file takes.
    pub fn taken(&self) -> Result<u64, Error> {
        let stat = rustix::fs::fstat(&*self.file).map_err(Error::errno_while("look at a file"))?;
        Ok(Known::new(&stat, None, None).bytes)
    }

    /// Reads up to `buf.len()` bytes from `offset` on; how many, never none. Blocks: not for reactors.
    pub fn read_blocking(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Error> {
        read_at(&*self.file, offset, buf)
    }

    /// The bytes from `offset` on, `len` of them, if the kernel has them in memory.
    pub fn read_now(&self, offset: u64, len: usize) -> Option<Bytes> {
        let mut bytes = vec![0; len];
        read_now(&*self.file, &mut bytes, offset, self.fs_type.is_memory).then(|| bytes.into())
    }

    /// Reads the bytes from `offset` on, at most `len` of them and not none, on a disk thread.
    pub fn read(
        &self,
        offset: u64,
        len: usize,
    ) -> impl Future<Output = Result<Bytes, Error>> + use<> {
        let file = Arc::clone(&self.file);
        self.file.disk.spawn(move || {
            let mut bytes = vec![0; len];
            let read = read_at(&*file, offset, &mut bytes)?;
            bytes.truncate(read);
            Ok(bytes.into())
        })
    }

    /// All bytes, which are few, without blocking the caller's thread.
    pub async fn whole(&self) -> Result<Bytes, Error> {
        if let Some(bytes) = &self.bytes {
            return Ok(bytes.clone());
        }
        let len = usize::try_from(self.meta.len).unwrap_or(usize::MAX);
        let bytes = start(&self.file, len, self.fs_type.is_memory).await?;
        if bytes.len() < len {
            return Err(Error::Truncated);
        }
        Ok(bytes.into())
    }

    /// Its file, also to send it to a socket.
    pub fn shared(&self) -> Descriptor {
        Arc::clone(&self.file)
    }

    /// A note that `http` keeps beside this version of the value; the first call makes it.
    ///
    /// # Panics
    /// When it is asked for as another type than it was made.
    pub fn note<N: Any + Send + Sync>(&self, make: impl FnOnce() -> N) -> &N {
        let note = self.note.get_or_init(|| Box::new(make()));
        note.downcast_ref().expect("a note has one type")
    }

    /// The note that [`Object::note`] made, if it was of this type.
    pub fn noted<N: Any + Send + Sync>(&self) -> Option<&N> {
        self.note.get()?.downcast_ref()
    }

    /// Whether the file has not been changed and, where its file system shows that, still has its name in its
    /// folder: one system call.
    pub fn is_current(&self) -> bool {
        rustix::fs::fstat(&*self.file).is_ok_and(|now| self.stamp == FileStamp::of(&now))
    }

    /// True if its bytes were compared with its file's since that `sweep`.
    pub fn is_compared(&self, sweep: u32) -> bool {
        self.compared.load(Relaxed) == sweep
    }

    /// False if the kernel has other bytes in memory for its file than it has; asked once after each `sweep`.
    pub fn compare(&self, sweep: u32) -> bool {
        if self.is_compared(sweep) {
            return true;
        }
        let bytes = self.bytes.as_ref();
        let now = bytes.and_then(|bytes| self.read_now(0, bytes.len()));
        if now.is_some() && now.as_ref() != bytes {
            return false;
        }
        self.note_compared(sweep);
        true
    }

    /// Notes that it has the bytes that its file had after that `sweep`.
    pub fn note_compared(&self, sweep: u32) {
        self.compared.store(sweep, Relaxed);
    }

    /// Whether `offset..offset + len` can be sent now without waiting for the device, as far as can be told cheaply.
    pub fn is_resident(&self, offset: u64, len: u64) -> bool {
        self.fs_type.is_memory
            || self
                .residency
                .is_resident(&*self.file, self.meta.len, offset, len)
    }

    /// Reads `offset..offset + len` into memory on a disk thread, and asks the kernel to read ahead `len` bytes more.
    pub fn make_resident(
        &self,
        offset: u64,
        len: u64,
    ) -> impl Future<Output = Result<(), Error>> + use<> {
        let file = Arc::clone(&self.file);
        self.file.disk.spawn(move || {
            // Advice only: a file system without readahead still serves the reads below.
            let ahead = NonZeroU64::new(len * 2);
            let _ = rustix::fs::fadvise(&*file, offset, ahead, Advice::WillNeed);
            let last = offset + len.saturating_sub(1);
            for at in (offset..offset + len).step_by(STRIDE).chain([last]) {
                retry_on_intr(|| rustix::io::pread(&*file, &mut [0], at))
                    .map_err(Error::errno_while("read ahead"))?;
            }
            Ok(())
        })
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
pub type Descriptor = Arc<ValueFile>;

/// Chooses the values that are looked at, by key and stored media type.
pub type IsText = fn(key: &str, stored: Option<&str>) -> bool;

/// Begins an escape sequence of ISO-2022-JP, whose bytes are all ASCII.
const ISO_2022: &[u8] = b"\x1b$";

/// Whether a value is UTF-8 that begins with `start`; with `is_all`, that is all of it, else a character may be cut off
/// at the end. Two other encodings that are valid UTF-8 by their bytes are told apart: UTF-16, by its zeros, and
/// ISO-2022.
pub fn is_utf8(start: &[u8], is_all: bool) -> bool {
    let is_valid = match from_utf8(start) {
        Ok(_) => true,
        Err(error) => !is_all && error.error_len().is_none(),
    };
    is_valid && memchr(0, start).is_none() && memmem::find(start, ISO_2022).is_none()
}

/// How much is hashed in a turn: some milliseconds, as a turn of compression takes.
const TURN: u64 = 4 << 20;

impl Object {
    /// The digest that `sha512` chooses, SHA-256 otherwise: as kept beside the value, or computed by `compute` from all
    /// of it. That of a large value is then kept if `keep`.
    pub async fn digest(
        self: &Arc<Self>,
        sha512: bool,
        keep: bool,
        compute: &BlockingPool,
    ) -> Result<Digest, Error> {
        let Meta { len, version, .. } = self.meta;
        let (mut hasher, mut offset) = (Hasher::new(Wanted::one(sha512)), 0);
        loop {
            let (file, turn) = (Arc::clone(&self.file), offset..len.min(offset + TURN));
            offset = turn.end;
            let take_turn = move || {
                let is_first = turn.start == 0;
                let kept = || attributes::kept_digest(&file, version, sha512);
                match is_first.then(kept).flatten() {
                    Some(kept) => Ok(ControlFlow::Break(kept)),
                    None => hash_file(&file, turn, hasher).map(ControlFlow::Continue),
                }
            };
            hasher = match compute.spawn(take_turn).await? {
                ControlFlow::Break(kept) => return Ok(kept),
                ControlFlow::Continue(hasher) => hasher,
            };
            if offset == len {
                break;
            }
        }
        let digest = hasher.finish().one().ok_or(Error::Truncated)?;
        if keep && is_large(len) {
            let object = Arc::clone(self);
            let keep = move || {
                if object.is_current() {
                    attributes::keep_digest(&object.file, version, digest)?;
                }
                Ok(())
            };
            // A convenience: the digest is as good without it.
            let _ = self.file.disk.spawn(keep).await;
        }
        Ok(digest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn other_encodings_are_no_utf8() {
        for other in [
            &b"caf\xe9 au lait"[..],          // Latin-1
            b"\x82\xb1\x82\xf1",              // Shift JIS
            b"\xff\xfeh\0i\0",                // UTF-16 with its mark
            b"h\0i\0",                        // and without
            b"\x1b$B$3$s\x1b(B",              // ISO-2022-JP
            b"\xc0\xaf",                      // overlong
            b"\xed\xa0\x80",                  // half a surrogate pair
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", // an image
        ] {
            assert!(!is_utf8(other, true), "{}", other.escape_ascii());
            assert!(!is_utf8(other, false), "{}", other.escape_ascii());
        }
        // Coloured output of a terminal.
        assert!(is_utf8(b"\x1b[31mred\x1b[0m", true));
        assert!(is_utf8(b"", true));
    }

    proptest! {
        #[test]
        fn text_is_found_wherever_it_is_cut(text in "[^\0\u{1b}]{0,40}", at in 0_usize..160) {
            let bytes = text.as_bytes();
            let start = &bytes[..at.min(bytes.len())];
            prop_assert!(is_utf8(bytes, true));
            prop_assert!(is_utf8(start, false));
            prop_assert_eq!(is_utf8(start, true), from_utf8(start).is_ok());
        }

        #[test]
        fn a_byte_that_is_none_shows(text in "[^\0\u{1b}]{0,20}", more in "[a-z]{4}") {
            let bytes = [text.as_bytes(), b"\xff", more.as_bytes()].concat();
            prop_assert!(!is_utf8(&bytes, false));
        }
    }
}
