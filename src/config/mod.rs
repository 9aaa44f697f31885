//! What the user typed ([`Args`]), and what it means ([`Config`]).
//!
//! Parsing touches nothing of the system; [`Config::try_from`] checks and completes it. The options stand in one file for
//! each room they belong to; each room's options type belongs to that room, so no room knows this one.

mod descriptors;
mod error;
mod logging;
mod network;
mod print;
mod protocol;
mod storage;
mod timeouts;

use std::time::Duration;

use clap::{CommandFactory, Parser};

pub use self::descriptors::{Descriptors, TooFew};
pub use self::error::BadConfig;
use self::logging::Logging;
use self::network::Network;
pub use self::network::{ConnectionConfig, ListenConfig};
use self::print::Print;
use self::protocol::Protocol;
pub use self::storage::DirectoryConfig;
use self::storage::Storage;
use crate::http::ServiceConfig;
use crate::log;
use crate::store;

/// A small, fast key-value file server over HTTP.
///
/// Serves the files of one directory as the values of a key-value store: PUT /key stores a value, GET /key answers it,
/// DELETE /key removes it, GET / lists the keys. A key is the name of a file; files placed, edited or removed by hand are
/// seen at once. A value is whole or absent at every moment, and an acknowledged write stays.
#[derive(Clone, Debug, Parser)]
#[command(name = "data-server", version, max_term_width = 100, after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    network: Network,
    #[command(flatten)]
    storage: Storage,
    #[command(flatten)]
    protocol: Protocol,
    #[command(flatten)]
    logging: Logging,
    #[command(flatten)]
    print: Print,
}

impl Args {
    /// What is to be printed instead of serving, if that was asked for.
    pub fn printed(&self) -> Option<Vec<u8>> {
        self.print.text(Self::command())
    }
}

const AFTER_HELP: &str = "\
Sizes are bytes or carry a unit (64MiB, 1GB); durations carry one (10s, 500ms, 2m).

On standard output the server writes one line, once it serves: 'listening on http://ADDR:PORT'. Logs go to standard error.

Exit codes: 0 drained after a signal; 2 usage; 3 the directory is in use by another server; 4 cannot listen on the address;
1 anything else, a second signal among it.

Examples:
  data-server --threads 32 --dir /tmp/data-rs
  curl -T file http://127.0.0.1:8080/key
  curl http://127.0.0.1:8080/key";

/// A checked configuration: pure data.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the values are.
    pub directory: DirectoryConfig,
    /// Where clients connect.
    pub listen: ListenConfig,
    /// Number of reactors, at least 1.
    pub threads: usize,
    /// Whether each reactor keeps to one CPU.
    pub pin: bool,
    /// What descriptors are for.
    pub descriptors: Descriptors,
    /// What connections may do.
    pub connections: ConnectionConfig,
    /// What the store may use.
    pub store: store::Options,
    /// How requests are answered.
    pub service: ServiceConfig,
    /// Time for requests in flight to finish.
    pub grace_period: Duration,
    /// What is logged, and how.
    pub log: log::Options,
}

impl TryFrom<Args> for Config {
    type Error = BadConfig;

    fn try_from(args: Args) -> Result<Self, BadConfig> {
        let Args {
            network,
            storage,
            protocol,
            logging,
            print: _,
        } = args;
        let descriptors = network.descriptors();
        let store = storage.options(&descriptors);
        let mut hosts = protocol.hosts()?;
        network.own_names().for_each(|name| hosts.add_own(name));
        Ok(Self {
            directory: storage.directory(),
            listen: network.listen()?,
            threads: network.threads(),
            pin: network.pin,
            connections: network.connections(&descriptors),
            descriptors,
            service: protocol.service_config(logging.sampling(), store.max_staged, hosts)?,
            store,
            grace_period: network.timeouts.grace_period(),
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
