//! The temporary file of an upload, as it is written: by the disk threads, one write at a time, from memory or through
//! a pipe.
//!
//! Space is reserved a bounded stretch ahead of the received bytes, never for all announced bytes: a client that
//! announces much and sends nothing takes no space from others, and evicts nothing. Before each stretch the bounds are
//! asked, so that of an unknown length, too, no more than a stretch lies on the disk beyond a quota.

use std::ops::Range;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::FallocateFlags;

use crate::store::bounds::Staging;
use crate::store::object::Object;
use crate::store::publish::may_publish;
use crate::store::temp_file::{Placement, TempFile, allocate};
use crate::store::upload::copy_bytes::copy_range;
use crate::store::upload_claim::Claim;
use crate::store::upload_room::UploadRoom;
use crate::store::value_file::ValueFile;
use crate::store::write_context::WriteContext;
use crate::transfer::{BodySource, Pipe, write_at};
use crate::value::{Error, Key, Meta};

/// The most that a disk thread takes from a socket before others have their turn, in bytes.
const TURN: u64 = 4 << 20;

/// The least and the most bytes set aside ahead; between them as many as were received, so that a long value has few
/// extents.
const AHEAD: (u64, u64) = (1 << 20, 16 << 20);

/// Runs of so many bytes in all.
type Runs = (Vec<Bytes>, u64);

/// A write, or its data where the disk had no space.
type Writing = Pin<Box<dyn Future<Output = Result<Result<(), Full<Runs>>, Error>>>>;

/// Gives the pipe back, empty, and how many bytes the disk thread took from the socket itself; or what was to be
/// written.
type Passing =
    Pin<Box<dyn Future<Output = Result<Result<(Pipe, u64), Full<(Bytes, Pipe)>>, Error>>>>;

/// A temporary file that is being written.
pub struct FileWriter {
    writer: Arc<WriteContext>,
    pub file: TempFile,
    /// Bytes written, or being written.
    pub len: u64,
    /// Where what has been set aside ends.
    reserved: u64,
    /// Where what is known to come ends.
    announced: u64,
    /// With bounds: what makes room for the value.
    room: Option<Box<UploadRoom>>,
    writing: Option<Writing>,
    /// A disk thread takes bytes from a socket. It is waited for also when [`FileWriter::receive`] is given up: two
    /// that take from one socket would leave a hole.
    passing: Option<Passing>,
}

impl FileWriter {
    /// A new file, for which so many bytes are `announced`, for the value of `key`, if that is known. It begins with
    /// the `first` bytes, runs of so many, which the thread that makes the file writes.
    pub async fn create(
        writer: &Arc<WriteContext>,
        announced: u64,
        key: Option<Key<'static>>,
        mut room: Option<Box<UploadRoom>>,
        mut first: Runs,
    ) -> Result<Self, Error> {
        let len = first.1;
        loop {
            room.as_ref().map_or(Ok(()), |it| it.staging.grow(len))?;
            let (context, key) = (Arc::clone(writer), key.clone());
            let job = move || {
                // The publisher asks too, and nearly at once where all bytes are there: then only where others would go
                // for it.
                let is_whole = announced == len;
                if !is_whole {
                    may_create(&context, key.as_ref())?;
                }
                let made = make(&context, announced, first)?;
                if is_whole && made.is_err() {
                    may_create(&context, key.as_ref())?;
                }
                Ok(made)
            };
            match writer.dir().disk.spawn(job).await? {
                Ok(file) => {
                    return Ok(Self::resume(Arc::clone(writer), file, len, announced, room));
                }
                Err(full) => first = full.make_room(room.as_mut()).await?,
            }
        }
    }

    /// Continues `file`, which has `len` bytes; the bytes before `announced` are announced.
    pub fn resume(
        writer: Arc<WriteContext>,
        file: TempFile,
        len: u64,
        announced: u64,
        room: Option<Box<UploadRoom>>,
    ) -> Self {
        Self {
            writer,
            file,
            len,
            reserved: len,
            announced,
            room,
            writing: None,
            passing: None,
        }
    }

    /// What counts for the bytes in bounds, until they are published.
    pub fn staging(&self) -> Option<Arc<Staging>> {
        Some(Arc::clone(&self.room.as_ref()?.staging))
    }

    /// Starts to write `runs`, `len` bytes, once the write before has ended.
    pub async fn write(&mut self, runs: Vec<Bytes>, len: u64) -> Result<(), Error> {
        self.written().await?;
        self.len += len;
        self.begin_write(runs, len)
    }

    /// Starts to write `runs`, the last `len` bytes.
    fn begin_write(&mut self, runs: Vec<Bytes>, len: u64) -> Result<(), Error> {
        let (file, end) = (Arc::clone(&self.file.file), self.len);
        let ahead = self.ahead(end)?;
        let job = move || {
            ahead.during(&*file, end, (runs, len), |(runs, len)| {
                write_at(&*file, end - len, &runs)?;
                Ok(((), end))
            })
        };
        self.writing = Some(Box::pin(self.file.file.disk.spawn(job)));
        Ok(())
    }

    /// The space to be set aside before the bytes up to `end` are written; fails where a bound has no room for them.
    fn ahead(&mut self, end: u64) -> Result<Ahead, Error> {
        self.room
            .as_ref()
            .map_or(Ok(()), |it| it.staging.grow(end))?;
        let stretch = end.clamp(AHEAD.0, AHEAD.1);
        let more = end.saturating_add(stretch).min(self.announced).max(end);
        let start = self.reserved;
        if end > start {
            self.reserved = more;
        }
        Ok(Ahead {
            writer: Arc::clone(&self.writer),
            claim: self.file.claim.clone(),
            range: start..self.reserved,
        })
    }

    /// Makes room for a write that the disk had no space for, and gives its data back; fails where there is none.
    async fn make_room<D>(&mut self, full: Full<D>) -> Result<D, Error> {
        self.reserved = full.range.start;
        full.make_room(self.room.as_mut()).await
    }

    /// Waits until all is written, and nothing is taken from a socket any more.
    pub async fn written(&mut self) -> Result<(), Error> {
        if let Some(passing) = &mut self.passing {
            let passed = passing.await;
            self.passing = None;
            passed?.map_err(|full| full.why)?;
        }
        while let Some(writing) = self.writing.take()
            && let Err(full) = writing.await?
        {
            let (runs, len) = self.make_room(full).await?;
            self.begin_write(runs, len)?;
        }
        Ok(())
    }

    /// Copies all bytes of `object`, which the file is to have alone.
    pub async fn copy(&mut self, object: &Object) -> Result<(), Error> {
        let len = object.meta.len;
        self.copy_range(&object.shared(), 0..len, true).await?;
        let stat = rustix::fs::fstat(&*self.file.file).map_err(Error::errno_while("copy"))?;
        // By hand the file may have become shorter, or longer.
        if Meta::of(&stat).len != len {
            return Err(Error::Truncated);
        }
        Ok(())
    }

    /// Adds these bytes of a file, which is `whole` where they are all of it: the files share them where the file
    /// system can do that, else the kernel copies them, a few at a time.
    pub async fn copy_range(
        &mut self,
        from: &Arc<ValueFile>,
        range: Range<u64>,
        is_whole: bool,
    ) -> Result<(), Error> {
        self.written().await?;
        let mut at = range.start;
        while at < range.end {
            let (from, to) = (Arc::clone(from), Arc::clone(&self.file.file));
            let (begin, len) = (self.len, TURN.min(range.end - at));
            let (end, rest) = (begin + len, range.end - at);
            let ahead = self.ahead(end)?;
            let job = move || {
                if is_whole && begin == 0 && rustix::fs::ioctl_ficlone(&*to, &*from).is_ok() {
                    return Ok(Ok(rest));
                }
                let copy = |()| copy_range(&from, &to, at..at + len, begin).map(|()| (len, end));
                ahead.during(&*to, end, (), copy)
            };
            match self.file.file.disk.spawn(job).await? {
                Ok(copied) => {
                    self.len += copied;
                    at += copied;
                }
                Err(full) => self.make_room(full).await?,
            }
        }
        Ok(())
    }

    /// Takes all that `source` has, through `pipe`. A reactor moves what has arrived into the pipe, and a disk thread
    /// passes that on to the file; while more is there it goes on by itself, so that a fast sender costs one hand-over
    /// for some megabytes. Given up, what had arrived is lost, but for what [`FileWriter::written`] waits for.
    pub async fn receive(
        &mut self,
        mut pipe: Pipe,
        source: &mut dyn BodySource,
    ) -> Result<(), Error> {
        let descriptor = source.source().map(Arc::new);
        let mut early = source.take_early();
        while source.remaining() + early.len() as u64 > 0 {
            // A resumable upload keeps also the bytes that came before a body broke off.
            let filled = pipe.fill(source).await;
            if filled.is_err() && early.is_empty() && pipe.len() == 0 {
                return filled;
            }
            let mut data = (std::mem::take(&mut early), pipe);
            let held = (data.0.len() + data.1.len()) as u64;
            let (offset, end) = (self.len, self.len + held);
            pipe = loop {
                let file = Arc::clone(&self.file.file);
                let more = descriptor.clone().filter(|_| filled.is_ok());
                let ahead = self.ahead(end)?;
                // No further than space has been set aside.
                let most = source.remaining().min(TURN).min(self.reserved - end);
                let job = move || {
                    ahead.during(&*file, end, data, |(first, mut pipe)| {
                        write_at(&*file, offset, std::slice::from_ref(&first))?;
                        pipe.write_to(&*file, offset + first.len() as u64)?;
                        let taken = match more {
                            Some(socket) => pipe.pass_on(socket.as_fd(), most, &*file, end)?,
                            None => 0,
                        };
                        Ok(((pipe, taken), end + taken))
                    })
                };
                let job = Box::pin(self.file.file.disk.spawn(job));
                let passed = self.passing.insert(job).await;
                self.passing = None;
                match passed? {
                    Ok((emptied, taken)) => {
                        source.taken(taken);
                        self.len += held + taken;
                        break emptied;
                    }
                    Err(full) => data = self.make_room(full).await?,
                }
            };
            filled?;
        }
        Ok(())
    }
}

/// Fails where a value of `key`, if that is known, cannot get to its folder. Blocks.
fn may_create(writer: &WriteContext, key: Option<&Key<'_>>) -> Result<(), Error> {
    match key {
        Some(key) => may_publish(writer, key),
        None => writer.dir().location.check(),
    }
}

/// Makes the file of a value for which so many bytes are `announced`, with the `first` of them, runs of so many: one
/// that the disk can have no space for is refused. Blocks.
fn make(
    writer: &Arc<WriteContext>,
    announced: u64,
    first: Runs,
) -> Result<Result<TempFile, Full<Runs>>, Error> {
    let len = first.1;
    let may_take = writer.may_take(announced);
    let made = may_take.and_then(|()| TempFile::create(&writer.temp_dir, Placement::Absent, None));
    let file = match made {
        Err(why @ Error::NoSpace(_)) => return Ok(Err(Full::new(why, 0..len, first))),
        made => made?,
    };
    let ahead = Ahead {
        writer: Arc::clone(writer),
        claim: None,
        range: 0..len,
    };
    let written = ahead.during(&*file.file, len, first, |(runs, _)| {
        Ok((write_at(&*file.file, 0, &runs)?, len))
    });
    Ok(written?.map(|()| file))
}

/// The space that is set aside for a write, and the claim on a resumable upload.
struct Ahead {
    writer: Arc<WriteContext>,
    claim: Option<Arc<Claim>>,
    range: Range<u64>,
}

/// A write that the disk has no space for, or no inode.
struct Full<D> {
    why: Error,
    /// The bytes of the file that there is no space for.
    range: Range<u64>,
    /// The data that was to be written.
    data: D,
}

impl<D> Full<D> {
    fn new(why: Error, range: Range<u64>, data: D) -> Self {
        Self { why, range, data }
    }

    /// Gives the data back once `room` has made room for it; fails where there is none.
    async fn make_room(self, room: Option<&mut Box<UploadRoom>>) -> Result<D, Error> {
        let Some(room) = room else {
            return Err(self.why);
        };
        let len = self.range.end - self.range.start;
        let is_made = Box::pin(room.make(len, 1)).await;
        is_made.then_some(self.data).ok_or(self.why)
    }
}

impl Ahead {
    /// Writes `data` by `write`, once there is space for it up to `end`; it answers how long the file is then. Blocks.
    fn during<D, T>(
        self,
        file: impl AsFd,
        end: u64,
        data: D,
        write: impl FnOnce(D) -> Result<(T, u64), Error>,
    ) -> Result<Result<T, Full<D>>, Error> {
        let _taking = match self.take(file, end) {
            Err(why @ Error::NoSpace(_)) => {
                return Ok(Err(Full::new(why, self.range.clone(), data)));
            }
            taken => taken?,
        };
        let (done, len) = write(data)?;
        if let Some(claim) = &self.claim {
            claim.entry.progress().received = len;
        }
        Ok(Ok(done))
    }

    /// Takes the space; what lies behind `end` is set aside. Blocks.
    fn take(&self, file: impl AsFd, end: u64) -> Result<impl Drop, Error> {
        let len = self.range.end - self.range.start;
        let taking = self.writer.take_space(len)?;
        if len > 0 && self.range.end > end {
            if let Some(claim) = &self.claim {
                claim.entry.progress().is_ahead = true;
            }
            allocate(file, FallocateFlags::KEEP_SIZE, self.range.clone())
                .map_err(Error::errno_while("reserve"))?;
        }
        Ok(taking)
    }
}
