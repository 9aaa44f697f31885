//! strace around the server: the system calls of each thread, in order, and injected results.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use rustix::process::{Pid, Signal, kill_process};

use super::{Launch, TestServer, comes_true, eventually};

/// The log of a server's system calls; gone when dropped.
pub struct Trace {
    dir: TempDir,
    words: Vec<String>,
}

/// One system call. Two calls of different threads overlap unless one has ended before the other began.
#[derive(Debug, Clone)]
pub struct Call {
    pub thread: u32,
    pub name: String,
    /// As strace writes them: each descriptor with its path.
    pub args: String,
    pub result: String,
    pub began: usize,
    pub ended: usize,
}

impl Trace {
    /// strace with these options. If it cannot trace here, prints what the test leaves out.
    pub fn with(options: &[&str], left_out: &str) -> Option<Self> {
        if !can_trace() {
            crate::left_out(left_out, "strace does not run here");
            return None;
        }
        let dir = TempDir::new().expect("a directory");
        let log = dir.path().join("calls").to_str().expect("text").to_owned();
        let words = ["strace", "-D", "-f", "-y", "-o", &log];
        let words = words.iter().chain(options).map(|&word| word.to_owned());
        let words = words.collect();
        Some(Self { dir, words })
    }

    /// The server of `launch`, traced from its start.
    pub fn around(&self, launch: Launch) -> Launch {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        launch.through(&words)
    }

    /// Every call, ordered by its end; to be called once the server has ended.
    #[track_caller]
    pub fn calls(&self) -> Vec<Call> {
        let read = || fs::read_to_string(self.dir.path().join("calls")).expect("the log");
        eventually("the log of calls is whole", || {
            let log = read();
            let last = log.lines().next_back().unwrap_or_default();
            last.contains("+++ exited") || last.contains("+++ killed")
        });
        parse_log(&read())
    }
}

/// Whether strace is installed and may trace.
pub fn can_trace() -> bool {
    let mut command = Command::new("strace");
    let possible = command.args(["-D", "-o", "/dev/null", "true"]).status();
    possible.is_ok_and(|status| status.success())
}

/// strace attached to a running server. For `when=` it counts the calls of each thread separately, from the attachment
/// on.
pub struct Attached {
    child: Child,
    dir: TempDir,
}

impl Attached {
    /// Traces these calls, and has this happen to them.
    #[track_caller]
    pub fn injecting(server: &TestServer, calls: &str, what: &str) -> Self {
        let (trace, inject) = (format!("trace={calls}"), format!("inject={calls}:{what}"));
        Self::to(server, &["-e", &trace, "-e", &inject])
    }

    /// Traces every thread of `server`, also later ones, from when this returns.
    #[track_caller]
    pub fn to(server: &TestServer, options: &[&str]) -> Self {
        Self::attach(&["-f"], server.proc().0, options)
    }

    /// Traces the thread of `server` with this name alone, which costs the others nothing. For [`Self::lines`].
    #[track_caller]
    pub fn to_thread(server: &TestServer, name: &str, options: &[&str]) -> Self {
        let mut threads = Vec::new();
        eventually("the thread has given itself its name", || {
            threads = server.proc().thread_ids(name);
            !threads.is_empty()
        });
        Self::attach(&[], threads[0], options)
    }

    #[track_caller]
    fn attach(how: &[&str], id: impl fmt::Display, options: &[&str]) -> Self {
        let dir = TempDir::new().expect("a directory");
        let mut command = Command::new("strace");
        command.args(how).args(["-y", "-o"]);
        command.arg(dir.path().join("calls"));
        command.args(options).arg("-p").arg(id.to_string());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("strace");
        let said = BufReader::new(child.stderr.take().expect("its standard error"));
        let mut said = said.lines().map_while(Result::ok);
        let attached = said.find(|line| line.contains("attached"));
        assert!(attached.is_some(), "strace {options:?} attaches");
        // The output is read to the end: otherwise strace would block when it reports new threads.
        std::thread::spawn(move || said.for_each(drop));
        Self { child, dir }
    }

    /// The calls as strace writes them, once the server has ended.
    pub fn lines(mut self) -> Vec<String> {
        self.child.wait().expect("strace ends");
        self.log().lines().map(str::to_owned).collect()
    }

    /// How often this text is in what it has written so far: of a call that has begun, its name and arguments.
    pub fn seen(&self, text: &str) -> usize {
        self.log().matches(text).count()
    }

    /// Whether it has injected a result so far.
    pub fn has_injected(&self) -> bool {
        self.log().contains("(INJECTED)")
    }

    /// Ends strace at once, where the server was killed: it may wait forever for a thread that it delayed.
    pub fn abandon(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Detaches. Returns every call that the server made meanwhile, ordered by its end.
    #[track_caller]
    pub fn detach(mut self) -> Vec<Call> {
        let pid = Pid::from_child(&self.child);
        // strace has ended if the server has.
        let _ = kill_process(pid, Signal::INT);
        self.child.wait().expect("strace ends");
        parse_log(&self.log())
    }

    fn log(&self) -> String {
        let log = fs::read(self.dir.path().join("calls")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.child);
        if matches!(self.child.try_wait(), Ok(None)) {
            // Not SIGKILL, which would leave the server stopped.
            let _ = kill_process(pid, Signal::INT);
            // After the death of a thread that it delays it may wait for that forever.
            let child = &mut self.child;
            if !comes_true(|| !matches!(child.try_wait(), Ok(None))) {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

impl Call {
    /// Whether strace injected its result.
    pub fn is_injected(&self) -> bool {
        self.result.ends_with("(INJECTED)")
    }
}

/// Every call in a log of strace, ordered by its end.
fn parse_log(log: &str) -> Vec<Call> {
    let mut open: HashMap<u32, Call> = HashMap::new();
    let lines = log.lines().enumerate();
    let all = lines.filter_map(|(at, line)| parse(at, line, &mut open));
    all.collect()
}

/// The call that ends on this line; a call that only begins waits in `open`.
fn parse(at: usize, line: &str, open: &mut HashMap<u32, Call>) -> Option<Call> {
    let (thread, text) = line.split_once(' ')?;
    let (thread, text) = (thread.parse().ok()?, text.trim_start());
    let (mut call, rest) = if let Some(resumed) = text.strip_prefix("<... ") {
        (open.remove(&thread)?, resumed.split_once(" resumed>")?.1)
    } else {
        let (name, rest) = text.split_once('(')?;
        let call = Call {
            thread,
            name: name.to_owned(),
            args: String::new(),
            result: String::new(),
            began: at,
            ended: at,
        };
        (call, rest)
    };
    if let Some(begun) = rest.strip_suffix(" <unfinished ...>") {
        call.args.push_str(begun);
        open.insert(thread, call);
        return None;
    }
    let (args, result) = rest.rsplit_once(" = ")?;
    call.args.push_str(args.trim_end().trim_end_matches(')'));
    result.clone_into(&mut call.result);
    call.ended = at;
    Some(call)
}
