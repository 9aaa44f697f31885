//! What the user typed ([`Args`]), and what it means ([`Config`]).
//!
//! Parsing touches nothing of the system; [`Config::try_from`] checks and completes it. Each part's options are a type of
//! that part, so no part knows this one.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use bytesize::ByteSize;
use clap::builder::FalseyValueParser;
use clap::{Parser, ValueEnum};
use rustix::process::{Resource, getrlimit};

use crate::http::Rules;
use crate::log;
use crate::net::{self, Limits};
use crate::store;

/// A small, fast key-value file server over HTTP.
///
/// Serves the files of one directory as the values of a key-value store: PUT /key stores a value, GET /key answers it,
/// DELETE /key removes it, GET / lists the keys. A key is the name of a file; files placed, edited or removed by hand are
/// seen at once. A value is whole or absent at every moment, and an acknowledged write stays.
#[derive(Clone, Debug, Parser)]
#[command(name = "data-server", version, max_term_width = 100, after_help = AFTER_HELP)]
pub struct Args {
    /// Number of reactors: threads that serve connections, each with a runtime of its own [default: the CPUs]
    #[arg(long, visible_alias = "workers", value_name = "N", env = "DATA_SERVER_THREADS", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Directory of the values; made when missing, never emptied
    #[arg(
        long,
        visible_alias = "root",
        value_name = "DIR",
        env = "DATA_SERVER_DIR",
        default_value = "/tmp/data-rs"
    )]
    dir: PathBuf,

    /// Address to listen on; port 0 picks a free one
    #[arg(
        long,
        visible_alias = "bind",
        value_name = "ADDR:PORT",
        env = "DATA_SERVER_LISTEN",
        default_value = "127.0.0.1:8080"
    )]
    listen: String,

    /// How connections come to reactors: in turn, to the one with the fewest, or by the kernel to a listener of each
    #[arg(
        long,
        value_name = "HOW",
        env = "DATA_SERVER_DISPATCH",
        default_value = "round-robin"
    )]
    dispatch: Dispatch,

    /// Keep each reactor on one CPU
    #[arg(long, env = "DATA_SERVER_PIN", value_parser = FalseyValueParser::new())]
    pin: bool,

    /// Connections open at once; more wait in the listen queue [default: three quarters of the descriptors, at most 65536]
    #[arg(long, value_name = "N", env = "DATA_SERVER_MAX_CONNECTIONS", value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: Option<u32>,

    /// Longest value taken; longer ones are answered 413 [default: no limit]
    #[arg(long, value_name = "SIZE", env = "DATA_SERVER_MAX_BODY")]
    max_body: Option<ByteSize>,

    /// Memory for hot small values; 0 is none
    #[arg(
        long,
        value_name = "SIZE",
        env = "DATA_SERVER_CACHE",
        default_value = "64MiB"
    )]
    cache: ByteSize,

    /// What an acknowledged write survives: the death of the process (os), or the loss of power too (disk)
    #[arg(
        long,
        value_name = "WHAT",
        env = "DATA_SERVER_DURABILITY",
        default_value = "os"
    )]
    durability: Durability,

    /// Refuse PUT and DELETE with 403; the directory must be there, and may lie on a read-only file system
    #[arg(long, env = "DATA_SERVER_READ_ONLY", value_parser = FalseyValueParser::new())]
    read_only: bool,

    /// Receive PUT bodies and drop them: for load tests of the network alone
    #[arg(long, env = "DATA_SERVER_DISCARD", value_parser = FalseyValueParser::new())]
    discard: bool,

    /// Answer as the older C server did: 304 to an empty or chunked PUT (nothing is stored), 204 to a PUT without a key,
    /// 404 to other methods and to GET /
    #[arg(long, env = "DATA_SERVER_COMPAT", value_parser = FalseyValueParser::new())]
    compat: bool,

    /// Compress answers (zstd, gzip) of media types worth it, for clients that ask with Accept-Encoding
    #[arg(long, env = "DATA_SERVER_COMPRESS", value_parser = FalseyValueParser::new())]
    compress: bool,

    /// Origin whose web pages may use this server, such as `https://app.example`; '*' is any; repeat for more
    #[arg(
        long,
        value_name = "ORIGIN",
        env = "DATA_SERVER_CORS_ORIGIN",
        value_delimiter = ','
    )]
    cors_origin: Vec<String>,

    /// Time for the head of a request to arrive; 0s is for ever
    #[arg(
        long,
        value_name = "DURATION",
        env = "DATA_SERVER_HEADER_TIMEOUT",
        default_value = "10s"
    )]
    header_timeout: humantime::Duration,

    /// Time a connection may stay open between requests; 0s is for ever
    #[arg(
        long,
        value_name = "DURATION",
        env = "DATA_SERVER_IDLE_TIMEOUT",
        default_value = "60s"
    )]
    idle_timeout: humantime::Duration,

    /// Bytes a second that a client must send or take of a body, averaged over 10 s; 0 is any
    #[arg(
        long,
        value_name = "SIZE",
        env = "DATA_SERVER_MIN_RATE",
        default_value = "1KiB"
    )]
    min_rate: ByteSize,

    /// Time for requests in flight to finish after SIGTERM or SIGINT; a second signal ends at once
    #[arg(
        long,
        value_name = "DURATION",
        env = "DATA_SERVER_GRACE_PERIOD",
        default_value = "30s"
    )]
    grace_period: humantime::Duration,

    /// Least severe level to log
    #[arg(
        long,
        value_name = "LEVEL",
        env = "DATA_SERVER_LOG_LEVEL",
        default_value = "info"
    )]
    log_level: LogLevel,

    /// Form of the log, on standard error
    #[arg(
        long,
        value_name = "FORM",
        env = "DATA_SERVER_LOG_FORMAT",
        default_value = "text"
    )]
    log_format: LogFormat,

    /// Log a line for each request
    #[arg(long, env = "DATA_SERVER_ACCESS_LOG", value_parser = FalseyValueParser::new())]
    access_log: bool,
}

/// No file is longer: the kernel's offsets are signed.
const LONGEST_FILE: u64 = i64::MAX as u64;

const AFTER_HELP: &str = "\
Sizes are bytes or carry a unit (64MiB, 1GB); durations carry one (10s, 500ms, 2m).

On standard output the server writes one line, once it serves: 'listening on http://ADDR:PORT'. Logs go to standard error.

Exit codes: 0 drained after a signal; 2 usage; 3 the directory is in use by another server; 4 cannot listen on the address;
1 anything else, a second signal among it.

Examples:
  data-server --threads 32 --dir /tmp/data-rs
  curl -T file http://127.0.0.1:8080/key
  curl http://127.0.0.1:8080/key";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Dispatch {
    RoundRobin,
    LeastConnections,
    ReusePort,
}

impl From<Dispatch> for net::Dispatch {
    fn from(dispatch: Dispatch) -> Self {
        match dispatch {
            Dispatch::RoundRobin => Self::RoundRobin,
            Dispatch::LeastConnections => Self::LeastConnections,
            Dispatch::ReusePort => Self::ReusePort,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Durability {
    Os,
    Disk,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

/// A checked configuration: pure data.
#[derive(Clone, Debug)]
pub struct Config {
    /// Directory of the values.
    pub dir: PathBuf,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Number of reactors, at least 1.
    pub threads: usize,
    /// How connections come to reactors.
    pub dispatch: net::Dispatch,
    /// Whether each reactor keeps to one CPU.
    pub pin: bool,
    /// Connections open at once.
    pub max_connections: usize,
    /// How long peers may take.
    pub limits: Limits,
    /// What the store may use.
    pub store: store::Options,
    /// How requests are answered.
    pub rules: Rules,
    /// Time for requests in flight to finish.
    pub grace_period: Duration,
    /// What is logged, and how.
    pub log: log::Options,
}

/// What is wrong with the arguments, naming the option.
#[derive(Debug, thiserror::Error)]
pub enum BadConfig {
    /// `--listen` is no address.
    #[error("--listen {given}: {why}; give an address and a port, such as 127.0.0.1:8080")]
    Listen {
        /// As typed.
        given: String,
        /// What is wrong with it.
        why: String,
    },
}

impl TryFrom<Args> for Config {
    type Error = BadConfig;

    fn try_from(args: Args) -> Result<Self, BadConfig> {
        Ok(Self {
            listen: resolve(&args.listen)?,
            dir: args.dir,
            threads: args.threads.map_or_else(num_cpus::get, usize::from),
            dispatch: args.dispatch.into(),
            pin: args.pin,
            max_connections: args
                .max_connections
                .map_or_else(default_connections, |n| n as usize),
            limits: Limits {
                header_timeout: *args.header_timeout,
                idle_timeout: *args.idle_timeout,
                min_rate: args.min_rate.as_u64(),
            },
            store: store::Options {
                cache: args.cache.as_u64(),
                cached_files: descriptors() / 8,
                durability: args.durability.into(),
            },
            rules: Rules {
                compat: args.compat,
                discard: args.discard,
                read_only: args.read_only,
                max_body: args.max_body.map_or(LONGEST_FILE, |size| size.as_u64()),
                compress: args.compress,
                cors_origins: args.cors_origin,
                access_log: args.access_log,
            },
            grace_period: *args.grace_period,
            log: log::Options {
                level: args.log_level.into(),
                json: matches!(args.log_format, LogFormat::Json),
            },
        })
    }
}

impl From<Durability> for store::Durability {
    fn from(durability: Durability) -> Self {
        match durability {
            Durability::Os => Self::Os,
            Durability::Disk => Self::Disk,
        }
    }
}

impl From<LogLevel> for tracing::level_filters::LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Off => Self::OFF,
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

fn resolve(given: &str) -> Result<SocketAddr, BadConfig> {
    let bad = |why: String| BadConfig::Listen {
        given: given.to_owned(),
        why,
    };
    let mut addresses = given
        .to_socket_addrs()
        .map_err(|error| bad(error.to_string()))?;
    addresses
        .next()
        .ok_or_else(|| bad("no such address".to_owned()))
}

/// Leaves a quarter of the descriptors to the files being read and written.
fn default_connections() -> usize {
    const MOST: u64 = 65_536;
    usize::try_from((descriptors() * 3 / 4).clamp(1, MOST)).unwrap_or(1)
}

/// Descriptors the process may have, once the soft limit is raised to the hard one.
fn descriptors() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_bad_address_is_named_with_its_option() {
        let args = Args::try_parse_from(["data-server", "--listen", "nonsense"]).unwrap();
        assert!(
            Config::try_from(args)
                .unwrap_err()
                .to_string()
                .starts_with("--listen nonsense:")
        );
    }
}
