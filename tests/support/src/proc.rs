//! The server's pages in `/proc`: descriptors, threads, memory, CPU time.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// The bytes of connections to `addr` which no process has any more that the kernel still wants to send.
pub fn unsent_of_nobody(addr: SocketAddr) -> u64 {
    let port = format!(":{:04X}", addr.port());
    let of_line = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let &[_, local, _, _, queues, _, _, _, _, inode, ..] = &fields[..] else {
            return None;
        };
        let (unsent, _) = queues.split_once(':')?;
        let is_of_nobody = local.ends_with(&port) && inode == "0";
        is_of_nobody.then(|| u64::from_str_radix(unsent, 16).expect("a number"))
    };
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    let tables = tables.iter().flatten();
    tables
        .flat_map(|table| table.lines())
        .filter_map(of_line)
        .sum()
}

/// The `/proc` pages of one process.
pub struct Proc(pub u32);

impl Proc {
    /// Connections and uploads under way: sockets, and value files without a name or in staging.
    ///
    /// The listener and the runtimes' own sockets are in the count too, so compare it with the count at rest.
    pub fn in_flight(&self) -> usize {
        self.sockets() + self.staged()
    }

    /// Uploads that have a temporary file.
    pub fn staged(&self) -> usize {
        let is_staged = |link: &PathBuf| {
            let link = link.as_os_str().as_bytes();
            link.ends_with(b" (deleted)") || link.windows(10).any(|part| part == b"r/staging/")
        };
        self.links().iter().filter(|link| is_staged(link)).count()
    }

    /// Whether this file is open.
    pub fn has_open(&self, file: &Path) -> bool {
        self.links().iter().any(|link| link == file)
    }

    /// All open descriptors.
    pub fn descriptors(&self) -> usize {
        self.links().len()
    }

    /// Open sockets.
    pub fn sockets(&self) -> usize {
        self.links()
            .iter()
            .filter(|link| link.as_os_str().as_bytes().starts_with(b"socket:"))
            .count()
    }

    /// The identifiers of the threads of this name.
    pub fn thread_ids(&self, name: &str) -> Vec<u32> {
        self.of_threads(|task| {
            let comm = fs::read_to_string(task.join("comm")).ok()?;
            let id = task.file_name()?.to_str()?.parse().ok();
            id.filter(|_| comm.trim_end() == name)
        })
    }

    /// What `read` finds in the page of each thread, which may end meanwhile.
    fn of_threads<T>(&self, read: impl Fn(PathBuf) -> Option<T>) -> Vec<T> {
        let tasks = fs::read_dir(self.page("task")).expect("the threads");
        tasks.filter_map(|task| read(task.ok()?.path())).collect()
    }

    /// The names of all threads, and the CPUs each may run on.
    pub fn threads(&self) -> Vec<(String, String)> {
        self.of_threads(|task| {
            let name = fs::read_to_string(task.join("comm")).ok()?;
            let status = fs::read_to_string(task.join("status")).ok()?;
            let cpus = line(&status, "Cpus_allowed_list:");
            Some((name.trim_end().to_owned(), cpus.to_owned()))
        })
    }

    /// What each thread does or waits for: its name, its state, its system call and its stack in the kernel (which only root
    /// can read).
    pub fn whereabouts(&self) -> Vec<String> {
        let tasks = fs::read_dir(self.page("task")).into_iter().flatten();
        let read = |task: PathBuf| {
            let page = |name: &str| fs::read_to_string(task.join(name)).unwrap_or_default();
            // Missing files are ignored: a thread may end meanwhile, and the calling test fails already.
            let name = page("comm").trim_end().to_owned();
            let stat = page("stat");
            let state = stat.rsplit_once(") ");
            let state = state.map_or("", |(_, rest)| rest.get(..1).unwrap_or(""));
            let stack = page("stack").replace("[<0>] ", "").replace('\n', " < ");
            format!(
                "{name} {state}, call {}: {stack}",
                page("syscall").trim_end()
            )
        };
        let these = tasks.filter_map(|task| Some(read(task.ok()?.path())));
        these.collect()
    }

    /// Bytes that each thread, by its name, has read from a device.
    pub fn bytes_from_device(&self) -> Vec<(String, u64)> {
        self.of_threads(|task| {
            let name = fs::read_to_string(task.join("comm")).ok()?;
            let io = fs::read_to_string(task.join("io")).ok()?;
            let bytes = line(&io, "read_bytes:").parse().ok()?;
            Some((name.trim_end().to_owned(), bytes))
        })
    }

    /// The peak of resident memory, in KiB. The kernel adds up what each processor has counted, some of it a little late: a later
    /// look may find less.
    pub fn peak_rss_kib(&self) -> u64 {
        self.memory_kib("VmHWM:")
    }

    /// The resident memory, in KiB.
    pub fn rss_kib(&self) -> u64 {
        self.memory_kib("VmRSS:")
    }

    /// The part of that which is no file's, in KiB: code that runs for the first time is not in it.
    pub fn anonymous_kib(&self) -> u64 {
        self.memory_kib("RssAnon:")
    }

    fn memory_kib(&self, label: &str) -> u64 {
        let status = fs::read_to_string(self.page("status")).expect("the status");
        let these = line(&status, label).trim_end_matches(" kB").parse();
        these.expect("a number of kB")
    }

    /// The limit on open files, soft and hard.
    pub fn nofile(&self) -> (u64, u64) {
        let limits = fs::read_to_string(self.page("limits")).expect("the limits");
        let mut numbers = line(&limits, "Max open files").split_whitespace();
        let mut next = || {
            let these = numbers.next().and_then(|number| number.parse().ok());
            these.expect("a number")
        };
        (next(), next())
    }

    /// CPU time used so far by all threads.
    pub fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(self.page("stat")).expect("the stat page");
        let after_name = stat.rsplit_once(')').expect("a name in brackets").1;
        let field = |n: usize| -> u64 {
            let these = after_name.split_whitespace().nth(n);
            let these = these.and_then(|text| text.parse().ok());
            these.expect("clock ticks")
        };
        let ticks = field(11) + field(12);
        Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
    }

    /// CPU time used so far by the threads whose names have this prefix, to the nanosecond (`/proc/PID/task/TID/schedstat`;
    /// the stat page has steps of 10 ms, for user and system time of each thread).
    pub fn cpu_of(&self, names: &str) -> Duration {
        let times = self.of_threads(|task| {
            let name = fs::read_to_string(task.join("comm")).ok()?;
            let schedstat = fs::read_to_string(task.join("schedstat")).ok()?;
            let nanos = schedstat.split_whitespace().next()?.parse().ok()?;
            name.starts_with(names)
                .then_some(Duration::from_nanos(nanos))
        });
        times.iter().sum()
    }

    /// Kills what traces it. strace passes its end on only after the delay of a call that it holds.
    pub fn kill_tracer(&self) {
        let status = fs::read_to_string(self.page("status")).expect("the status page");
        let tracer = line(&status, "TracerPid:").parse().expect("a number");
        let tracer = Pid::from_raw(tracer).expect("a tracer");
        kill_process(tracer, Signal::KILL).expect("it can be killed");
    }

    /// The nice value of each thread whose name has this prefix.
    pub fn nice_of(&self, names: &str) -> Vec<i32> {
        let stats = self.stats_of(names);
        let nice = stats.iter().map(|stat| stat[16].parse());
        nice.map(|nice| nice.expect("a number")).collect()
    }

    /// The fields of each thread's stat page after its name.
    fn stats_of(&self, names: &str) -> Vec<Vec<String>> {
        self.of_threads(|task| {
            let stat = fs::read_to_string(task.join("stat")).ok()?;
            let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
            let fields = rest.split_whitespace().map(str::to_owned).collect();
            name.starts_with(names).then_some(fields)
        })
    }

    /// What each open descriptor is of.
    pub fn links(&self) -> Vec<PathBuf> {
        let fds = fs::read_dir(self.page("fd")).expect("the descriptors");
        fds.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok())
            .collect()
    }

    fn page(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.0))
    }
}

fn line<'a>(page: &'a str, label: &str) -> &'a str {
    let found = page.lines().find_map(|line| line.strip_prefix(label));
    found.unwrap_or_else(|| panic!("no `{label}`")).trim()
}
