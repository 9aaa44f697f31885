//! The ways of a value's bytes, whichever engine keeps it: pipes, buffers, digests on the way, the quota of uploads,
//! the sizes at which a value is handled in another way, and the pools of threads beside the reactors. It knows no key.
//!
//! A value on its way in stays in memory up to [`SMALL`] and lies in a temporary file beyond. A value on its way out is
//! answered from memory up to [`IN_MEMORY`] and from its file beyond. All reactors share one [`BlockingPool`] of each
//! kind, so its size is a budget of the process.

mod pipes;
mod quota;
mod receiver;

use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::thread::{CpuSet, sched_setaffinity};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

use crate::metrics::Jobs;
use crate::value::Error;

pub use pipes::{BodySource, Pipe, Pipes, read};
pub use quota::{
    NoPlace, QuotaReservation, ReservationHandle, StagingBounds, StagingQuota, UPLOADS_OF_ONE,
    Uploader,
};
pub use receiver::{
    Hashing, UploadHead, UploadReceiver, WriteBuffer, hash_file, read_at, write_at,
};

/// The longest value that is answered from memory: copying more costs more than having the kernel send it from its own
/// cache, above all where other programs use the memory too.
pub const IN_MEMORY: u64 = 8 << 10;

/// The longest upload that stays in memory until it is published. Up to this length, and without a bound on what may be
/// staged, an upload touches neither a file nor a shared counter before the publisher has it.
pub const SMALL: u64 = 64 << 10;

/// True when an upload of this length goes to a file before it is whole.
pub fn is_large(len: u64) -> bool {
    len > SMALL
}

/// The size of one write to a temporary file, and of one read of a file that is hashed: large enough that the hand-over
/// to another thread is a small part of the cost. An upload buffers at most two of these.
pub const CHUNK: usize = 256 << 10;

/// Received runs of bytes shorter than this are copied together: each run that is kept holds on to the whole receive
/// buffer that it lies in.
pub const COPIED: usize = 16 << 10;

/// How far the reservation of an upload of unknown length grows at a time: as far as its next write goes.
pub const RESERVED_AT_ONCE: u64 = CHUNK as u64;

/// Freeing the blocks of a file longer than this takes long enough to delay others on the same thread: the disk threads
/// close it.
pub const SLOW_TO_FREE: u64 = 256 << 10;

/// 128 bits that cannot be guessed.
pub fn random() -> Result<u128, Errno> {
    let mut bytes = [0; 16];
    match getrandom(&mut bytes, GetRandomFlags::empty())? {
        16 => Ok(u128::from_ne_bytes(bytes)),
        _ => Err(Errno::IO),
    }
}

/// Enough to keep a deep device queue busy; more threads only queue in the kernel instead of here.
const DISK_THREADS: usize = 32;

/// A large directory keeps each of them, and a processor, busy for long: however many list, others have the rest.
const LISTING_THREADS: usize = 4;

/// How nice threads are that work in the background, for listings or compute: a tenth of the weight of others, where a
/// processor is wanted by both.
const NICE: i32 = 10;

/// Longer than any process lives: a pool never shrinks, so that it never is without a thread.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A pool of threads: `disk-*` for everything that may wait for a device, a few `disk-list-*` for listings alone, and
/// `compute-*` for work that keeps a processor busy for longer than a request should wait. Clones share it, and its
/// threads end with the last.
///
/// A pool grows when needed and keeps its threads. A job runs to its end, also when its future is dropped, but a
/// compute job that has not started by then is left out; one that panics fails alone. Jobs beyond the pool's size wait
/// their turn, as do those for which the system gives no further thread. Listing and compute threads are nice: where
/// both want a processor, a reactor has it first.
#[derive(Clone, Debug)]
pub struct BlockingPool(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    threads: Handle,
    /// There until this is dropped.
    runtime: Option<Runtime>,
    jobs: Arc<Jobs>,
    /// Leaves out jobs whose future was dropped before they started: they change nothing.
    skips_unwanted: bool,
}

impl BlockingPool {
    /// The disk threads, on these CPUs.
    pub fn disk(cpus: Option<CpuSet>) -> io::Result<Self> {
        Self::start("disk", DISK_THREADS, cpus, 0, false)
    }

    /// The threads for listings, on these CPUs.
    pub fn listing(cpus: Option<CpuSet>) -> io::Result<Self> {
        Self::start("disk-list", LISTING_THREADS, cpus, NICE, false)
    }

    /// A pool of at most this number of compute threads, on these CPUs.
    pub fn compute(most: usize, cpus: Option<CpuSet>) -> io::Result<Self> {
        Self::start("compute", most, cpus, NICE, true)
    }

    fn start(
        name: &'static str,
        most: usize,
        cpus: Option<CpuSet>,
        nice: i32,
        skips_unwanted: bool,
    ) -> io::Result<Self> {
        let runtime = start(name, most, cpus, nice)?;
        Ok(Self(Arc::new(Pool {
            threads: runtime.handle().clone(),
            runtime: Some(runtime),
            jobs: Arc::default(),
            skips_unwanted,
        })))
    }

    /// Starts `job` on one of the threads at once; the future waits for its result.
    pub fn spawn<T, F>(&self, job: F) -> impl Future<Output = Result<T, Error>> + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce() -> Result<T, Error> + Send + 'static,
    {
        let waiter = self.0.skips_unwanted.then(Arc::<()>::default);
        let waits = waiter.as_ref().map(Arc::downgrade);
        let running = self.submit(move || match waits {
            Some(waiter) if waiter.strong_count() == 0 => Err(failed("no request waits for it")),
            _ => job(),
        });
        async move {
            let result = running.await;
            drop(waiter);
            result.unwrap_or_else(|panic| Err(failed(panic)))
        }
    }

    /// Runs `job` on one of the threads, without a future that waits for it.
    pub fn spawn_detached(&self, job: impl FnOnce() + Send + 'static) {
        drop(self.submit(job));
    }

    fn submit<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let jobs = Arc::clone(&self.0.jobs);
        jobs.submit();
        self.0.threads.spawn_blocking(move || {
            let _busy = jobs.start();
            job()
        })
    }

    /// Its jobs, in numbers.
    pub fn jobs(&self) -> &Jobs {
        &self.0.jobs
    }
}

fn failed(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::failed("run a job")(io::Error::other(why))
}

fn start(name: &'static str, most: usize, cpus: Option<CpuSet>, nice: i32) -> io::Result<Runtime> {
    // Where a pool has no thread and the system has none to give, tokio panics; with one, jobs wait for it. So the
    // first is started while that still can be refused, once it is known that there is one.
    let probe = thread::Builder::new().spawn(rustix::thread::gettid)?;
    if let Ok(id) = probe.join() {
        // It counts until the kernel has let go of it.
        let task = format!("/proc/self/task/{}", id.as_raw_nonzero());
        let _ = (0..1000).find(|_| {
            thread::yield_now();
            !Path::new(&task).exists()
        });
    }
    let next = AtomicUsize::new(0);
    let runtime = Builder::new_current_thread()
        .max_blocking_threads(most)
        .thread_keep_alive(FOR_EVER)
        .thread_name_fn(move || format!("{name}-{}", next.fetch_add(1, Ordering::Relaxed)))
        .on_thread_start(move || settle(cpus, nice))
        .build()?;
    if catch_unwind(AssertUnwindSafe(|| runtime.spawn_blocking(|| ()))).is_err() {
        runtime.shutdown_background();
        return Err(io::Error::other("the system gives no more threads"));
    }
    Ok(runtime)
}

/// A thread inherits the CPUs of the thread that started it, which may be a reactor pinned to one. A failure costs
/// speed.
fn settle(cpus: Option<CpuSet>, nice: i32) {
    if let Some(cpus) = cpus {
        let _ = sched_setaffinity(None, &cpus);
    }
    if nice > 0 {
        be_nicer(nice);
    }
}

fn be_nicer(by: i32) {
    // Of this thread alone: on Linux each has its own.
    let _ = rustix::process::nice(by);
}

/// Has this thread leave the processor to those of requests, as threads for listings do. A failure costs speed.
pub fn work_in_background() {
    be_nicer(NICE);
}

impl Drop for Pool {
    fn drop(&mut self) {
        // A runtime may not wait for its threads from within another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Starts a thread with this name that does `work`; a panic there ends the process, which cannot go on without it.
pub fn spawn_vital<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<thread::JoinHandle<T>> {
    let thread = name.to_owned();
    let work = move || {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
            // Not by the log, whose lines wait for a thread of their own.
            let why = format!("data-server: the thread {thread} has panicked, without which no write is answered\n");
            let _ = io::stderr().write_all(why.as_bytes());
            std::process::exit(1)
        })
    };
    std::thread::Builder::new().name(name.into()).spawn(work)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Each of many requests whose clients had left had a job of its own, before those of the others.
    #[tokio::test]
    async fn a_job_that_nobody_waits_for_is_left_out_by_compute_threads_alone() {
        for (name, is_made) in [("compute", false), ("disk", true)] {
            let pool = BlockingPool::start(name, 1, None, 0, !is_made).unwrap();
            let (go, wait) = mpsc::channel::<()>();
            pool.spawn_detached(move || {
                let _ = wait.recv();
            });
            let made = Arc::new(AtomicUsize::new(0));
            let count = |by| {
                let made = Arc::clone(&made);
                move || made.fetch_add(by, Ordering::Relaxed)
            };
            let job = |by| {
                let count = count(by);
                move || Ok(count())
            };
            drop(pool.spawn(job(1)));
            let detached = count(10);
            pool.spawn_detached(move || {
                detached();
            });
            let awaited = pool.spawn(job(100));
            drop(go);
            awaited.await.unwrap();
            let made = made.load(Ordering::Relaxed);
            assert_eq!(made, 110 + usize::from(is_made), "{name}");
            assert_eq!(pool.jobs().waiting(), 0);
        }
    }
}
