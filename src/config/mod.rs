//! The options as the user typed them ([`Args`]), and what they mean together ([`Config`]).
//!
//! Parsing touches nothing of the system but the configuration file; [`Config::try_from`] checks and completes it. The
//! options stand in one file for each subject, and the only option of a subject in `args`; the type that they become
//! belongs to the module that it configures, so no such module knows this one.

mod args;
mod bounds;
mod descriptors;
mod file;
mod help;
mod mistakes;
mod network;
mod requests;
mod security;
mod storage;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub use self::args::{Args, Health, ParseError, Subcommands};
pub use self::descriptors::{DescriptorLimitError, Descriptors};
pub use self::file::ConfigError;
use self::file::filled;
pub use self::help::{completions, manual};
pub use self::network::ConnectionConfig;
pub use self::security::{ListenConfig, Sharing};
pub use self::storage::DirectoryConfig;
use crate::http::ServiceConfig;
use crate::net::TlsOptions;
use crate::s3::{S3Resources, Settings};
use crate::sandbox::{Allowed, Mode};
use crate::{log, store};

/// A checked configuration: pure data.
#[derive(Clone, Debug)]
pub struct Config {
    /// The place of the values.
    pub values: Values,
    /// The places where clients connect.
    pub listen: ListenConfig,
    /// The certificates, if a listener has TLS.
    pub tls: Option<TlsOptions>,
    /// The access file, if there is one.
    pub access: Option<PathBuf>,
    /// What everybody may do, in place of an access file.
    pub share: Option<Sharing>,
    /// Links are signed with a key of the server's own.
    pub links: bool,
    /// The names that are hidden.
    pub hidden: Vec<store::NamePattern>,
    /// Number of reactors, at least 1.
    pub threads: usize,
    /// True if each reactor is pinned to one CPU.
    pub pin: bool,
    /// The division of the descriptors.
    pub descriptors: Descriptors,
    /// The limits of connections.
    pub connections: ConnectionConfig,
    /// How requests are answered.
    pub service: ServiceConfig,
    /// Time for requests in flight to finish.
    pub grace_period: Duration,
    /// The mode of the sandbox.
    pub sandbox: Mode,
    /// The rights that the process keeps in it.
    pub allowed: Allowed,
    /// The level and the format of the log.
    pub log: log::LogOptions,
    /// Warnings about options without effect, one sentence each.
    pub warnings: Vec<String>,
}

/// Where the values are, and the resources that the server may use for them.
#[derive(Clone, Debug)]
pub enum Values {
    /// In a directory.
    Directory(DirectoryConfig, store::Options),
    /// In an S3 store.
    S3(Settings, S3Resources),
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(directory, _) => directory.path.display().fmt(f),
            Self::S3(settings, _) => settings.place.fmt(f),
        }
    }
}

impl Values {
    /// The directories that are written to: the directories of the values and of the journal, or the spool of uploads
    /// to an S3 store.
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
    type Error = ConfigError;

    fn try_from(mut args: Args) -> Result<Self, ConfigError> {
        let is_to_serve = matches!(args.command, None | Some(Subcommands::Config { .. }));
        let file = args.file.take();
        Self::checked(args, is_to_serve).map_err(|error| error.at(|message| file?.place(message)))
    }
}

impl Config {
    /// A task that is not to serve, such as asking another server, listens nowhere: its options need not fit a server
    /// that does.
    fn checked(args: Args, is_to_serve: bool) -> Result<Self, ConfigError> {
        let (network, storage) = (args.network, args.storage);
        let s3 = match args.command {
            Some(Subcommands::CheckStore(own)) if own.is_given() => *own,
            Some(Subcommands::CheckStore(_)) if !args.s3.is_given() => {
                return Err(ConfigError(
                    "--store: there is none to check; give s3://BUCKET or s3://BUCKET/PREFIX"
                        .to_owned(),
                ));
            }
            _ => args.s3,
        };
        // An empty variable gives an empty name.
        let access = args.access.filter(|file| !file.as_os_str().is_empty());
        let descriptors = network.descriptors();
        let listen = network.listen()?;
        let names = network
            .own_names()
            .chain(filled(&args.protocol.allowed_host));
        let tls = args.tls.options(listen.has_tls(), names)?;
        let mut hosts = args.protocol.hosts()?;
        network.own_names().for_each(|name| hosts.add_own(name));
        let logs = args.logging.requests();
        let mut service = args
            .protocol
            .service_config(logs, storage.staging(), hosts)?;
        let (share, links) = (network.share, network.links);
        for (option, is_given) in [
            ("--access", access.is_some()),
            ("--allow-anonymous", listen.allow_anonymous),
        ] {
            if share.is_some() && is_given {
                let why = "each says what others may do: give one of them";
                return Err(ConfigError(format!("--share and {option}: {why}")));
            }
        }
        service.follows_symlinks = storage.follow_symlinks;
        service.read_only |= share == Some(Sharing::Read);
        if is_to_serve {
            let is_guarded = access.is_some() || share.is_some();
            listen.check_exposure(service.read_only || is_guarded)?;
        }
        listen.check_doors(s3.is_given(), &service)?;
        let hidden = storage.hidden(share.is_some())?;
        let values = if let Some(mut settings) = s3.settings()? {
            check_store_options(&settings, &service, links)?;
            let most = descriptors.store_connections(network.threads());
            settings.connections = settings.connections.min(most);
            service.kept_fields.beside = crate::s3::BESIDE_METADATA;
            Values::S3(
                settings,
                storage.share(network.threads(), &service, &args.bounds)?,
            )
        } else {
            if is_to_serve && args.bounds.given() == Some("--evict-existing") {
                return Err(ConfigError(
                    "--evict-existing: there is no bound that could evict; give --max-size or --bound, or [[bound]] in the file"
                        .to_owned(),
                ));
            }
            let options = storage.options(&descriptors, &args.bounds);
            Values::Directory(storage.directory(), options)
        };
        let (directories, others) = (values.directories(), access.clone());
        let allowed = security::allowed(
            directories,
            service.read_only,
            &listen,
            tls.as_ref(),
            others,
        );
        Ok(Self {
            values,
            listen,
            tls,
            access,
            share,
            links,
            hidden,
            threads: network.threads(),
            pin: network.pin,
            connections: network.connections(&descriptors),
            descriptors,
            service,
            grace_period: *network.grace_period,
            sandbox: args.sandbox,
            allowed,
            log: args.logging.options(),
            warnings: args.warnings,
        })
    }
}

/// Refuses options that an S3 store cannot have.
fn check_store_options(
    settings: &Settings,
    service: &ServiceConfig,
    links: bool,
) -> Result<(), ConfigError> {
    let why = if links {
        "--links cannot be had with --store: its key lies in a directory; name a link key in the file of --access"
    } else if settings.redirect_from.is_some() && service.kept_fields.names().next().is_some() {
        "--keep-field cannot be had with --redirect-from: the store answers then, and has another name for the field"
    } else if !service.action_results.is_empty() {
        "--content cannot be had with --store: not kind = \"bazel-ac\", for which each GET would ask the store for all outputs"
    } else {
        return Ok(());
    };
    Err(ConfigError(why.to_owned()))
}

impl Config {
    /// The directory of the values.
    pub fn dir(&self) -> Result<PathBuf, &'static str> {
        match &self.values {
            Values::Directory(directory, _) => Ok(directory.path.clone()),
            Values::S3(..) => Err("bounds are of a directory, and the values are in a store"),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

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
