//! The life of the process: arguments, server, signals, exit code.
//!
//! A command runs and ends; a server runs until SIGTERM, SIGINT or SIGQUIT, and a second such signal ends it at once.
//! SIGHUP rereads its files. Only this file writes to standard output and decides the exit code, but for a panic of a
//! thread that the server cannot do without, which ends the process with 1.

use std::ffi::OsStr;
use std::fmt::Display;
use std::future::poll_fn;
use std::io::{IsTerminal as _, Write};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::task::Poll;
use std::time::{Duration, Instant};

use data_server::client;
use data_server::commands::{self, UsageError};
use data_server::config::{self, Health, Subcommands};
use data_server::log::{self, LogHandle};
use data_server::server::Reloader;
use data_server::{Args, Config, Server, StartError};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// A PUT takes 6% fewer instructions than with glibc's allocator, and musl's has one lock for all threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A signal this soon after the first is the same signal sent twice: timeout(1), for example, signals its child and
/// then the whole group.
const REPEATS: Duration = Duration::from_millis(500);

/// The signals that ask for the end.
const ENDS: [SignalKind; 3] = [
    SignalKind::terminate(),
    SignalKind::interrupt(),
    SignalKind::quit(),
];

/// "File size limit exceeded" (signal(7)).
const SIGXFSZ: i32 = rustix::process::Signal::XFSZ.as_raw();

/// Exit codes, as docs/operations.md lists them.
const DRAINED: u8 = 0;
const USAGE: u8 = 2;
const IN_USE: u8 = 3;
const CANNOT_LISTEN: u8 = 4;
const OTHER: u8 = 1;

/// The reason why the process fails, and its exit code.
struct ExitError(String, u8);

/// Fails with this exit code.
fn fail<E: Display>(code: u8) -> impl Fn(E) -> ExitError {
    move |why| ExitError(why.to_string(), code)
}

fn main() -> ExitCode {
    let args = match Args::gather(std::env::args_os()) {
        Ok(args) => args,
        Err(config::ParseError::Help(text)) => text.exit(),
        Err(config::ParseError::Wrong(why)) => return fail_unlogged(&why, USAGE),
    };
    match run(args) {
        Ok(code) => ExitCode::from(code),
        Err(ExitError(why, code)) => fail_unlogged(&why, code),
    }
}

/// Does the task of the process; returns the exit code.
fn run(args: Args) -> Result<u8, ExitError> {
    let config = |args| Config::try_from(args).map_err(fail(USAGE));
    match args.command.clone() {
        Some(Subcommands::Man) => Ok(show(&config::manual(Args::described()))),
        Some(Subcommands::Completions { shell }) => {
            Ok(show(&config::completions(&Args::described(), shell)))
        }
        Some(Subcommands::Version) => Ok(show(Args::described().render_version().as_bytes())),
        Some(Subcommands::Offline(command)) => print(commands::run(&command)),
        None => {
            let config = config(args)?;
            let confined = data_server::prepare(&config).map_err(fail(OTHER))?;
            logged(config, |config, log| {
                confined.report();
                serve_to_the_end(config, log)
            })
        }
        Some(Subcommands::CheckStore(_)) => logged(config(args)?, |config, _| check_store(&config)),
        Some(Subcommands::Bounds(asked)) => {
            let (bounds, form) = (args.bounds_of(&asked.bounds), (asked.json, asked.count));
            let of_command = asked.bounds.given().is_some();
            let dir = asked
                .dir
                .map_or_else(|| config(args)?.dir().map_err(fail(USAGE)), Ok)?;
            print(commands::describe_bounds(&dir, (&bounds, of_command), form))
        }
        Some(Subcommands::Config { .. }) => {
            let file = args.file().unwrap_or(Path::new("")).to_owned();
            check_file(&file, &config(args)?)
        }
        Some(Subcommands::Health(asked)) => ask(&asked, &config(args)?),
    }
}

/// Writes `text` to standard output; returns the exit code. A reader that takes only the beginning has what it wanted.
fn show(text: &[u8]) -> u8 {
    let _ = std::io::stdout().write_all(text);
    DRAINED
}

/// Prints what a command that needs no server answers.
fn print(answer: Result<(String, bool), commands::Failure>) -> Result<u8, ExitError> {
    let (text, is_yes) = answer.map_err(|why| {
        let is_usage = why.is::<UsageError>();
        ExitError(why.to_string(), if is_usage { USAGE } else { OTHER })
    })?;
    let shown = show(text.as_bytes());
    Ok(if is_yes { shown } else { OTHER })
}

/// Checks what the file names, as a start would.
fn check_file(file: &Path, config: &Config) -> Result<u8, ExitError> {
    for warning in &config.warnings {
        let _ = writeln!(std::io::stderr(), "data-server: warning: {warning}");
    }
    let file = file.display();
    let found = data_server::check(config);
    let found = found.map_err(|error| ExitError(format!("{file}: {error}"), OTHER))?;
    let _ = writeln!(std::io::stdout(), "{file}: ok; {found}");
    Ok(DRAINED)
}

/// Checks the health of a server.
fn ask(asked: &Health, config: &Config) -> Result<u8, ExitError> {
    let no_port = "health: the options name no port to ask: give a URL";
    let url = asked.url(&config.listen).ok_or(no_port);
    let url = url.map_err(fail(USAGE))?;
    let checked = client::check_health(&url, &asked.trust(), *asked.timeout);
    checked.map_err(fail(OTHER))?;
    Ok(DRAINED)
}

/// Does a task that has a log.
fn logged(
    config: Config,
    task: impl FnOnce(Config, &LogHandle) -> Result<u8, ExitError>,
) -> Result<u8, ExitError> {
    let log = log::install(config.log).map_err(StartError::from);
    let log = log.map_err(fail(OTHER))?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let code = task(config, &log).unwrap_or_else(|ExitError(why, code)| {
        log.line(&format!("data-server: {why}"));
        code
    });
    log.finish();
    Ok(code)
}

/// Fails before there is a log. A reason that cannot be written leaves the exit code as it is.
fn fail_unlogged(why: &str, code: u8) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "data-server: {why}");
    ExitCode::from(code)
}

/// Tests the store, and prints what it does.
fn check_store(config: &Config) -> Result<u8, ExitError> {
    let report = data_server::check_store(config).map_err(fail(OTHER))?;
    let _ = write!(std::io::stdout(), "{report}");
    Ok(if report.is_servable() { DRAINED } else { OTHER })
}

/// Serves to the end.
fn serve_to_the_end(config: Config, log: &LogHandle) -> Result<u8, ExitError> {
    // The runtime panics where the system has nothing left for it to start with.
    let served = catch_unwind(AssertUnwindSafe(|| serve(config, log)));
    let served = served.map_err(|_| "a panic ended the server: its log says where");
    served.map_err(fail(OTHER))?.map_err(|error| {
        let code = match &error {
            error if error.is_in_use() => IN_USE,
            StartError::Listen { .. } => CANNOT_LISTEN,
            _ => OTHER,
        };
        ExitError(error.to_string(), code)
    })
}

fn serve(config: Config, log: &LogHandle) -> Result<u8, StartError> {
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
        let for_others: Vec<_> = server.urls_for_others().collect();
        // People get a summary, scripts only the address.
        let is_terminal = std::io::stdout().is_terminal();
        let what = if is_terminal {
            format!(" ({})", server.summary())
        } else {
            String::new()
        };
        let (running, reload) = server.start()?;
        for url in urls {
            // A closed standard output is no failure: the line is for its reader alone.
            let _ = writeln!(std::io::stdout(), "listening on {url}{what}");
        }
        for url in for_others.iter().filter(|_| is_terminal) {
            let _ = writeln!(std::io::stdout(), "from other machines: {url}/");
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

/// Binds the server. A signal meanwhile ends the process: a start may replay a journal, or wait for a store, and the
/// next start begins anew.
fn bind(config: Config, log: &LogHandle) -> Result<Server, StartError> {
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
        // A write beyond RLIMIT_FSIZE fails, and its client gets an error, instead of ending the process: the handler
        // that this installs stays for good.
        let _ = signal(SignalKind::from_raw(SIGXFSZ))?;
        let others = [
            SignalKind::hangup(),
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
        ];
        let kinds = ENDS.into_iter().chain(others);
        let all = kinds.map(|kind| Ok((kind, signal(kind)?)));
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
        while !ENDS.contains(&self.next().await) {}
    }

    /// Waits for a signal that asks for the end; logs the others.
    async fn end(&mut self, reload: &Reloader) {
        loop {
            let kind = tokio::select! {
                kind = self.next() => kind,
                () = reload.serve() => continue,
            };
            if ENDS.contains(&kind) {
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
