//! Runs the sessions of a page: its fenced `sh` blocks, against the real binary, in one bash.
//!
//! A block whose command is `data-server` and whose output is the line `listening on ...` is the server's own terminal:
//! its options start a server, on a free port and an empty directory. Another such block ends that server and starts
//! the next at the same address; values stay, unless it names another `--dir`. A server that listens elsewhere runs in
//! the background of the shell, until the page ends.
//!
//! All other blocks of a page run in one bash, in order, and are split into steps, each of which ends with its `#>`
//! lines. A step must print exactly these lines, on both streams, and nothing where it has none; `...` stands for any
//! text within a line.

mod blocks;
mod shell;

use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use self::blocks::{Block, Step, blocks};
use self::shell::Shell;
use crate::{DEADLINE, DataDir, Launch, TestServer, is_on_path};

/// The server's address, that of `--admin`, and the directory of values, as the pages write them.
pub const ADDRESS: &str = "127.0.0.1:8080";
const ADMIN: &str = "127.0.0.1:9090";
const DIR: &str = "/tmp/data-rs";

/// The ports of what the steps of a page start: a proxy in front, more servers and their own pages, a store; and the
/// network of each.
const OTHERS: [u16; 6] = [8081, 8082, 8083, 8443, 9090, 7070];

/// Runs every session of the page. Returns how many `#>` lines matched, or where the first one did not.
pub fn run(page: &str) -> Result<usize, String> {
    Session::new(&Setting::default()).run(page)
}

/// The commands that sessions need and that this machine lacks.
pub fn missing_tools() -> Vec<&'static str> {
    let tools = ["bash", "curl", "openssl", "rsync"];
    tools.into_iter().filter(|tool| !is_on_path(tool)).collect()
}

/// The shell of a session, where it differs from the default.
pub struct Setting {
    /// `bash -euo pipefail`: a command that fails ends the session.
    pub is_strict: bool,
    /// The variables that the shell gets in place of those of the test.
    pub env: Option<Vec<(String, OsString)>>,
    /// How long a step may take.
    pub patience: Duration,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            is_strict: false,
            env: None,
            patience: DEADLINE,
        }
    }
}

/// Where a page's sessions run: a directory, a shell, and the server that the last block of a server started.
pub struct Session {
    shell: Shell,
    server: Option<TestServer>,
    /// Bound for the whole page, so that a restarted server has the same address.
    socket: TcpListener,
    admin: Option<String>,
    place: TempDir,
}

impl Session {
    pub fn new(setting: &Setting) -> Self {
        let place = TempDir::new().expect("a directory");
        for name in ["work", "steps"] {
            fs::create_dir(place.path().join(name)).expect("a directory");
        }
        Self {
            shell: Shell::start(&place.path().join("work"), setting),
            server: None,
            socket: TcpListener::bind("127.0.0.1:0").expect("a socket"),
            admin: None,
            place,
        }
    }

    /// The home of the shell, where its steps run.
    pub fn home(&self) -> PathBuf {
        self.place.path().join("work")
    }

    /// The server of the last block of a server.
    #[track_caller]
    pub fn server(&self) -> &TestServer {
        self.server.as_ref().expect("the page starts a server")
    }

    /// Runs every session of the page. Returns how many `#>` lines matched, or where the first one did not.
    pub fn run(&mut self, page: &str) -> Result<usize, String> {
        let mut held = 0;
        for block in blocks(page)? {
            match block {
                Block::Server { line, options } => self
                    .serve(&options)
                    .map_err(|why| format!("line {line}: {why}"))?,
                Block::Another(step) => held += self.serve_another(&step)?,
                Block::Steps(steps) => {
                    for step in &steps {
                        held += self.play(step)?;
                    }
                }
            }
        }
        Ok(held)
    }

    /// Ends the server that runs, and starts one with these options. Values stay between the two.
    fn serve(&mut self, options: &[String]) -> Result<(), String> {
        if let Some(mut server) = self.server.take() {
            server.stop();
        }
        let mut dir = self.place.path().join("data-rs");
        let mut given = Vec::new();
        let mut options = options.iter().map(String::as_str);
        while let Some(option) = options.next() {
            let mut value = || {
                let value = options.next();
                value.ok_or_else(|| format!("{option} without a value"))
            };
            match option {
                "--listen" => return Err("the test says where to listen".to_owned()),
                "--dir" => dir = self.place.path().join("work").join(value()?),
                "--admin" if value()? == ADMIN => given.extend([option, "127.0.0.1:0"]),
                "--admin" => return Err(format!("give --admin {ADMIN}")),
                option => given.push(option),
            }
        }
        // All other tests allow any Host; a session runs with the defaults.
        let launch = Launch::new(&given).env("DATA_SERVER_ALLOWED_HOST", "");
        let launch = launch.on(&DataDir::at(dir)).passing(&self.socket);
        let server = launch.start_or_end();
        let server = server.map_err(|ended| format!("it does not serve: {}", ended.stderr))?;
        let has_admin = given.contains(&"--admin");
        self.admin = has_admin.then(|| server.admin().to_string());
        self.server = Some(server);
        Ok(())
    }

    /// Starts a server in the background of the shell, and waits for the lines that it prints; or says why it has
    /// ended.
    fn serve_another(&mut self, step: &Step) -> Result<usize, String> {
        let printed = self
            .place
            .path()
            .join(format!("steps/{}.printed", step.line));
        let (script, out) = (step.script.trim_end(), printed.display());
        let started = Step {
            line: step.line,
            script: format!("{{ {script} || :\necho ended; }} > {out} 2>&1 &\n"),
            expected: Vec::new(),
        };
        self.play(&started)?;
        let expected: Vec<String> = step.expected.iter().map(|line| self.here(line)).collect();
        let deadline = Instant::now() + DEADLINE;
        loop {
            let text = fs::read_to_string(&printed).unwrap_or_default();
            let mut told: Vec<_> = text.lines().collect();
            told.retain(|line| line.starts_with("listening on "));
            if told == expected {
                return Ok(expected.len());
            }
            if text.ends_with("ended\n") || Instant::now() > deadline {
                return Err(format!("line {}: {}prints\n{text}", step.line, step.script));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Runs a step, and counts the lines that it had to print.
    fn play(&mut self, step: &Step) -> Result<usize, String> {
        let script = self.place.path().join("steps").join(step.line.to_string());
        fs::write(&script, self.here(&step.script)).expect("a script");
        let printed = self.shell.run(&script);
        let Step { line, script, .. } = step;
        let printed = printed.map_err(|why| format!("line {line}: {why}\n{script}"))?;
        let expected: Vec<String> = step.expected.iter().map(|line| self.here(line)).collect();
        let lines: Vec<&str> = printed.lines().map(str::trim_end).collect();
        let mut both = lines.iter().zip(&expected);
        let fits = both.all(|(line, pattern)| fits(line, pattern));
        if fits && lines.len() == expected.len() {
            return Ok(expected.len());
        }
        let (expected, printed) = (expected.join("\n"), lines.join("\n"));
        let told = format!("{script}should print\n{expected}\nand print\n{printed}");
        Err(format!("line {line}: these commands\n{told}"))
    }

    /// The text with the addresses and the directory of this run.
    fn here(&self, text: &str) -> String {
        let address = self.socket.local_addr().expect("an address");
        let text = text.replace(ADMIN, self.admin.as_deref().unwrap_or(ADMIN));
        // Loopback addresses that no other session has: they are made of the port of this one.
        let [high, low] = address.port().to_be_bytes();
        let text = OTHERS.iter().zip(80..).fold(text, |text, (port, network)| {
            let here = format!("127.{network}.{high}.{low}:{port}");
            ["127.0.0.1", "0.0.0.0"].iter().fold(text, |text, there| {
                text.replace(&format!("{there}:{port}"), &here)
            })
        });
        let address = address.to_string();
        let dir = self.place.path().join("data-rs");
        let text = text.replace(ADDRESS, &address);
        text.replace(DIR, dir.to_str().expect("text"))
    }
}

/// Whether the line is the pattern, in which `...` stands for any text.
pub fn fits(line: &str, pattern: &str) -> bool {
    let mut parts = pattern.trim_end().split("...");
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}
