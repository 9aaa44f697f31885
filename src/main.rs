//! The life of the process: arguments, server, signals, exit code.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use data_server::log::{self, Log};
use data_server::{Args, Config, Server, StartError};
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal this soon after the first is the same one told twice: timeout(1), for one, signals its child and then the
/// whole group.
const REPEATS: Duration = Duration::from_millis(500);

/// "File size limit exceeded" (signal(7)).
const SIGXFSZ: i32 = rustix::process::Signal::XFSZ.as_raw();

/// Exit codes, as docs/operations.md lists them.
const DRAINED: u8 = 0;
const USAGE: u8 = 2;
const IN_USE: u8 = 3;
const CANNOT_LISTEN: u8 = 4;
const OTHER: u8 = 1;

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(text) = args.printed() {
        // A reader that takes only the beginning has what it wanted.
        let _ = std::io::stdout().write_all(&text);
        return ExitCode::SUCCESS;
    }
    let config = match Config::try_from(args) {
        Ok(config) => config,
        Err(error) => return fail_unlogged(&error, USAGE),
    };
    let log = match log::install(config.log) {
        Ok(log) => log,
        Err(error) => return fail_unlogged(&StartError::from(error), OTHER),
    };
    let code = run(config, &log);
    log.finish();
    ExitCode::from(code)
}

/// Fails before there is a log. A reason that cannot be written leaves the exit code as it is.
fn fail_unlogged(error: &dyn std::fmt::Display, code: u8) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "data-server: {error}");
    ExitCode::from(code)
}

/// Serves to the end; the exit code.
fn run(config: Config, log: &Log) -> u8 {
    let fail = |error: &dyn std::fmt::Display, code| {
        log.line(&format!("data-server: {error}"));
        code
    };
    // The runtime panics where the system has nothing left for it to start with.
    match std::panic::catch_unwind(|| serve(config)) {
        Err(_) => fail(&"a panic ended the server: its log says where", OTHER),
        Ok(Ok(code)) => code,
        Ok(Err(error)) => {
            let code = match &error {
                error if error.is_in_use() => IN_USE,
                StartError::Listen { .. } => CANNOT_LISTEN,
                StartError::Directory(_) | StartError::Descriptors(_) | StartError::System(_) => {
                    OTHER
                }
            };
            fail(&error, code)
        }
    }
}

fn serve(config: Config) -> Result<u8, StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut signals = Signals::install()?;
        let server = Server::bind(config)?;
        let address = server.local_addr();
        let running = server.start()?;
        // A closed standard output is no failure: the line is for its reader alone.
        let _ = writeln!(std::io::stdout(), "listening on http://{address}");
        notify(NotifyState::Ready);
        let (first, shutdown) = tokio::sync::oneshot::channel();
        let drained = running.run(async {
            let _ = shutdown.await;
        });
        tokio::select! {
            () = drained => Ok(DRAINED),
            () = signals.second(first) => {
                tracing::warn!("second signal: ending at once");
                Ok(OTHER)
            }
        }
    })
}

/// Tells the service manager, where there is one that listens (`sd_notify(3)`).
fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "the service manager could not be told");
    }
}

/// The signals that the server handles.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hang_up: Signal,
    user_1: Signal,
    user_2: Signal,
}

impl Signals {
    fn install() -> std::io::Result<Self> {
        // A write beyond RLIMIT_FSIZE fails, and the client hears of it, instead of ending the process: the handler that
        // this installs stays for good.
        let _ = signal(SignalKind::from_raw(SIGXFSZ))?;
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hang_up: signal(SignalKind::hangup())?,
            user_1: signal(SignalKind::user_defined1())?,
            user_2: signal(SignalKind::user_defined2())?,
        })
    }

    /// Waits for a signal that asks for the end; logs the others.
    async fn end(&mut self) {
        loop {
            let ignored = tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.quit.recv() => return,
                _ = self.hang_up.recv() => {
                    reread();
                    continue;
                }
                _ = self.user_1.recv() => "SIGUSR1",
                _ = self.user_2.recv() => "SIGUSR2",
            };
            tracing::info!(signal = ignored, "signal ignored: it has no meaning here");
        }
    }

    /// Passes the first signal on to `first`; resolves with the second.
    async fn second(&mut self, first: tokio::sync::oneshot::Sender<()>) {
        self.end().await;
        let repeats_until = Instant::now() + REPEATS;
        notify(NotifyState::Stopping);
        let _ = first.send(());
        loop {
            self.end().await;
            if Instant::now() >= repeats_until {
                return;
            }
        }
    }
}

/// Rereads what can change while the server runs: nothing yet.
fn reread() {
    tracing::info!("SIGHUP: nothing to reread; options change with a restart");
}
