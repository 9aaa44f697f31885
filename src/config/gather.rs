//! Puts together what is given: the command line wins over the environment, and both win over the configuration file.
//!
//! The file's options are put before those on the command line, and all are parsed as one. Those that are given elsewhere
//! are left out, so that an option which does not repeat stands there once. What is given in vain is told: options that another one makes
//! idle, and variables that no option has.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, FromArgMatches};

use super::command::Commands;
use super::help::{PREFIX, message, nearest};
use super::{Args, ConfigFileError, File};
use crate::failpoint;

const NO_FILE: &str = "there is no file to check: name one, or set DATA_SERVER_CONFIG";

const IDLE: [Idle; 4] = [
    (
        &["access_log_format"],
        |given| !given.get_flag("access_log") && !given.get_flag("audit_log"),
        "without --access-log or --audit-log",
    ),
    (
        &["journal", "journal_dir", "journal_size"],
        |given| {
            let durability = given
                .get_raw("durability")
                .and_then(|mut words| words.next());
            durability.is_none_or(|word| word != "disk")
        },
        "without --durability disk",
    ),
    (
        &[
            "max_body",
            "max_staged",
            "max_staged_per_client",
            "max_uploads_per_client",
            "upload_expiry",
            "min_free",
            "max_key_depth",
        ],
        |given| given.get_flag("read_only"),
        "with --read-only",
    ),
    (
        &["interim", "upload_expiry"],
        |given| given.contains_id("store"),
        "with --store",
    ),
];

/// Why what is given is not understood.
#[derive(Debug)]
pub enum UsageError {
    /// The help or the version is asked for.
    Help(clap::Error),
    /// The command line or the environment is wrong: what is, and what to do.
    CommandLine(String),
    /// The configuration file is wrong.
    File(ConfigFileError),
}

impl Args {
    /// Parses the words of the command line, its name first, with the environment and the configuration file.
    pub fn gather(words: impl IntoIterator<Item = OsString>) -> Result<Self, UsageError> {
        let words: Vec<OsString> = words.into_iter().collect();
        let command = Self::described();
        let misuse = |error: clap::Error| misuse(&error, &command, &words);
        // Says what is given where. Its errors are found again below, with all that the file gives.
        let lenient = command.clone().ignore_errors(true);
        let given = lenient
            .try_get_matches_from(&words)
            .map_err(UsageError::Help)?;
        let is_typed = |option| given.value_source(option) == Some(ValueSource::CommandLine);
        if is_typed("place") && is_typed("dir") {
            let why = "the directory is given twice: give DIR or --dir DIR";
            return Err(UsageError::CommandLine(why.to_owned()));
        }
        let Some(path) = named_file(&given) else {
            let args = parse(&command, &words).map_err(misuse)?;
            return match args.command {
                Some(Commands::Config { .. }) => Err(UsageError::CommandLine(NO_FILE.to_owned())),
                _ => Ok(args),
            };
        };
        let mut file = File::read(&path, &command).map_err(UsageError::File)?;
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
                Some(bad) => UsageError::File(bad),
                None => misuse(error),
            }),
        }
    }
}

fn parse(command: &Command, words: &[OsString]) -> Result<Args, clap::Error> {
    let mut command = command.clone();
    let given = command.try_get_matches_from_mut(words)?;
    let args = Args::from_arg_matches(&given).map_err(|error| error.format(&mut command))?;
    Ok(Args {
        warnings: warnings(&given, &command),
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

/// The fault of the words, in the server's voice. An option whose value comes from its variable is named by that.
fn misuse(error: &clap::Error, command: &Command, words: &[OsString]) -> UsageError {
    let mut text = message(error);
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
    UsageError::CommandLine(text)
}

/// Options, the one that makes them idle, whether it does, and how that is said.
type Idle = (
    &'static [&'static str],
    fn(&ArgMatches) -> bool,
    &'static str,
);

/// One sentence for each thing that was given in vain.
pub fn warnings(given: &ArgMatches, command: &Command) -> Vec<String> {
    let idle = IDLE.iter().filter(|(_, is_idle, _)| is_idle(given));
    let idle = idle.flat_map(|(options, _, why)| {
        let vain = options.iter().filter(|option| is_given(given, option));
        vain.map(move |option| format!("--{} has no effect {why}", option.replace('_', "-")))
    });
    let variables = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut unknown: Vec<_> = variables
        .filter_map(|name| unknown_variable(&name, command))
        .collect();
    unknown.sort();
    idle.chain(unknown).collect()
}

/// The warning of a variable that looks like an option's and is none.
fn unknown_variable(name: &str, command: &Command) -> Option<String> {
    let rest = name.strip_prefix(PREFIX)?;
    let options = || {
        command
            .get_arguments()
            .filter_map(|option| option.get_env()?.to_str())
    };
    let is_known = options().any(|option| option == name) || failpoint::VARIABLES.contains(&name);
    if is_known || is_of_kubernetes(rest) {
        return None;
    }
    let meant = nearest(name, options()).map(|meant| format!("; did you mean {meant}?"));
    Some(format!(
        "the variable {name} is no option{}",
        meant.unwrap_or_default()
    ))
}

/// Kubernetes gives each container variables of this form for a service that is called data-server.
fn is_of_kubernetes(rest: &str) -> bool {
    rest == "PORT" || rest.starts_with("PORT_") || rest.starts_with("SERVICE_")
}
