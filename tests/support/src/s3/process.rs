//! A process that serves S3. It ends with the test, also when that is killed: a shell beside it waits for the end of
//! its input.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::certificates::status_by_tls;
use crate::{DEADLINE, Raw, within};

/// What runs a program, says its process id, and ends it when standard input ends.
const KEEPER: &str = r#""$@" >/dev/null & echo $!; read -r _; kill -9 $!; wait"#;

/// How often another port is tried: between the choice of a port and its use another process may take it.
const TRIES: usize = 5;

/// How a process is started.
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(&'static str, String)>,
    /// What it is asked until it answers with one of these statuses.
    pub(super) health: String,
    pub(super) healthy: &'static [u16],
    /// The certificate that proves it, where it speaks TLS.
    pub(super) authority: Option<PathBuf>,
}

/// A process that serves.
pub(super) struct Process {
    pub(super) addr: SocketAddr,
    pub(super) pid: u32,
    keeper: Child,
    input: Option<ChildStdin>,
}

impl Process {
    /// Starts what `program` says for an address, at a free one.
    #[track_caller]
    pub(super) fn start(program: impl Fn(SocketAddr) -> Program) -> Self {
        let mut tries = (0..TRIES).filter_map(|_| {
            let addr = free_addr();
            Self::at(addr, &program(addr))
        });
        tries.next().expect("a store that serves")
    }

    /// Starts it at this address, unless that is taken.
    pub(super) fn at(addr: SocketAddr, program: &Program) -> Option<Self> {
        let mut shell = Command::new("sh");
        shell.args(["-c", KEEPER, "sh"]);
        shell.arg(&program.path).args(&program.args);
        shell.envs(program.env.iter().map(|(name, value)| (name, value)));
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut keeper = shell.stderr(Stdio::null()).spawn().expect("a shell");
        let input = keeper.stdin.take();
        let mut output = BufReader::new(keeper.stdout.take().expect("its output"));
        let mut line = String::new();
        output.read_line(&mut line).expect("its process id");
        let mut process = Self {
            addr,
            pid: line.trim().parse().expect("a process id"),
            keeper,
            input,
        };
        let answers = within(DEADLINE, || {
            process.is_healthy(program) || process.is_over()
        });
        if answers && !process.is_over() {
            return Some(process);
        }
        process.end();
        None
    }

    fn is_healthy(&self, program: &Program) -> bool {
        let health = &program.health;
        if let Some(authority) = &program.authority {
            let status = status_by_tls(&format!("https://{}{health}", self.addr), authority);
            return status.is_some_and(|status| program.healthy.contains(&status));
        }
        let head = format!("GET {health} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
        let Ok(mut raw) = Raw::try_connect(self.addr) else {
            return false;
        };
        let answer = raw.offer(&head).ok().and_then(|()| raw.try_head());
        answer.is_some_and(|answer| program.healthy.contains(&answer.status))
    }

    /// Whether it has ended.
    fn is_over(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid));
        stat.map_or(true, |stat| stat.contains(") Z "))
    }

    /// Ends it at once.
    pub(super) fn end(&mut self) {
        drop(self.input.take());
        let _ = self.keeper.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// An address that nobody listens at.
#[track_caller]
fn free_addr() -> SocketAddr {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    free.local_addr().expect("its address")
}
