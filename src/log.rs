//! Logging: structured events on standard error, as text or JSON. Installed once, by `main`.

use tracing::level_filters::LevelFilter;

/// What is logged, and how.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Least severe level.
    pub level: LevelFilter,
    /// JSON, one object a line, instead of text.
    pub json: bool,
}

/// Installs the log for the whole process; panics are events of it too. Does nothing when one is installed already.
pub fn install(options: Options) {
    let log = tracing_subscriber::fmt()
        .with_max_level(options.level)
        .with_writer(std::io::stderr)
        .with_ansi(false);
    let installed = if options.json {
        log.json().try_init()
    } else {
        log.try_init()
    };
    if installed.is_ok() {
        std::panic::set_hook(Box::new(|panic| {
            let thread = std::thread::current();
            tracing::error!(thread = thread.name().unwrap_or("unnamed"), "{panic}");
        }));
    }
}
