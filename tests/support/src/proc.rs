//! The server's pages in `/proc`: descriptors, threads, memory, CPU time.

use std::fs;
use std::net::SocketAddr;
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
    let lines = tables.iter().flatten().flat_map(|table| table.lines());
    lines.filter_map(of_line).sum()
}

/// The text of a page of a thread, by its name.
type Page<'a> = dyn Fn(&str) -> Option<String> + 'a;

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
            let link = link.to_string_lossy();
            link.ends_with(" (deleted)") || link.contains("r/staging/")
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
        let is_socket = |link: &&PathBuf| link.to_string_lossy().starts_with("socket:");
        self.links().iter().filter(is_socket).count()
    }

    /// What `read` makes of each thread, by its name and its pages. A thread may end between the listing and the read.
    fn tasks<T>(&self, read: impl Fn(&str, &Page<'_>) -> Option<T>) -> Vec<T> {
        let tasks = fs::read_dir(self.page("task")).expect("the threads");
        let of_task = |task: PathBuf| {
            let page = |name: &str| fs::read_to_string(task.join(name)).ok();
            read(page("comm")?.trim_end(), &page)
        };
        let read = tasks.filter_map(|task| of_task(task.ok()?.path()));
        read.collect()
    }

    /// The identifiers of the threads of this name.
    pub fn thread_ids(&self, name: &str) -> Vec<u32> {
        self.tasks(|its_name, page| {
            let id = line(&page("status")?, "Pid:").parse().ok();
            id.filter(|_| its_name == name)
        })
    }

    /// The names of all threads, and the CPUs each may run on.
    pub fn threads(&self) -> Vec<(String, String)> {
        self.tasks(|name, page| {
            let status = page("status")?;
            let cpus = line(&status, "Cpus_allowed_list:");
            Some((name.to_owned(), cpus.to_owned()))
        })
    }

    /// Whether no thread runs, by a signal or by what traces it.
    pub fn is_stopped(&self) -> bool {
        let stopped = self.tasks(|_, page| {
            let status = page("status")?;
            Some(line(&status, "State:").starts_with(['T', 't']))
        });
        stopped.into_iter().all(|is_stopped| is_stopped)
    }

    /// What each thread does or waits for: its name, its state, its system call and its stack in the kernel (which only
    /// root can read).
    pub fn whereabouts(&self) -> Vec<String> {
        if !self.page("task").exists() {
            return Vec::new();
        }
        self.tasks(|name, page| {
            // Missing pages are ignored: the calling test fails already.
            let page = |name| page(name).unwrap_or_default();
            let (stat, call) = (page("stat"), page("syscall"));
            let state = stat.rsplit_once(") ");
            let state = state.map_or("", |(_, rest)| rest.get(..1).unwrap_or(""));
            let stack = page("stack").replace("[<0>] ", "").replace('\n', " < ");
            Some(format!("{name} {state}, call {}: {stack}", call.trim_end()))
        })
    }

    /// Bytes that each thread, by its name, has read from a device.
    pub fn bytes_from_device(&self) -> Vec<(String, u64)> {
        self.tasks(|name, page| {
            let bytes = line(&page("io")?, "read_bytes:").parse().ok()?;
            Some((name.to_owned(), bytes))
        })
    }

    /// The peak of resident memory, in KiB. The kernel adds up what each processor has counted, some of it a little
    /// late: a later look may find less.
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
        let mut next = || numbers.next().and_then(|number| number.parse().ok());
        let (soft, hard) = (next(), next());
        soft.zip(hard).expect("numbers")
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

    /// CPU time used so far by the threads whose names have this prefix, to the nanosecond
    /// (`/proc/PID/task/TID/schedstat`; the stat page has steps of 10 ms, for user and system time of each thread).
    pub fn cpu_of(&self, names: &str) -> Duration {
        let times = self.tasks(|name, page| {
            let nanos = page("schedstat")?.split_whitespace().next()?.parse().ok()?;
            let is_one = name.starts_with(names);
            is_one.then_some(Duration::from_nanos(nanos))
        });
        times.into_iter().sum()
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
        self.tasks(|name, page| {
            let stat = page("stat")?;
            let nice = stat.rsplit_once(')')?.1.split_whitespace().nth(16)?;
            let is_one = name.starts_with(names);
            is_one.then(|| nice.parse().expect("a number"))
        })
    }

    /// What each open descriptor is of.
    pub fn links(&self) -> Vec<PathBuf> {
        let fds = fs::read_dir(self.page("fd")).expect("the descriptors");
        let links = fds.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok());
        links.collect()
    }

    fn page(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.0))
    }
}

fn line<'a>(page: &'a str, label: &str) -> &'a str {
    let found = page.lines().find_map(|line| line.strip_prefix(label));
    found.unwrap_or_else(|| panic!("no `{label}`")).trim()
}
