//! An upload of unknown length, kept in a file without a name until it can be sent.
//!
//! The disk threads write and read it, one piece at a time. The system frees it when it is closed, also when the process is
//! killed.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::transfer::{BlockingPool, random, write_at};
use crate::value::Error;

/// Bytes that are written or read at a time: an upload has at most two of these in memory.
pub const PIECE: usize = 64 << 10;

type Writing = Pin<Box<dyn Future<Output = Result<(), Error>>>>;

/// An upload of unknown length.
pub struct Spool {
    /// `None` once it is being closed.
    file: Option<Arc<File>>,
    /// Bytes written, or being written.
    len: u64,
    writing: Option<Writing>,
    disk: BlockingPool,
}

impl Spool {
    /// A new one in `dir`.
    pub async fn create(dir: &Path, disk: &BlockingPool) -> Result<Self, Error> {
        let dir = dir.to_owned();
        let file = disk.run(move || nameless(&dir)).await?;
        Ok(Self {
            file: Some(Arc::new(file)),
            len: 0,
            writing: None,
            disk: disk.clone(),
        })
    }

    /// Bytes written, or being written.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Starts to write `runs`, `len` bytes, once the write before has ended.
    pub async fn write(&mut self, runs: Vec<Bytes>, len: u64) -> Result<(), Error> {
        self.written().await?;
        let (file, offset) = (self.file()?, self.len);
        self.len += len;
        let job = move || write_at(&*file, offset, &runs);
        self.writing = Some(Box::pin(self.disk.spawn(job)));
        Ok(())
    }

    /// Waits until all is written.
    pub async fn written(&mut self) -> Result<(), Error> {
        match self.writing.take() {
            Some(writing) => writing.await,
            None => Ok(()),
        }
    }

    /// Up to a piece of the bytes from `offset` to `end`, which are written.
    pub async fn read(&self, offset: u64, end: u64) -> Result<Bytes, Error> {
        let file = self.file()?;
        let len = usize::try_from(end - offset).unwrap_or(PIECE).min(PIECE);
        self.disk.run(move || read_at(&file, offset, len)).await
    }

    /// The file, for a job.
    pub fn file(&self) -> Result<Arc<File>, Error> {
        self.file.clone().ok_or(Error::Incomplete)
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // To free the blocks of a long file takes long.
        if let Some(file) = self.file.take() {
            self.disk.spawn_detached(move || drop(file));
        }
    }
}

impl fmt::Debug for Spool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spool")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// A file in `dir` that has no name. Blocks.
fn nameless(dir: &Path) -> Result<File, Error> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::openat(CWD, dir, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => return Ok(file.into()),
        // The file system has no such files.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
        Err(errno) => return Err(Error::new("make a file in --spool", errno)),
    }
    let nonce = random().map_err(|errno| Error::new("name a file in --spool", errno))?;
    let path = dir.join(format!(".data-server-spool-{nonce:032x}"));
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create_new(true).mode(0o600);
    let file = options
        .open(&path)
        .map_err(Error::failed("make a file in --spool"))?;
    std::fs::remove_file(&path).map_err(Error::failed("unname a file in --spool"))?;
    Ok(file)
}

fn read_at(file: &File, offset: u64, len: usize) -> Result<Bytes, Error> {
    let mut buf = vec![0; len];
    loop {
        match rustix::io::pread(file, &mut buf, offset) {
            Ok(0) => return Err(Error::Incomplete),
            Ok(n) => {
                buf.truncate(n);
                return Ok(buf.into());
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::new("read back", errno)),
        }
    }
}
