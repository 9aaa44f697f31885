//! Runs the sessions of a page: its fenced `sh` blocks, against the real binary, in one bash.
//!
//! A block whose command is `data-server` and whose output is the line `listening on ...` is the server's own terminal: its
//! options start a server. All other blocks are split into steps, each of which ends with its `#>` lines. A step must print
//! exactly these lines; `...` stands for any text within a line.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::support::{DEADLINE, DataDir, Launch, TestServer};

/// The server's address, the address of `--admin`, and the directory of values, as the pages write them.
const ADDRESS: &str = "127.0.0.1:8080";
const ADMIN: &str = "127.0.0.1:9090";
const DIR: &str = "/tmp/data-rs";

/// Ends the output of a step.
const END: u8 = 0x1e;

#[derive(Debug)]
enum Block {
    Server { line: usize, options: Vec<String> },
    Steps(Vec<Step>),
}

#[derive(Debug, Default)]
struct Step {
    line: usize,
    script: String,
    expected: Vec<String>,
}

/// Runs every session of the page. Returns how many `#>` lines matched, or where the first one did not.
pub(super) fn run(page: &str) -> Result<usize, String> {
    let mut stage = Stage::new();
    let mut held = 0;
    for block in blocks(page)? {
        match block {
            Block::Server { line, options } => stage
                .serve(&options)
                .map_err(|why| format!("line {line}: {why}"))?,
            Block::Steps(steps) => {
                for step in &steps {
                    held += stage.play(step)?;
                }
            }
        }
    }
    Ok(held)
}

/// The commands that sessions need and that this machine lacks.
pub(super) fn missing_tools() -> Vec<&'static str> {
    let runs = |tool: &str| {
        let mut command = Command::new(tool);
        command.arg("--version").stdout(Stdio::null());
        command.stderr(Stdio::null()).status().is_ok()
    };
    let tools = ["bash", "curl", "openssl", "rsync"];
    tools.into_iter().filter(|tool| !runs(tool)).collect()
}

/// Splits the page into its `sh` blocks. Output in any other block would not be checked, so it is an error.
fn blocks(page: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((at, fence)) = lines.next() {
        let Some(language) = fence.trim_start().strip_prefix("```") else {
            continue;
        };
        let indent = fence.len() - fence.trim_start().len();
        let mut body = Vec::new();
        for (at, line) in lines.by_ref() {
            if line.trim() == "```" {
                break;
            }
            body.push((at + 1, line.get(indent..).unwrap_or_default()));
        }
        if language == "sh" {
            blocks.push(block(at + 1, &body)?);
        } else if let Some((line, _)) = body.iter().find(|(_, line)| line.starts_with("#>")) {
            return Err(format!("line {line}: output in a block that is not run"));
        }
    }
    Ok(blocks)
}

fn block(line: usize, body: &[(usize, &str)]) -> Result<Block, String> {
    let listening = format!("#> listening on http://{ADDRESS}");
    if let Some((at, (_, last))) = body.iter().enumerate().next_back()
        && *last == listening
    {
        let [command] = body[..at] else {
            return Err(format!("line {line}: a server is started by one line"));
        };
        let mut words = command.1.split_whitespace().map(str::to_owned);
        if words.next().as_deref() != Some("data-server") {
            return Err(format!("line {line}: not `data-server`: {}", command.1));
        }
        let options = words.collect();
        return Ok(Block::Server { line, options });
    }
    let mut steps: Vec<Step> = Vec::new();
    for &(at, text) in body {
        let begins = steps.last().is_none_or(|step| !step.expected.is_empty());
        if let Some(shown) = text.strip_prefix("#>") {
            let step = steps.last_mut();
            let step = step.ok_or_else(|| format!("line {at}: output before any command"))?;
            step.expected
                .push(shown.strip_prefix(' ').unwrap_or(shown).to_owned());
            continue;
        }
        if begins {
            steps.push(Step {
                line: at,
                ..Step::default()
            });
        }
        let step = steps.last_mut().expect("a step");
        step.script += text;
        step.script.push('\n');
    }
    Ok(Block::Steps(steps))
}

/// Where a page's sessions run: a directory, a shell, and the server that the last block of a server started.
struct Stage {
    shell: Shell,
    server: Option<TestServer>,
    /// Bound for the whole page, so that a restarted server has the same address.
    socket: TcpListener,
    admin: Option<String>,
    place: TempDir,
}

impl Stage {
    fn new() -> Self {
        let place = TempDir::new().expect("a directory");
        for name in ["work", "steps"] {
            fs::create_dir(place.path().join(name)).expect("a directory");
        }
        Self {
            shell: Shell::start(&place.path().join("work")),
            server: None,
            socket: TcpListener::bind("127.0.0.1:0").expect("a socket"),
            admin: None,
            place,
        }
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
        let server = launch
            .on(&DataDir::at(dir))
            .passing(&self.socket)
            .start_or_end()
            .map_err(|ended| format!("the server does not serve: {}", ended.stderr))?;
        let has_admin = given.contains(&"--admin");
        self.admin = has_admin.then(|| server.admin().to_string());
        self.server = Some(server);
        Ok(())
    }

    /// Runs a step, and counts the lines that it had to print.
    fn play(&mut self, step: &Step) -> Result<usize, String> {
        let script = self.place.path().join("steps").join(step.line.to_string());
        fs::write(&script, self.here(&step.script)).expect("a script");
        let printed = self.shell.run(&script);
        let printed =
            printed.map_err(|why| format!("line {}: {why}\n{}", step.line, step.script))?;
        let expected: Vec<String> = step.expected.iter().map(|line| self.here(line)).collect();
        let lines: Vec<&str> = printed.lines().map(str::trim_end).collect();
        let fits = lines.len() == expected.len()
            && lines
                .iter()
                .zip(&expected)
                .all(|(line, pattern)| fits(line, pattern));
        if fits {
            return Ok(expected.len());
        }
        Err(format!(
            "line {}: these commands\n{}should print\n{}\nand print\n{}",
            step.line,
            step.script,
            expected.join("\n"),
            lines.join("\n")
        ))
    }

    /// The text with the addresses and the directory of this run.
    fn here(&self, text: &str) -> String {
        let address = self.socket.local_addr().expect("an address").to_string();
        let dir = self.place.path().join("data-rs");
        let text = text.replace(ADDRESS, &address);
        let text = text.replace(DIR, dir.to_str().expect("text"));
        text.replace(ADMIN, self.admin.as_deref().unwrap_or(ADMIN))
    }
}

/// Whether the line is the pattern, in which `...` stands for any text.
fn fits(line: &str, pattern: &str) -> bool {
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

/// A bash that runs scripts, one after the other, and keeps its variables and functions between them.
struct Shell {
    child: Child,
    input: ChildStdin,
    output: Receiver<Vec<u8>>,
}

impl Shell {
    fn start(place: &Path) -> Self {
        const LOOP: &str =
            r#"while IFS= read -r step; do . "$step" </dev/null 2>&1; printf '\036'; done"#;
        let binary = Path::new(env!("CARGO_BIN_EXE_data-server"));
        let found = std::env::var("PATH").unwrap_or_default();
        let beside = binary.parent().expect("a directory").display();
        let mut child = Command::new("bash")
            .args(["--norc", "--noprofile", "-c", LOOP])
            .current_dir(place)
            .env("PATH", format!("{beside}:{found}"))
            .env("HOME", place)
            .env("LC_ALL", "C.UTF-8")
            .env("no_proxy", "*")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("bash runs");
        let input = child.stdin.take().expect("its input");
        let mut out = child.stdout.take().expect("its output");
        let (sender, output) = channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(len @ 1..) = out.read(&mut buffer) {
                if sender.send(buffer[..len].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            child,
            input,
            output,
        }
    }

    /// What the script prints, on both streams.
    fn run(&mut self, script: &Path) -> Result<String, String> {
        let ended = || "the shell has ended".to_owned();
        writeln!(self.input, "{}", script.display()).map_err(|_| ended())?;
        let deadline = Instant::now() + DEADLINE;
        let mut printed = Vec::new();
        while printed.last() != Some(&END) {
            let left = deadline.saturating_duration_since(Instant::now());
            let more = self.output.recv_timeout(left);
            printed.extend(more.map_err(|_| {
                let so_far = String::from_utf8_lossy(&printed);
                format!("not done within {DEADLINE:?}; printed so far:\n{so_far}")
            })?);
        }
        printed.pop();
        Ok(String::from_utf8_lossy(&printed).into_owned())
    }
}

impl Drop for Shell {
    /// Ends what the sessions left in the background too.
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

#[test]
fn a_pattern_fits_whole_lines() {
    for (line, pattern) in [
        ("200", "200"),
        ("", ""),
        ("etag: \"18ea\"", "etag: \"...\""),
        ("a-b-c", "a...b...c"),
        ("anything", "..."),
    ] {
        assert!(fits(line, pattern), "{line} {pattern}");
    }
    for (line, pattern) in [
        ("200", "20"),
        ("200", "2000"),
        ("", "200"),
        ("etag: \"18ea\" ", "etag: \"...\""),
        ("a-c", "a...b...c"),
        ("aa", "aa...a"),
    ] {
        assert!(!fits(line, pattern), "{line} {pattern}");
    }
}

#[test]
fn a_wrong_session_is_found() {
    if !missing_tools().is_empty() {
        eprintln!("left out: wrong sessions, for a command that sessions need does not run here");
        return;
    }
    let page = |session: &str| {
        format!(
            "```sh\ndata-server\n#> listening on http://{ADDRESS}\n```\n\n```sh\nS=http://{ADDRESS}\n{session}```\n"
        )
    };
    let right = "echo v | curl -sS -T - $S/k\ncurl -sS $S/k\n#> v\necho a; echo b\n#> a\n#> ...\n";
    assert_eq!(run(&page(right)), Ok(3));
    for (wrong, at) in [
        ("curl -sS $S/k\n#> v\n", "no such key"),
        ("echo a; echo b\n#> a\n", "and print\na\nb"),
        ("echo a\n#> a\n#> b\n", "should print\na\nb"),
        ("echo a\n", "should print\n\nand print\na"),
        ("cat missing\n", "No such file"),
        ("exit\n", "printed so far"),
    ] {
        let found = run(&page(wrong)).expect_err(wrong);
        assert!(found.contains(at), "{wrong}: {found}");
    }
    let unchecked =
        run("```console\n$ echo a\n#> a\n```\n").expect_err("output that is not checked");
    assert!(unchecked.contains("not run"), "{unchecked}");
}
