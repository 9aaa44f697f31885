//! Puts together what is given: the command line wins over the environment, and both win over the configuration file.
//!
//! The file's options are put before those on the command line, and all are parsed as one. Those that are given elsewhere
//! are left out, so that an option which does not repeat stands there once.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, FromArgMatches};

use super::command::Commands;
use super::{Args, BadFile, File, in_vain};

/// Why what is given is not understood.
#[derive(Debug)]
pub enum Misuse {
    /// The help or the version is asked for.
    Help(clap::Error),
    /// The command line or the environment is wrong: what is, and what to do.
    CommandLine(String),
    /// The configuration file is wrong.
    File(BadFile),
}

impl Args {
    /// What the words of the command line give, its name first, with the environment and the configuration file.
    pub fn gather(words: impl IntoIterator<Item = OsString>) -> Result<Self, Misuse> {
        let words: Vec<OsString> = words.into_iter().collect();
        let command = Self::described();
        let misuse = |error: clap::Error| misuse(&error, &command, &words);
        // Says what is given where. Its errors are found again below, with all that the file gives.
        let lenient = command.clone().ignore_errors(true);
        let given = lenient.try_get_matches_from(&words).map_err(Misuse::Help)?;
        let is_typed = |option| given.value_source(option) == Some(ValueSource::CommandLine);
        if is_typed("place") && is_typed("dir") {
            let why = "the directory is given twice: give DIR or --dir DIR";
            return Err(Misuse::CommandLine(why.to_owned()));
        }
        let Some(path) = named_file(&given) else {
            let args = parse(&command, &words).map_err(misuse)?;
            return match args.command {
                Some(Commands::Config { .. }) => Err(Misuse::CommandLine(NO_FILE.to_owned())),
                _ => Ok(args),
            };
        };
        let mut file = File::read(&path, &command).map_err(Misuse::File)?;
        file.without(|option| {
            is_given(&given, option) || option == "dir" && is_given(&given, "place")
        });
        let (name, typed) = words.split_at(words.len().min(1));
        let from_file = file.words().map(OsString::from);
        let all = name.iter().cloned().chain(from_file);
        let all: Vec<_> = all.chain(typed.iter().cloned()).collect();
        match parse(&command, &all) {
            Ok(args) => Ok(Self {
                file: Some(file),
                ..args
            }),
            Err(error) => Err(match file.lacking(&error, &command) {
                Some(bad) => Misuse::File(bad),
                None => misuse(error),
            }),
        }
    }
}

const NO_FILE: &str = "there is no file to check: name one, or set DATA_SERVER_CONFIG";

fn parse(command: &Command, words: &[OsString]) -> Result<Args, clap::Error> {
    let mut command = command.clone();
    let given = command.try_get_matches_from_mut(words)?;
    let args = Args::from_arg_matches(&given).map_err(|error| error.format(&mut command))?;
    Ok(Args {
        warnings: in_vain::warnings(&given, &command),
        ..args
    })
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

/// What is wrong with the words, in the server's voice. An option whose value comes from its variable is named by that.
fn misuse(error: &clap::Error, command: &Command, words: &[OsString]) -> Misuse {
    let text = error.render().to_string();
    let mut text = text.trim_start_matches("error: ").trim_end().to_owned();
    let mut command = command.clone();
    command.build();
    if error.kind() == ErrorKind::ValueValidation || error.kind() == ErrorKind::InvalidValue {
        for option in command.get_arguments() {
            let Some((variable, name)) = option.get_env().zip(option.get_long()) else {
                continue;
            };
            let typed = format!("--{name}");
            let is_typed = |word: &OsString| word.to_string_lossy().starts_with(&typed);
            if env::var_os(variable).is_some() && !words.iter().any(is_typed) {
                text = text.replace(&format!("'{option}'"), &variable.to_string_lossy());
            }
        }
    }
    Misuse::CommandLine(text)
}
