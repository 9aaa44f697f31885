//! The command line: the options and commands as they were typed, with the environment and the configuration file.
//!
//! The command line wins over the environment, and both win over the file. The file's options are put before those on
//! the command line, and all are parsed as one; an option that is given elsewhere is left out of the file's, so that
//! one which does not repeat stands there once. Of the system only the configuration file is read, and whether the last
//! word is a directory.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser as _};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory as _, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use super::bounds::BoundOptions;
use super::file::ConfigFile;
use super::help::{self, is_given, warnings};
use super::mistakes::{misuse, no_directory, one_of};
use super::network::Network;
use super::requests::{Logging, ProtocolArgs};
use super::security::{ListenConfig, TlsArgs};
use super::storage::{S3Store, Storage};
use crate::client::Trust;
use crate::commands::{self, number};
use crate::net::{Listen, ListenAddress};
use crate::sandbox::Mode;
use crate::store::MOST_NAMED;
use crate::store::bounds::Bound;

const NO_FILE: &str = "there is no file to check: name one, or set DATA_SERVER_CONFIG";

/// A small, fast key-value file server over HTTP.
///
/// Serves the files of one directory as the values of a key-value store: PUT /key stores a value, GET /key answers it,
/// DELETE /key removes it, MOVE and COPY rename and copy a value or a folder, MKCOL makes a folder, GET / lists the
/// keys. A key is the path of a file in it; files placed, edited or removed by hand are seen at once. A value is whole
/// or absent at every moment, and an acknowledged write stays.
#[derive(Clone, Debug, Parser)]
#[command(name = "data-server", version, max_term_width = 100)]
#[command(
    override_usage = "data-server [OPTIONS] [DIR]\n       data-server COMMAND",
    allow_negative_numbers = true,
    mut_args(help::with_variable)
)]
pub struct Args {
    #[command(flatten)]
    pub(super) network: Network,
    #[command(flatten)]
    pub(super) tls: TlsArgs,
    /// Access file, in TOML: subjects with tokens and passwords, and rules by key prefix. What no rule allows is
    /// refused. SIGHUP rereads the file
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    pub(super) access: Option<PathBuf>,
    #[command(flatten)]
    pub(super) storage: Storage,
    #[command(flatten)]
    pub(super) bounds: BoundOptions,
    #[command(flatten)]
    pub(super) s3: S3Store,
    #[command(flatten)]
    pub(super) protocol: ProtocolArgs,
    /// Give up all rights to files and the network that serving does not need, by Landlock: as far as the kernel can
    /// (auto), all or refuse to start (require), or none (off)
    #[arg(long, value_name = "HOW", help_heading = "Sandbox", default_value = "auto", value_parser = one_of([
        ("auto", Mode::Auto),
        ("require", Mode::Require),
        ("off", Mode::Off),
    ]))]
    pub(super) sandbox: Mode,
    #[command(flatten)]
    pub(super) logging: Logging,
    /// File of options, in TOML, with the long names of options as keys
    #[arg(long, value_name = "FILE", help_heading = "Configuration file")]
    config: Option<PathBuf>,
    /// The command, unless it is to serve
    #[command(subcommand)]
    pub command: Option<Subcommands>,
    /// The options of the configuration file.
    #[arg(skip)]
    pub(super) file: Option<ConfigFile>,
    /// Warnings of options that were given in vain.
    #[arg(skip)]
    pub(super) warnings: Vec<String>,
}

impl Args {
    /// The command line with its help.
    pub fn described() -> clap::Command {
        let command = Self::command();
        let commands = command.clone();
        let parser = PathBufValueParser::new().try_map(move |given| {
            let why = no_directory(&given, &commands);
            why.map_or(Ok(given), Err)
        });
        help::helpful(command.mut_arg("place", |option| option.value_parser(parser)))
    }

    /// The configuration file, where there is one.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| &*file.path)
    }

    /// The bounds of a command: its own, else those of the server.
    pub fn bounds_of(&self, own: &BoundOptions) -> Vec<Bound> {
        let own = own.all();
        if own.is_empty() {
            self.bounds.all()
        } else {
            own
        }
    }
}

/// What is to be done instead of serving. Its documentation is its help.
#[derive(Clone, Debug, Subcommand)]
pub enum Subcommands {
    /// Check the configuration file
    Config {
        /// What to do with it
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Check whether a server answers 200 within --timeout (5s): exits with 0 if so, else 1 and the reason
    Health(Health),
    /// A command that needs no server and none of its options.
    #[command(flatten)]
    Offline(commands::Command),
    /// Test an S3 store at length, through every endpoint, and print a line for each check; exits with 0 if it can be
    /// served, else 1
    CheckStore(Box<S3Store>),
    /// Print what bounds hold, how old it is, and what goes next, changing nothing: as the server knows it that runs on
    /// the directory, else by the files. Bounds given here are tried on the files
    Bounds(BoundsArgs),
    /// Print the manual page, in roff
    Man,
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the version
    Version,
}

/// The bounds that are looked at, and how they are shown.
#[derive(clap::Args, Clone, Debug)]
pub struct BoundsArgs {
    /// Directory of the values [default: that of the server's options]
    pub dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Values, and names of a bound with {name}, that are listed
    #[arg(long, value_name = "N", default_value = "10", value_parser = number(1..=MOST_NAMED))]
    pub count: usize,
    /// The server's file of options, as --config before the command
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The bounds
    #[command(flatten)]
    pub bounds: Box<BoundOptions>,
}

/// A look at a configuration file.
#[derive(Clone, Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check a configuration file with the environment, as a start would: `FILE: ok`, or what is wrong
    Check {
        /// The file [default: that of --config]
        file: Option<PathBuf>,
    },
}

/// The server whose health is checked, and how.
#[derive(clap::Args, Clone, Debug)]
pub struct Health {
    /// URL to check: without a path /-/healthz, whether the server runs; /-/ready is whether it serves; or unix:PATH
    /// [default: the server with these options]
    url: Option<String>,
    /// Longest wait for the response
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    pub timeout: humantime::Duration,
    /// CA certificates (PEM) that the certificate of an https server must chain to [default: those of the system]
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Accept any certificate of an https server, as without a URL and --ca
    #[arg(long)]
    insecure: bool,
}

impl Health {
    /// The certificates that are accepted. A server that is found by its own options is on this machine, and its
    /// certificate is for another name than the loopback address.
    pub fn trust(&self) -> Trust {
        match &self.ca {
            Some(file) => Trust::File(file.clone()),
            None if self.insecure || self.url.is_none() => Trust::Any,
            None => Trust::System,
        }
    }

    /// The URL to check: the given one, else that of the server with these listeners, if its address is known.
    pub fn url(&self, listen: &ListenConfig) -> Option<String> {
        let at = || listen.at.iter();
        let in_the_clear = at().filter(|at| !at.by_tls);
        let by_tls = at().filter(|at| at.by_tls);
        let all = listen.admin.iter().chain(in_the_clear).chain(by_tls);
        let own = || all.filter(|at| !at.by_proxy).find_map(own_url);
        self.url.clone().or_else(own)
    }
}

/// The URL of a server on this machine that listens there.
fn own_url(listen: &Listen) -> Option<String> {
    let mut listen = listen.clone();
    match &mut listen.at {
        ListenAddress::Address(address) if address.port() != 0 => {
            address.set_ip(match address.ip() {
                IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
                ip => ip,
            });
        }
        ListenAddress::Unix(_) if !listen.by_tls => {}
        ListenAddress::Address(_) | ListenAddress::Unix(_) | ListenAddress::Fd(_) => return None,
    }
    Some(listen.url())
}

/// Why the arguments cannot be used.
#[derive(Debug)]
pub enum ParseError {
    /// The help or the version was requested.
    Help(clap::Error),
    /// The command line, the environment or the configuration file is wrong: the fault, and the advice.
    Wrong(String),
}

impl Args {
    /// Parses the words of the command line, its name first, with the environment and the configuration file.
    pub fn gather(words: impl IntoIterator<Item = OsString>) -> Result<Self, ParseError> {
        let words: Vec<OsString> = words.into_iter().collect();
        let command = Self::described();
        let misuse = |error: clap::Error| ParseError::Wrong(misuse(&error, &command, &words));
        // Finds out which options are given where. Its errors are reported below, where the file's options are known
        // too.
        let lenient = command.clone().ignore_errors(true);
        let given = lenient
            .try_get_matches_from(&words)
            .map_err(ParseError::Help)?;
        let is_typed = |option| given.value_source(option) == Some(ValueSource::CommandLine);
        if is_typed("place") && is_typed("dir") {
            let why = "the directory is given twice: give DIR or --dir DIR";
            return Err(ParseError::Wrong(why.to_owned()));
        }
        let Some(path) = named_file(&given) else {
            let args = parse(&command, &words).map_err(misuse)?;
            return match args.command {
                Some(Subcommands::Config { .. }) => Err(ParseError::Wrong(NO_FILE.to_owned())),
                _ => Ok(args),
            };
        };
        let mut file = ConfigFile::read(&path, &command).map_err(ParseError::Wrong)?;
        file.without(|option| {
            is_given(&given, option) || option == "dir" && is_given(&given, "place")
        });
        let (name, typed) = words.split_at(words.len().min(1));
        let all = name.iter().cloned().chain(file.words());
        let all: Vec<_> = all.chain(typed.iter().cloned()).collect();
        let parsed = parse(&command, &all);
        let mut args = parsed.map_err(|error| match file.lacking(&error) {
            Some(bad) => ParseError::Wrong(bad),
            None => misuse(error),
        })?;
        args.file = Some(file);
        Ok(args)
    }
}

fn parse(command: &Command, words: &[OsString]) -> Result<Args, clap::Error> {
    let mut command = command.clone();
    let given = command.try_get_matches_from_mut(words)?;
    let mut args = Args::from_arg_matches(&given).map_err(|error| error.format(&mut command))?;
    args.warnings = warnings(&given, &command);
    Ok(args)
}

/// The file that is to be read or checked.
fn named_file(given: &ArgMatches) -> Option<PathBuf> {
    let checked = given
        .subcommand_matches("config")
        .and_then(|config| config.subcommand_matches("check"))
        .and_then(|check| check.get_one::<PathBuf>("file"));
    let bounds = given
        .subcommand_matches("bounds")
        .and_then(|bounds| bounds.get_one("config"));
    let behind = checked.or(bounds);
    behind.or(given.get_one::<PathBuf>("config")).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_all_addresses_is_asked_on_loopback() {
        for (address, expected) in [
            ("127.0.0.1:8080", Some("http://127.0.0.1:8080")),
            ("0.0.0.0:80", Some("http://127.0.0.1:80")),
            ("[::]:8080", Some("http://[::1]:8080")),
            ("127.0.0.1:0", None),
        ] {
            let at = ListenAddress::Address(address.parse().unwrap());
            let listen = |by_tls| Listen {
                at: at.clone(),
                by_tls,
                by_proxy: false,
                door: crate::http::Door::Plain,
            };
            assert_eq!(own_url(&listen(false)).as_deref(), expected, "{address}");
            let by_tls = expected.map(|url| url.replace("http:", "https:"));
            assert_eq!(own_url(&listen(true)), by_tls, "{address}");
        }
    }
}
