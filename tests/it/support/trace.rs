//! strace around the server: what each of its threads asked of the kernel, in order, and answers in the kernel's place.

use std::collections::HashMap;
use std::fs;
use std::process::Command;

use tempfile::TempDir;

use super::{Launch, eventually};

/// The log of a server's system calls; gone when dropped.
pub(crate) struct Trace {
    dir: TempDir,
    words: Vec<String>,
}

/// One system call. Two calls of different threads overlap unless one has ended before the other began.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) thread: u32,
    pub(crate) name: String,
    /// As strace writes them: each descriptor with its path.
    pub(crate) args: String,
    pub(crate) result: String,
    pub(crate) began: usize,
    pub(crate) ended: usize,
}

impl Trace {
    /// Under these options of strace; where nothing can be traced, says what the test leaves out.
    pub(crate) fn with(options: &[&str], left_out: &str) -> Option<Self> {
        let possible = Command::new("strace")
            .args(["-D", "-o", "/dev/null", "true"])
            .status();
        if !possible.is_ok_and(|status| status.success()) {
            eprintln!("left out: {left_out}, for strace does not run here");
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
    pub(crate) fn around(&self, launch: Launch) -> Launch {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        launch.through(&words)
    }

    /// Every call, by the time it ended; once the server has ended.
    #[track_caller]
    pub(crate) fn calls(&self) -> Vec<Call> {
        let read = || fs::read_to_string(self.dir.path().join("calls")).expect("the log");
        eventually("the log of calls is whole", || {
            let log = read();
            let last = log.lines().next_back().unwrap_or_default();
            last.contains("+++ exited") || last.contains("+++ killed")
        });
        let mut open: HashMap<u32, Call> = HashMap::new();
        let read = read();
        let lines = read.lines().enumerate();
        lines
            .filter_map(|(at, line)| parse(at, line, &mut open))
            .collect()
    }
}

/// The call that ends on this line; one that only begins waits in `open` for its end.
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
