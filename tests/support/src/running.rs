//! A program beside a test, which ends with its owner.

use crate::prelude::*;

/// A process that is killed when this is dropped.
pub struct Running(Option<std::process::Child>);

impl Running {
    /// Starts it, without input, and with an output that nothing reads.
    pub fn spawn(command: &mut Command) -> Result<Self, String> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let program = command.get_program().to_string_lossy().into_owned();
        let child = child.map_err(|error| not_started(&program, &error))?;
        Ok(Self(Some(child)))
    }

    /// Waits until `is_ready`, or the process has given up.
    pub fn when(&mut self, what: &str, is_ready: impl Fn() -> bool) -> Result<(), String> {
        let child = self.0.as_mut().expect("it was started");
        let mut ended = None;
        eventually(what, || {
            ended = child.try_wait().expect("its state");
            is_ready() || ended.is_some()
        });
        ended.map_or(Ok(()), |status| Err(format!("{what}: {status}")))
    }

    /// Ends it at once.
    pub fn end(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}
