//! The life of the process: arguments, server, signals, exit code.
//!
//! A command runs and ends; a server runs until SIGTERM, SIGINT or SIGQUIT, and a second such signal ends it at once. SIGHUP
//! rereads its files. Only this file writes to standard output and decides the exit code, but for a panic of a thread that the server
//! cannot do without, which ends the process with 1.

use std::ffi::OsStr;
use std::future::poll_fn;
use std::io::{IsTerminal as _, Write};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::ExitCode;
use std::task::Poll;
use std::time::{Duration, Instant};

use data_server::client;
use data_server::commands::{self, Command, UsageError};
use data_server::config::{self, Health, Task};
use data_server::log::{self, Log};
use data_server::server::Reloader;
use data_server::{Args, Config, Server, StartError};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// A PUT takes 6% fewer instructions than with glibc's allocator, and musl's has one lock for all threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A signal this soon after the first is the same signal sent twice: timeout(1), for example, signals its child and then the
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
    let args = match Args::gather(std::env::args_os()) {
        Ok(args) => args,
        Err(config::UsageError::Help(text)) => text.exit(),
        Err(config::UsageError::Wrong(why)) => return fail_unlogged(&why, USAGE),
    };
    match args.task() {
        Task::Print(text) => {
            // A reader that takes only the beginning has what it wanted.
            let _ = std::io::stdout().write_all(&text);
            ExitCode::SUCCESS
        }
        Task::Offline(command) => run_offline(&command),
        Task::Serve => configured(args, |config| match data_server::prepare(&config) {
            Ok(confined) => logged(config, |config, log| {
                confined.report();
                run(config, log)
            }),
            Err(error) => fail_unlogged(&error, OTHER),
        }),
        Task::CheckStore => configured(args, |config| {
            logged(config, |config, log| check_store(&config, log))
        }),
        Task::CheckFile(file) => configured(args, |config| check_file(&file, &config)),
        Task::Health(asked) => configured(args, |config| ask(&asked, &config)),
    }
}

/// Does a task that needs the configuration.
fn configured(args: Args, task: impl FnOnce(Config) -> ExitCode) -> ExitCode {
    match Config::try_from(args) {
        Ok(config) => task(config),
        Err(error) => fail_unlogged(&error, USAGE),
    }
}

/// Runs a command that needs no server.
fn run_offline(command: &Command) -> ExitCode {
    match commands::run(command) {
        Ok((text, is_yes)) => {
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::from(if is_yes { DRAINED } else { OTHER })
        }
        Err(failure) if failure.is::<UsageError>() => fail_unlogged(&failure, USAGE),
        Err(failure) => fail_unlogged(&failure, OTHER),
    }
}

/// Checks what the file names, as a start would.
fn check_file(file: &Path, config: &Config) -> ExitCode {
    for warning in &config.warnings {
        let _ = writeln!(std::io::stderr(), "data-server: warning: {warning}");
    }
    match data_server::check(config) {
        Ok(found) => {
            let _ = writeln!(std::io::stdout(), "{}: ok; {found}", file.display());
            ExitCode::SUCCESS
        }
        Err(error) => fail_unlogged(&format!("{}: {error}", file.display()), OTHER),
    }
}

/// Checks the health of a server.
fn ask(asked: &Health, config: &Config) -> ExitCode {
    let Some(url) = asked.url(&config.listen) else {
        return fail_unlogged(
            &"health: the options name no port to ask: give a URL",
            USAGE,
        );
    };
    match client::check_health(&url, &asked.trust(), asked.timeout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(unwell) => fail_unlogged(&unwell, OTHER),
    }
}

/// Does a task that has a log.
fn logged(config: Config, task: impl FnOnce(Config, &Log) -> u8) -> ExitCode {
    let log = match log::install(config.log) {
        Ok(log) => log,
        Err(error) => return fail_unlogged(&StartError::from(error), OTHER),
    };
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let code = task(config, &log);
    log.finish();
    ExitCode::from(code)
}

/// Fails before there is a log. A reason that cannot be written leaves the exit code as it is.
fn fail_unlogged(error: &dyn std::fmt::Display, code: u8) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "data-server: {error}");
    ExitCode::from(code)
}

/// Tests the store, and prints what it does; returns the exit code.
fn check_store(config: &Config, log: &Log) -> u8 {
    match data_server::check_store(config) {
        Ok(report) => {
            let _ = write!(std::io::stdout(), "{report}");
            if report.is_servable() { DRAINED } else { OTHER }
        }
        Err(error) => {
            log.line(&format!("data-server: {error}"));
            OTHER
        }
    }
}

/// Serves to the end; returns the exit code.
fn run(config: Config, log: &Log) -> u8 {
    let fail = |error: &dyn std::fmt::Display, code| {
        log.line(&format!("data-server: {error}"));
        code
    };
    // The runtime panics where the system has nothing left for it to start with.
    match std::panic::catch_unwind(|| serve(config, log)) {
        Err(_) => fail(&"a panic ended the server: its log says where", OTHER),
        Ok(Ok(code)) => code,
        Ok(Err(error)) => {
            let code = match &error {
                error if error.is_in_use() => IN_USE,
                StartError::Listen { .. } => CANNOT_LISTEN,
                _ => OTHER,
            };
            fail(&error, code)
        }
    }
}

fn serve(config: Config, log: &Log) -> Result<u8, StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut signals = {
        let _context = runtime.enter();
        Signals::install()?
    };
    // Not on the runtime: a start that fails drops what it has made, and no runtime may be dropped on another.
    let server = bind(config, log)?;
    runtime.block_on(async {
        let urls: Vec<_> = server.urls().collect();
        // People get a summary, scripts only the address.
        let what = if std::io::stdout().is_terminal() {
            format!(" ({})", server.summary())
        } else {
            String::new()
        };
        let running = server.start()?;
        let reload = running.reloader();
        for url in urls {
            // A closed standard output is no failure: the line is for its reader alone.
            let _ = writeln!(std::io::stdout(), "listening on {url}{what}");
        }
        notify("READY=1");
        let (first, shutdown) = oneshot::channel();
        let drained = running.run(async {
            let _ = shutdown.await;
        });
        tokio::select! {
            () = drained => Ok(DRAINED),
            () = signals.second(&reload, first) => {
                tracing::warn!("second signal: ending at once");
                Ok(OTHER)
            }
        }
    })
}

/// Binds the server. A signal meanwhile ends the process: a start may replay a journal, or wait for a store, and the next start
/// begins anew.
fn bind(config: Config, log: &Log) -> Result<Server, StartError> {
    let (bound, is_bound) = oneshot::channel::<()>();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let log = log.clone();
    let watch = move || {
        runtime.block_on(async {
            let Ok(mut signals) = Signals::install() else {
                return;
            };
            tokio::select! {
                biased;
                _ = is_bound => {}
                () = signals.end_of_start() => {
                    tracing::info!("ended by a signal before it served");
                    log.finish();
                    std::process::exit(DRAINED.into());
                }
            }
        });
    };
    let watching = std::thread::Builder::new()
        .name("start".into())
        .spawn(watch)?;
    let server = Server::bind(config)?;
    // From here on signals are left to the server.
    drop(bound);
    // The thread has nothing to fail with.
    let _ = watching.join();
    Ok(server)
}

/// Notifies the service manager, if it listens (`sd_notify(3)`).
fn notify(state: &str) {
    let Some(place) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let told = manager(&place).and_then(|manager| manager.send(state.as_bytes()));
    if let Err(error) = told {
        tracing::warn!(%error, "the service manager could not be told");
    }
}

/// The socket of the service manager; a name that begins with `@` is abstract (`unix(7)`).
fn manager(place: &OsStr) -> std::io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    match place.as_bytes() {
        [b'@', name @ ..] => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
        _ => socket.connect(place)?,
    }
    Ok(socket)
}

/// The signals that the server handles.
struct Signals(Vec<(SignalKind, Signal)>);

impl Signals {
    fn install() -> std::io::Result<Self> {
        // A write beyond RLIMIT_FSIZE fails, and the client hears of it, instead of ending the process: the handler that
        // this installs stays for good.
        let _ = signal(SignalKind::from_raw(SIGXFSZ))?;
        let kinds = [
            SignalKind::terminate(),
            SignalKind::interrupt(),
            SignalKind::quit(),
            SignalKind::hangup(),
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
        ];
        let all = kinds.into_iter().map(|kind| Ok((kind, signal(kind)?)));
        all.collect::<std::io::Result<_>>().map(Self)
    }

    async fn next(&mut self) -> SignalKind {
        poll_fn(|cx| {
            for (kind, signal) in &mut self.0 {
                if signal.poll_recv(cx).is_ready() {
                    return Poll::Ready(*kind);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Waits for a signal that asks for the end; the others have no meaning before the server serves.
    async fn end_of_start(&mut self) {
        while !is_end(self.next().await) {}
    }

    /// Waits for a signal that asks for the end; logs the others.
    async fn end(&mut self, reload: &Reloader) {
        loop {
            let kind = tokio::select! {
                kind = self.next() => kind,
                () = reload.serve() => continue,
            };
            if is_end(kind) {
                return;
            }
            if kind == SignalKind::hangup() {
                // The log has the result.
                let _ = reload.reload();
                continue;
            }
            let first = kind == SignalKind::user_defined1();
            let signal = if first { "SIGUSR1" } else { "SIGUSR2" };
            tracing::info!(signal, "signal ignored: it has no meaning here");
        }
    }

    /// Passes the first signal on to `first`; resolves with the second.
    async fn second(&mut self, reload: &Reloader, first: oneshot::Sender<()>) {
        self.end(reload).await;
        let repeats_until = Instant::now() + REPEATS;
        notify("STOPPING=1");
        let _ = first.send(());
        loop {
            self.end(reload).await;
            if Instant::now() >= repeats_until {
                return;
            }
        }
    }
}

fn is_end(kind: SignalKind) -> bool {
    let ends = [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::quit(),
    ];
    ends.contains(&kind)
}
