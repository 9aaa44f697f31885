//! Puts together what is given: the command line wins over the environment, and both win over the configuration file.
//!
//! The file's options are put before those on the command line, and all are parsed as one. Those that are given elsewhere
//! are left out, so that an option which does not repeat stands there once.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, Parser};

use super::command::Commands;
use super::{Args, BadFile, File};

/// Why what is given is not understood.
#[derive(Debug)]
pub enum Misuse {
    /// The command line or the environment is wrong, or asks for text that is printed: the help, the version.
    CommandLine(clap::Error),
    /// The configuration file is wrong.
    File(BadFile),
}

impl Args {
    /// What the words of the command line give, its name first, with the environment and the configuration file.
    pub fn gather(words: impl IntoIterator<Item = OsString>) -> Result<Self, Misuse> {
        let words: Vec<OsString> = words.into_iter().collect();
        let command = Self::command();
        // Says what is given where. Its errors are found again below, with all that the file gives.
        let lenient = command.clone().ignore_errors(true);
        let given = lenient.try_get_matches_from(&words)?;
        let Some(path) = named_file(&given) else {
            let args = Self::try_parse_from(words)?;
            return match args.command {
                Some(Commands::Config { .. }) => Err(no_file().into()),
                _ => Ok(args),
            };
        };
        let mut file = File::read(&path, &command).map_err(Misuse::File)?;
        file.without(|option| is_given(&given, option));
        let (name, typed) = words.split_at(words.len().min(1));
        let from_file = file.words().map(OsString::from);
        let all = name.iter().cloned().chain(from_file);
        match Self::try_parse_from(all.chain(typed.iter().cloned())) {
            Ok(args) => Ok(Self {
                file: Some(file),
                ..args
            }),
            Err(error) => Err(match file.lacking(&error, &command) {
                Some(bad) => Misuse::File(bad),
                None => error.into(),
            }),
        }
    }
}

/// The file that is to be read or checked.
fn named_file(given: &ArgMatches) -> Option<PathBuf> {
    let checked = given
        .subcommand_matches("config")
        .and_then(|config| config.subcommand_matches("check"))
        .and_then(|check| check.get_one::<PathBuf>("file"));
    checked.or(given.get_one::<PathBuf>("config")).cloned()
}

/// Whether the command line or the environment gives this option.
fn is_given(given: &ArgMatches, option: &str) -> bool {
    let source = given.value_source(option);
    matches!(
        source,
        Some(ValueSource::CommandLine | ValueSource::EnvVariable)
    )
}

fn no_file() -> clap::Error {
    Args::command().error(
        ErrorKind::MissingRequiredArgument,
        "there is no file to check: name one, or set DATA_SERVER_CONFIG",
    )
}

impl From<clap::Error> for Misuse {
    fn from(error: clap::Error) -> Self {
        Self::CommandLine(error)
    }
}
