//! The one bash of a session.

use std::env;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::Setting;
use crate::s3::VersityGw;
use crate::server::binary;

/// Ends the output of a step.
const END: u8 = 0x1e;

/// A bash that runs scripts, one after the other, and keeps its variables and functions between them.
pub(super) struct Shell {
    patience: Duration,
    child: Child,
    input: ChildStdin,
    output: Receiver<Vec<u8>>,
}

impl Shell {
    pub(super) fn start(place: &Path, setting: &Setting) -> Self {
        const LOOP: &str =
            r#"while IFS= read -r step; do . "$step" </dev/null 2>&1; printf '\036'; done"#;
        let binary = binary();
        let beside = binary.parent().expect("a directory").to_owned();
        let given = setting.env.iter().flatten();
        let given = given.clone().find(|(name, _)| name == "PATH");
        let given = given.map(|(_, path)| path.clone());
        let found = given.or_else(|| env::var_os("PATH")).unwrap_or_default();
        let store = VersityGw::program().and_then(|program| Some(program.parent()?.to_owned()));
        let own = [beside].into_iter().chain(store);
        let path = env::join_paths(own.chain(env::split_paths(&found)));
        let mut bash = Command::new("bash");
        bash.args(["--norc", "--noprofile"]);
        if setting.is_strict {
            bash.args(["-e", "-u", "-o", "pipefail"]);
        }
        if let Some(env) = &setting.env {
            bash.env_clear();
            bash.envs(env.iter().map(|(name, value)| (name, value)));
        }
        // How the tests are run is no option of a server.
        let mut options: Vec<_> = env::vars_os().map(|(name, _)| name).collect();
        options.retain(|name| name.to_string_lossy().starts_with("DATA_SERVER_"));
        for name in options {
            bash.env_remove(name);
        }
        let child = bash.args(["-c", LOOP]).current_dir(place);
        let child = child.env("PATH", path.expect("directories"));
        let child = child.env("HOME", place).env("LC_ALL", "C.UTF-8");
        let child = child.env("no_proxy", "*").process_group(0);
        let child = child.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.stderr(Stdio::inherit()).spawn().expect("bash runs");
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
            patience: setting.patience,
            child,
            input,
            output,
        }
    }

    /// What the script prints, on both streams.
    pub(super) fn run(&mut self, script: &Path) -> Result<String, String> {
        let ended = || "the shell has ended".to_owned();
        writeln!(self.input, "{}", script.display()).map_err(|_| ended())?;
        let deadline = Instant::now() + self.patience;
        let mut printed = Vec::new();
        while printed.last() != Some(&END) {
            let left = deadline.saturating_duration_since(Instant::now());
            let more = self.output.recv_timeout(left);
            printed.extend(more.map_err(|why| {
                let so_far = String::from_utf8_lossy(&printed);
                let why = match why {
                    RecvTimeoutError::Timeout => format!("not done within {:?}", self.patience),
                    RecvTimeoutError::Disconnected => ended(),
                };
                format!("{why}; printed so far:\n{so_far}")
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
