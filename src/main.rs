//! The life of the process: arguments, server, signals, exit code.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use data_server::{Args, Config, Server, StartError, log};
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// "File size limit exceeded" (signal(7)).
const SIGXFSZ: i32 = rustix::process::Signal::XFSZ.as_raw();

/// Exit codes, as the README lists them; 0 is drained.
const USAGE: u8 = 2;
const IN_USE: u8 = 3;
const CANNOT_LISTEN: u8 = 4;
const OTHER: u8 = 1;

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(text) = args.printed() {
        // Whoever reads only the beginning has what they wanted.
        let _ = std::io::stdout().write_all(&text);
        return ExitCode::SUCCESS;
    }
    let config = match Config::try_from(args) {
        Ok(config) => config,
        Err(error) => return fail(&error, USAGE),
    };
    log::install(config.log);
    // The runtime panics where the system has nothing left for it to start with.
    match std::panic::catch_unwind(|| serve(config)) {
        Err(_) => fail(&"a panic ended the server: its log says where", OTHER),
        Ok(Ok(code)) => code,
        Ok(Err(error)) => {
            let code = match &error {
                error if error.is_in_use() => IN_USE,
                StartError::Listen { .. } => CANNOT_LISTEN,
                StartError::Directory(_) | StartError::System(_) => OTHER,
            };
            fail(&error, code)
        }
    }
}

fn fail(error: &dyn std::fmt::Display, code: u8) -> ExitCode {
    eprintln!("data-server: {error}");
    ExitCode::from(code)
}

fn serve(config: Config) -> Result<ExitCode, StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut signals = Signals::install()?;
        let server = Server::bind(config)?;
        let address = server.local_addr();
        let running = server.start()?;
        // Whoever closed standard output does not want to know.
        let _ = writeln!(std::io::stdout(), "listening on http://{address}");
        notify(NotifyState::Ready);
        let (ask, asked) = tokio::sync::oneshot::channel();
        let drained = running.run(async {
            let _ = asked.await;
        });
        tokio::select! {
            () = drained => Ok(ExitCode::SUCCESS),
            () = signals.two(ask) => {
                tracing::warn!("second signal: ending at once");
                Ok(ExitCode::from(OTHER))
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

/// SIGTERM and SIGINT.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn install() -> std::io::Result<Self> {
        // A write beyond RLIMIT_FSIZE fails, and the client hears of it, instead of ending the process: the handler that
        // this installs stays for good.
        let _ = signal(SignalKind::from_raw(SIGXFSZ))?;
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Passes the first signal on to `first`; resolves with the second.
    async fn two(&mut self, first: tokio::sync::oneshot::Sender<()>) {
        self.next().await;
        notify(NotifyState::Stopping);
        let _ = first.send(());
        self.next().await;
    }
}
