//! The configuration file, and the faults of options: each message begins with the option and says what to give instead.
//!
//! The file is TOML, whose keys are the long names of options. Each entry becomes the words that would give the option on the
//! command line, so an option is defined in one place and checked in one way. An entry that is no option, or that the option
//! refuses, is told with its line. Which options there are is not known here: the command is asked.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::fs;
use std::path::{self, Path, PathBuf};

use clap::ValueHint;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command, Id};
use toml::de::{DeTable, DeValue};

use super::mistakes::{message, nearest};
use crate::file_error::unreadable;
use crate::net::{BadCount, Listen};

/// The prefix of the path of a unix socket, where a place to listen is given.
pub const UNIX: &str = "unix:";

/// The options that a file gives.
#[derive(Clone, Debug)]
pub struct File {
    path: PathBuf,
    entries: Vec<Entry>,
}

/// One option of a file.
#[derive(Clone, Debug)]
struct Entry {
    line: usize,
    option: Id,
    name: String,
    words: Vec<OsString>,
}

/// The fault of a file.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFileError {
    /// It cannot be read.
    #[error("{path}: {why}", path = path.display(), why = unreadable(path, why))]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why not.
        why: std::io::Error,
    },
    /// Something in it is wrong.
    #[error("{place}: {why}")]
    Wrong {
        /// The file and the line.
        place: String,
        /// The fault there.
        why: String,
    },
    /// Several things in it are wrong.
    #[error("{}", lines(.0))]
    Several(Vec<ConfigFileError>),
}

/// One line for each.
fn lines(faults: &[ConfigFileError]) -> String {
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

impl File {
    /// Reads the options of `command` that the file at `path` gives.
    pub fn read(path: &Path, command: &Command) -> Result<Self, ConfigFileError> {
        let text = fs::read_to_string(path).map_err(|why| ConfigFileError::Unreadable {
            path: path.to_owned(),
            why,
        })?;
        let wrong = |at: usize, why: String| ConfigFileError::Wrong {
            place: place(path, line(&text, at)),
            why,
        };
        let table = DeTable::parse(&text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let why = match without_value(&text, at) {
                Some(name) => format!("{name} has no value"),
                None => error.message().replace('\n', ", "),
            };
            wrong(at, why)
        })?;
        let mut given: Vec<_> = table.get_ref().iter().collect();
        given.sort_by_key(|(name, _)| name.span().start);
        let (mut faults, mut entries) = (Vec::new(), Vec::new());
        for (name, value) in given {
            let at = name.span().start;
            let (line, value) = (line(&text, at), value.get_ref());
            match Entry::new(line, name.get_ref(), value, &folder(path), command) {
                Ok(entry) => entries.push(entry),
                Err(why) => faults.push(wrong(at, why)),
            }
        }
        if !faults.is_empty() {
            return Err(ConfigFileError::Several(faults));
        }
        Ok(Self {
            path: path.to_owned(),
            entries,
        })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Forgets the options that are given elsewhere.
    pub fn without(&mut self, is_given: impl Fn(&str) -> bool) {
        self.entries
            .retain(|entry| !is_given(entry.option.as_str()));
    }

    /// The words that give its options on the command line.
    pub fn words(&self) -> impl Iterator<Item = OsString> {
        let words = self.entries.iter().flat_map(|entry| &entry.words);
        words.cloned()
    }

    /// The file and the line of the option that `message` begins with, if the file gives it.
    pub fn place(&self, message: &str) -> Option<String> {
        let named = message.split_whitespace().next()?.strip_prefix("--")?;
        let entry = self.entries.iter().find(|entry| entry.name == named)?;
        Some(place(&self.path, entry.line))
    }

    /// The fault of the file that `error` is, if that is that one of its options lacks another one.
    pub fn lacking(&self, error: &clap::Error, command: &Command) -> Option<ConfigFileError> {
        let lacking = missing(error)?;
        let command = without_variables(command);
        self.entries.iter().find_map(|entry| {
            let alone = entry.parse(&command).err()?;
            let needed = missing(&alone)?.iter();
            let needed = needed.filter(|option| lacking.contains(option));
            let needed: Vec<&str> = needed.map(String::as_str).collect();
            (!needed.is_empty()).then(|| ConfigFileError::Wrong {
                place: place(&self.path, entry.line),
                why: format!("{} needs {}", entry.name, needed.join(" and ")),
            })
        })
    }
}

impl Entry {
    fn new(
        line: usize,
        name: &str,
        value: &DeValue<'_>,
        folder: &Path,
        command: &Command,
    ) -> Result<Self, String> {
        if matches!(value, DeValue::Table(_)) {
            return Err(format!(
                "there are no sections such as [{name}]: options stand at the top of the file"
            ));
        }
        let option = option(command, name)?;
        let entry = Self {
            line,
            option: option.get_id().clone(),
            name: name.to_owned(),
            words: words(option, name, value, folder)?,
        };
        match entry.parse(&without_variables(command)) {
            // An option that it lacks may be given elsewhere.
            Err(error) if missing(&error).is_none() => Err(first_paragraph(&error)),
            _ => Ok(entry),
        }
    }

    /// Has `command` parse this entry alone.
    fn parse(&self, command: &Command) -> Result<(), clap::Error> {
        let words = self.words.iter().map(OsString::as_os_str);
        let words = std::iter::once(OsStr::new("data-server")).chain(words);
        command.clone().try_get_matches_from(words).map(drop)
    }
}

fn without_variables(command: &Command) -> Command {
    command.clone().mut_args(|option| option.env(None))
}

/// The option of this long name, if a file may give it.
fn option<'a>(command: &'a Command, name: &str) -> Result<&'a Arg, String> {
    let options = || {
        let all = command.get_arguments();
        all.filter(|option| is_for_files(option))
    };
    let found = options().find(|option| option.get_long() == Some(name));
    let near = || nearest(&name.replace('_', "-"), options().filter_map(Arg::get_long));
    found.ok_or_else(|| match near() {
        Some(near) => format!("{name} is no option of a file; did you mean {near}?"),
        None => format!("{name} is no option of a file: give long names of options, without --"),
    })
}

/// The folder that paths of the file at `path` are relative to. What comes through a descriptor has none: it is the working directory.
fn folder(path: &Path) -> PathBuf {
    let is_stream = ["/dev", "/proc"].iter().any(|of| path.starts_with(of));
    let above = path.parent().filter(|_| !is_stream);
    path::absolute(Path::new(".").join(above.unwrap_or("".as_ref()))).unwrap_or_default()
}

/// The name on the line of `at`, if nothing stands behind its `=`.
fn without_value(text: &str, at: usize) -> Option<&str> {
    let (name, value) = text.lines().nth(line(text, at) - 1)?.split_once('=')?;
    value.trim().is_empty().then(|| name.trim())
}

/// Commands have no variable either.
fn is_for_files(option: &Arg) -> bool {
    option.get_env().is_some() && option.get_long() != Some("config")
}

/// The words that give `value` to the option `name` on the command line. Paths are relative to `folder`.
fn words(
    option: &Arg,
    name: &str,
    value: &DeValue<'_>,
    folder: &Path,
) -> Result<Vec<OsString>, String> {
    let repeats = matches!(option.get_action(), ArgAction::Append);
    let word = |value: &DeValue<'_>| {
        let mut word = OsString::from(format!("--{name}="));
        word.push(match value {
            DeValue::String(text) => beside(option, text, folder),
            DeValue::Integer(number) => beside(option, &number.to_string(), folder),
            _ => return None,
        });
        Some(word)
    };
    let words = match value {
        DeValue::Boolean(is_on) if !option.get_action().takes_values() => {
            Some(Vec::from_iter(is_on.then(|| format!("--{name}").into())))
        }
        _ if !option.get_action().takes_values() => None,
        DeValue::Array(values) if repeats => {
            values.iter().map(|value| word(value.get_ref())).collect()
        }
        value => word(value).map(|word| vec![word]),
    };
    words.ok_or_else(|| {
        let wanted = match option.get_action() {
            ArgAction::Append => "a string or an array of strings",
            action if action.takes_values() => "a string or an integer",
            _ => "true or false",
        };
        format!("{name} takes {wanted}, not this {}", value.type_str())
    })
}

/// `text`, one or several values of `option`, in which a path is relative to `folder`.
fn beside(option: &Arg, text: &str, folder: &Path) -> OsString {
    let is_place = option
        .get_value_names()
        .is_some_and(|names| names == ["PLACE"]);
    let start = |value: &str| match value.find(UNIX) {
        _ if option.get_value_hint() == ValueHint::AnyPath => 0,
        // Places to listen are text, and some of them have a path.
        Some(at) if is_place => at + UNIX.len(),
        _ => value.len(),
    };
    let mut whole = OsString::new();
    for value in text.split_inclusive(option.get_value_delimiter().unwrap_or('\0')) {
        let (before, path) = value.split_at(start(value));
        whole.push(before);
        if !path.is_empty() {
            whole.push(folder.join(path));
        }
    }
    whole
}

/// The options that are missing, if that is what `error` says.
fn missing(error: &clap::Error) -> Option<&[String]> {
    let is_missing = error.kind() == ErrorKind::MissingRequiredArgument;
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(options)) if is_missing => Some(options),
        _ => None,
    }
}

/// The message of `error`, in one line, without the usage.
fn first_paragraph(error: &clap::Error) -> String {
    let text = message(error);
    let lines = text.lines().take_while(|line| !line.is_empty());
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

fn line(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count()
}

fn place(path: &Path, line: usize) -> String {
    format!("{}:{line}", path.display())
}

/// The fault of the arguments, naming the option.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A value that its option does not take.
    #[error("{option} {given}: {why}")]
    Value {
        /// The option.
        option: &'static str,
        /// As typed.
        given: String,
        /// The fault of it, and what to give instead.
        why: String,
    },
    /// An address that is none.
    #[error(
        "{option} {given}: {why}; give an address and a port, such as {address}:{port}, or :{port} for all addresses, or unix:PATH"
    )]
    Address {
        /// The option.
        option: &'static str,
        /// As typed.
        given: String,
        /// The fault of it.
        why: String,
        /// The address of the example: the given one, where there is one.
        address: String,
        /// The port of the example, likewise.
        port: String,
    },
    /// A socket that was passed is one, and `reuse-port` takes one for each reactor.
    #[error(
        "--dispatch reuse-port needs sockets of its own: give --listen addresses, not {listen}"
    )]
    Dispatch {
        /// Which socket.
        listen: Listen,
    },
    /// A service manager passes a socket, and clients that connect to it would wait for ever.
    #[error(
        "--listen does not name {0}, a socket that the service manager passes, so its clients would wait for ever: give \
         --listen {0} too, or no --listen"
    )]
    Unserved(Listen),
    /// Other machines reach a place, and nothing says who may do what.
    #[error(
        "--listen {listen}: other machines reach it, and anyone could write and delete; give --access FILE to say who may, or \
         --read-only, or --allow-anonymous to let anyone"
    )]
    Exposed {
        /// Which place.
        listen: Listen,
    },
    /// The environment passes no number of sockets.
    #[error(transparent)]
    Passed(#[from] BadCount),
    /// The options of TLS do not fit each other.
    #[error("{0}")]
    Tls(&'static str),
    /// An option of a directory that an S3 store cannot have.
    #[error("{option} cannot be had with --store: {why}")]
    NotWithStore {
        /// The option.
        option: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// An option that a configuration file gives.
    #[error("{place}: {error}")]
    InFile {
        /// The file and the line.
        place: String,
        /// The fault of the option.
        error: Box<ConfigError>,
    },
}

impl ConfigError {
    /// The fault of a value.
    pub(crate) fn value(option: &'static str, given: impl Into<String>, why: &dyn Display) -> Self {
        Self::Value {
            option,
            given: given.into(),
            why: why.to_string(),
        }
    }

    /// The fault with the place in a file where the option was given, which `place` finds by the message.
    pub(crate) fn at(self, place: impl FnOnce(&str) -> Option<String>) -> Self {
        match place(&self.to_string()) {
            Some(place) => Self::InFile {
                place,
                error: Box::new(self),
            },
            None => self,
        }
    }
}
