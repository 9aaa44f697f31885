//! A disk whose flush takes a known time: `slow-disk IMAGE DIRECTORY MICROSECONDS` mounts DIRECTORY, where the file
//! `disk` has the bytes of IMAGE. A loop device on that file is the disk; `mount` beside this makes all of it.
//!
//! Reads and writes go to IMAGE inside the kernel (passthrough of FUSE, Linux 6.9), so that the disk takes little CPU
//! from what is measured. Each flush comes here and waits.

use std::error::Error;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackingId, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyEmpty, ReplyEntry,
    ReplyOpen, Request,
};

/// Nothing that the kernel is told changes.
const VALID: Duration = Duration::from_secs(3600);

const DISK: INodeNo = INodeNo(2);

struct SlowDisk {
    image: File,
    size: u64,
    flush: Duration,
    backing: OnceLock<BackingId>,
}

impl SlowDisk {
    fn attributes(&self, ino: INodeNo) -> FileAttr {
        let (kind, size) = if ino == DISK {
            (FileType::RegularFile, self.size)
        } else {
            (FileType::Directory, 0)
        };
        FileAttr {
            ino,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for SlowDisk {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let missing = |_| std::io::Error::other("this kernel has no passthrough of FUSE");
        config
            .add_capabilities(InitFlags::FUSE_PASSTHROUGH)
            .map_err(missing)?;
        let depth = config.set_max_stack_depth(1);
        depth
            .map(drop)
            .map_err(|_| std::io::Error::other("no stacking"))
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == "disk" {
            reply.entry(&VALID, &self.attributes(DISK), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&VALID, &self.attributes(ino));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if self.backing.get().is_none() {
            match reply.open_backing(&self.image) {
                Ok(backing) => drop(self.backing.set(backing)),
                Err(error) => {
                    eprintln!("slow-disk: no passthrough to the image: {error}");
                    return reply.error(Errno::EIO);
                }
            }
        }
        match self.backing.get() {
            Some(backing) => reply.opened_passthrough(FileHandle(1), FopenFlags::empty(), backing),
            None => reply.error(Errno::EIO),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    /// What the loop device makes of a flush.
    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        std::thread::sleep(self.flush); // the time of a flush is what is played
        reply.ok();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [image, directory, microseconds] = arguments.as_slice() else {
        return Err("usage: slow-disk IMAGE DIRECTORY MICROSECONDS".into());
    };
    let image = File::options().read(true).write(true).open(image)?;
    let disk = SlowDisk {
        size: image.metadata().as_ref().map_or(0, Metadata::size),
        image,
        flush: Duration::from_micros(microseconds.parse()?),
        backing: OnceLock::new(),
    };
    fuser::mount(disk, directory, &Config::default())?;
    Ok(())
}
