//! What the user typed ([`Args`]), and what it means ([`Config`]).
//!
//! Parsing touches nothing of the system but the configuration file; [`Config::try_from`] checks and completes it. The
//! options stand in one file for each room they belong to; each room's options type belongs to that room, so no room knows
//! this one.

mod access;
mod command;
mod descriptors;
mod error;
mod exposure;
mod file;
mod gather;
mod listen;
mod logging;
mod network;
mod print;
mod protocol;
mod s3;
mod sandbox;
mod storage;
mod timeouts;
mod tls;

use std::path::PathBuf;
use std::time::Duration;

use clap::{CommandFactory, Parser};

use self::access::AccessOptions;
use self::command::Commands;
pub use self::command::{Health, Task};
pub use self::descriptors::{Descriptors, TooFew};
pub use self::error::BadConfig;
pub use self::file::BadFile;
use self::file::File;
pub use self::gather::Misuse;
use self::logging::Logging;
use self::network::Network;
pub use self::network::{ConnectionConfig, ListenConfig};
use self::print::Print;
use self::protocol::Protocol;
use self::s3::S3Store;
use self::sandbox::Sandbox;
pub use self::sandbox::SandboxConfig;
pub use self::storage::DirectoryConfig;
use self::storage::Storage;
use self::tls::Tls;
use crate::commands;
use crate::http::ServiceConfig;
use crate::log;
use crate::net::TlsOptions;
use crate::store;
use crate::store::s3::{Settings, Share};

/// A small, fast key-value file server over HTTP.
///
/// Serves the files of one directory as the values of a key-value store: PUT /key stores a value, GET /key answers it,
/// DELETE /key removes it, GET / lists the keys. A key is the name of a file; files placed, edited or removed by hand are
/// seen at once. A value is whole or absent at every moment, and an acknowledged write stays.
#[derive(Clone, Debug, Parser)]
#[command(name = "data-server", version, max_term_width = 100, after_help = AFTER_HELP)]
#[command(
    override_usage = "data-server [OPTIONS] [COMMAND]",
    disable_help_subcommand = true
)]
pub struct Args {
    #[command(flatten)]
    network: Network,
    #[command(flatten)]
    tls: Tls,
    #[command(flatten)]
    access: AccessOptions,
    #[command(flatten)]
    storage: Storage,
    #[command(flatten)]
    s3: S3Store,
    #[command(flatten)]
    protocol: Protocol,
    #[command(flatten)]
    sandbox: Sandbox,
    #[command(flatten)]
    logging: Logging,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    print: Print,
    #[command(subcommand)]
    command: Option<Commands>,
    /// What the configuration file gave.
    #[arg(skip)]
    file: Option<File>,
}

/// Where options come from, beside the command line and the environment.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Configuration file")]
struct Source {
    /// File of options, in TOML: their long names are its keys; the command line and the environment win over it
    #[arg(long, value_name = "FILE", env = "DATA_SERVER_CONFIG")]
    config: Option<PathBuf>,
}

impl Args {
    /// What is to be printed instead of serving, if that was asked for.
    pub fn printed(&self) -> Option<Vec<u8>> {
        self.print.text(Self::command())
    }

    /// What is to be done instead, without a server and its options, if that was asked for.
    pub fn offline(&self) -> Option<commands::Command> {
        self.command.as_ref().and_then(Commands::offline)
    }

    /// What to do.
    pub fn task(&self) -> Task {
        match (&self.command, &self.file) {
            (
                Some(Commands::Health {
                    url,
                    timeout,
                    ca,
                    insecure,
                }),
                _,
            ) => Task::Health(Health::new(url.as_ref(), ca.as_ref(), *insecure, **timeout)),
            (Some(Commands::Config { .. }), Some(file)) => Task::CheckFile(file.path().to_owned()),
            _ if self.print.checks_store() => Task::CheckStore,
            _ => Task::Serve,
        }
    }
}

const AFTER_HELP: &str = "\
Sizes are bytes or carry a unit (64MiB, 1GB); durations carry one (10s, 500ms, 2m). An option on the command line wins over
its variable, and that over the file of --config.

On standard output the server writes a line for each place, once it serves: 'listening on http://ADDR:PORT'. Logs go to standard
error.

Exit codes: 0 drained after a signal; 2 usage; 3 the directory is in use by another server; 4 cannot listen on the address;
1 anything else, a second signal among it.

Examples:
  data-server --threads 32 --dir /tmp/data-rs
  curl -T file http://127.0.0.1:8080/key
  curl http://127.0.0.1:8080/key
  data-server config check /etc/data-server.toml
  data-server health http://127.0.0.1:8080
  data-server access explain access.toml alice GET /alice/key
  data-server check-store --store s3://BUCKET --s3-endpoint http://127.0.0.1:7070";

/// A checked configuration: pure data.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the values are.
    pub values: Values,
    /// Where clients connect.
    pub listen: ListenConfig,
    /// What TLS is made of, where some of them have it.
    pub tls: Option<TlsOptions>,
    /// The file of who may do what, if that is restricted.
    pub access: Option<PathBuf>,
    /// Number of reactors, at least 1.
    pub threads: usize,
    /// Whether each reactor keeps to one CPU.
    pub pin: bool,
    /// What descriptors are for.
    pub descriptors: Descriptors,
    /// What connections may do.
    pub connections: ConnectionConfig,
    /// How requests are answered.
    pub service: ServiceConfig,
    /// Time for requests in flight to finish.
    pub grace_period: Duration,
    /// Which rights the process keeps.
    pub sandbox: SandboxConfig,
    /// What is logged, and how.
    pub log: log::Options,
}

/// Where the values are, and what the server may use for them.
#[derive(Clone, Debug)]
pub enum Values {
    /// In a directory.
    Directory(DirectoryConfig, store::Options),
    /// In an S3 store.
    S3(Settings, Share),
}

impl Values {
    /// The directories that are written to: those of the values and of the journal, or that of what is on its way to the store.
    fn directories(&self) -> Vec<PathBuf> {
        match self {
            Self::Directory(directory, options) => std::iter::once(&directory.path)
                .chain(&options.journal.dir)
                .cloned()
                .collect(),
            Self::S3(settings, _) => vec![settings.spool.clone()],
        }
    }
}

impl TryFrom<Args> for Config {
    type Error = BadConfig;

    fn try_from(mut args: Args) -> Result<Self, BadConfig> {
        let is_to_serve = matches!(args.task(), Task::Serve | Task::CheckFile(_));
        let file = args.file.take();
        Self::checked(args, is_to_serve).map_err(|error| error.at(|message| file?.place(message)))
    }
}

impl Config {
    /// What else is done, such as asking another server, listens nowhere: its options need not fit a server that does.
    fn checked(args: Args, is_to_serve: bool) -> Result<Self, BadConfig> {
        let Args {
            network,
            tls,
            access,
            storage,
            s3,
            protocol,
            sandbox,
            logging,
            ..
        } = args;
        let descriptors = network.descriptors();
        let listen = network.listen()?;
        let names = network.own_names().chain(protocol.allowed_hosts());
        let tls = tls.options(listen.has_tls(), names)?;
        let mut hosts = protocol.hosts()?;
        network.own_names().for_each(|name| hosts.add_own(name));
        let logs = (logging.has_access_log(), logging.has_audit());
        let service = protocol.service_config(logs, storage.staging(), hosts)?;
        if is_to_serve {
            listen.check_exposure(service.read_only || access.file().is_some())?;
        }
        let values = match s3.settings()? {
            Some(mut settings) => {
                let most = descriptors.store_connections(network.threads());
                settings.connections = settings.connections.min(most);
                Values::S3(settings, storage.share(network.threads(), &service)?)
            }
            None => Values::Directory(storage.directory(), storage.options(&descriptors)),
        };
        let sandbox = sandbox.config(
            values.directories(),
            service.read_only,
            &listen,
            tls.as_ref(),
            access.file(),
        );
        Ok(Self {
            values,
            listen,
            tls,
            access: access.file(),
            threads: network.threads(),
            pin: network.pin,
            connections: network.connections(&descriptors),
            descriptors,
            service,
            grace_period: network.timeouts.grace_period(),
            sandbox,
            log: logging.options(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
