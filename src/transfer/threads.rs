//! The threads beside the reactors: `disk-*` for everything that may wait for a device, a few `disk-list-*` for listings
//! alone, and `compute-*` for what keeps a processor busy for longer than a request should wait.
//!
//! All reactors share one pool of each kind, so its size is a budget of the process. A pool grows when needed and keeps its
//! threads. A job that has started runs to its end, also when its future is dropped. Jobs beyond the pool's size wait their
//! turn, as do those for which the system gives no further thread. A job that panics fails alone.
//!
//! Listing and compute threads are nice: where both want a processor, a reactor has it first.

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::metrics::Jobs;
use crate::value::Error;

/// Enough to keep a deep device queue busy; more threads only queue in the kernel instead of here.
const DISK_THREADS: usize = 32;

/// A large directory keeps each of them, and a processor, busy for long: however many list, others have the rest.
const LISTING_THREADS: usize = 4;

/// How nice listing and compute threads are: a tenth of the weight of others, where a processor is wanted by both.
const NICE: i32 = 10;

/// Longer than any process lives: a pool never shrinks, so that it never is without a thread.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A handle on one of the pools; clones share it, and the last one to go lets its threads end.
#[derive(Clone, Debug)]
pub struct BlockingPool(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    threads: Handle,
    /// There until this is dropped.
    runtime: Option<Runtime>,
    jobs: Arc<Jobs>,
}

impl BlockingPool {
    /// The disk threads, on these CPUs.
    pub fn disk(cpus: Option<CpuSet>) -> std::io::Result<Self> {
        Ok(Self::new(start("disk", DISK_THREADS, cpus, 0)?))
    }

    /// The threads for listings, on these CPUs.
    pub fn listing(cpus: Option<CpuSet>) -> std::io::Result<Self> {
        let runtime = start("disk-list", LISTING_THREADS, cpus, NICE)?;
        Ok(Self::new(runtime))
    }

    /// At most so many compute threads, on these CPUs.
    pub fn compute(most: usize, cpus: Option<CpuSet>) -> std::io::Result<Self> {
        Ok(Self::new(start("compute", most, cpus, NICE)?))
    }

    fn new(runtime: Runtime) -> Self {
        let jobs = Arc::default();
        Self(Arc::new(Pool {
            threads: runtime.handle().clone(),
            runtime: Some(runtime),
            jobs,
        }))
    }

    /// Runs `job` on one of the threads, starting when the future is first polled, and waits for its result.
    pub async fn run<T, F>(&self, job: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce() -> Result<T, Error> + Send + 'static,
    {
        self.spawn(job).await
    }

    /// Starts `job` on one of the threads at once; the future waits for its result.
    pub fn spawn<T, F>(&self, job: F) -> impl Future<Output = Result<T, Error>> + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce() -> Result<T, Error> + Send + 'static,
    {
        let job = self.counted(job);
        let running = self.0.threads.spawn_blocking(job);
        async {
            let panicked = |panic| Error::Failed {
                doing: "run a job",
                source: std::io::Error::other(panic),
            };
            running.await.unwrap_or_else(|panic| Err(panicked(panic)))
        }
    }

    /// Runs `job` on one of the threads, without a future that waits for it.
    pub fn spawn_detached(&self, job: impl FnOnce() + Send + 'static) {
        drop(self.spawn(move || {
            job();
            Ok(())
        }));
    }

    /// Its jobs, in numbers.
    pub fn jobs(&self) -> &Jobs {
        &self.0.jobs
    }

    fn counted<T, F: FnOnce() -> T>(&self, job: F) -> impl FnOnce() -> T + use<T, F> {
        let jobs = Arc::clone(&self.0.jobs);
        jobs.submit();
        move || {
            let _busy = jobs.start();
            job()
        }
    }
}

fn start(
    name: &'static str,
    most: usize,
    cpus: Option<CpuSet>,
    nice: i32,
) -> std::io::Result<Runtime> {
    // Where a pool has no thread and the system has none to give, tokio panics; with one, jobs wait for it. So the first is started
    // while that still can be refused, once it is known that there is one.
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
        return Err(std::io::Error::other("the system gives no more threads"));
    }
    Ok(runtime)
}

/// A thread inherits the CPUs of the thread that started it, which may be a reactor pinned to one. A failure costs speed.
fn settle(cpus: Option<CpuSet>, nice: i32) {
    if let Some(cpus) = cpus {
        let _ = sched_setaffinity(None, &cpus);
    }
    if nice > 0 {
        // Of this thread alone: on Linux each has its own.
        let _ = rustix::process::nice(nice);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // A runtime may not wait for its threads from within another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Starts a thread with this name that does `work`.
pub fn spawn_vital<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    let thread = name.to_owned();
    let work = move || {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
            // Not by the log, whose lines wait for a thread of their own.
            let why = format!("data-server: the thread {thread} has panicked, without which no write is answered\n");
            let _ = std::io::stderr().write_all(why.as_bytes());
            std::process::exit(1)
        })
    };
    std::thread::Builder::new().name(name.into()).spawn(work)
}
