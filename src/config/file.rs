//! The configuration file, and the faults of options: each message begins with the option and advises what to give
//! instead.
//!
//! The file is TOML, whose keys are the long names of options. Each entry becomes the words that would give the option
//! on the command line, so an option is defined in one place and checked in one way. An entry that is no option, or
//! whose value the option refuses, is reported with its line. The options come from the command that clap builds. A
//! table of an array of tables, as `[[bound]]`, is the value of an option, too: its entries in one line.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::path::{self, Path, PathBuf};

use clap::ValueHint;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command, Id};
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::mistakes::{message, nearest};
use crate::file_error::{read_text, unreadable};

/// The name of the value of an option that is a table of a file.
const TABLE: &str = "TABLE";

/// The value of an option that is a table, by the entries of the table in one line.
pub fn table<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    let inline = format!("{{ {text} }}");
    let table = ValueDeserializer::parse(&inline).and_then(T::deserialize);
    table.map_err(|error| error.message().trim().replace('\n', ", "))
}

/// The prefix of the path of a unix socket, where a place to listen is given.
pub const UNIX: &str = "unix:";

/// The options that a file gives.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// The path of the file.
    pub path: PathBuf,
    entries: Vec<FileEntry>,
}

/// One option of a file.
#[derive(Clone, Debug)]
struct FileEntry {
    /// The file and the line.
    place: String,
    option: Id,
    name: String,
    words: Vec<OsString>,
    /// The options that this one needs.
    needed: Vec<String>,
}

impl ConfigFile {
    /// Reads the options of `command` that the file at `path` gives. The error has a line for each fault.
    pub fn read(path: &Path, command: &Command) -> Result<Self, String> {
        let text = read_text(path)
            .map_err(|why| format!("{}: {}", path.display(), unreadable(path, &why)))?;
        let place = |at: usize| format!("{}:{}", path.display(), line(&text, at));
        let table = DeTable::parse(&text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let why = match without_value(&text, at) {
                Some(name) => format!("{name} has no value"),
                None => error.message().replace('\n', ", "),
            };
            format!("{}: {why}", place(at))
        })?;
        let folder = folder(path);
        let mut given: Vec<_> = table.get_ref().iter().collect();
        given.sort_by_key(|(name, _)| name.span().start);
        let (mut faults, mut entries) = (Vec::new(), Vec::new());
        for (name, value) in given {
            // Each table of an array of tables is an entry of its own, with its line.
            let tables = match value.get_ref() {
                DeValue::Array(all) if all.iter().any(|it| it.get_ref().is_table()) => Some(all),
                _ => None,
            };
            let all = tables.map_or(vec![(name.span(), value)], |tables| {
                tables.iter().map(|table| (table.span(), table)).collect()
            });
            for (span, value) in all {
                let place = place(span.start);
                match FileEntry::new(&place, name.get_ref(), value.get_ref(), &folder, command) {
                    Ok(entry) => entries.push(entry),
                    Err(why) => faults.push(format!("{place}: {why}")),
                }
            }
        }
        if !faults.is_empty() {
            return Err(faults.join("\n"));
        }
        Ok(Self {
            path: path.to_owned(),
            entries,
        })
    }

    /// Forgets the options that are given elsewhere.
    pub fn without(&mut self, is_given: impl Fn(&str) -> bool) {
        self.entries
            .retain(|entry| !is_given(entry.option.as_str()));
    }

    /// The words that give its options on the command line.
    pub fn words(&self) -> impl Iterator<Item = OsString> {
        self.entries.iter().flat_map(|entry| entry.words.clone())
    }

    /// The file and the line of the option that `message` begins with, if the file gives it.
    pub fn place(&self, message: &str) -> Option<String> {
        let named = message.split_whitespace().next()?.strip_prefix("--")?;
        let entry = self.entries.iter().find(|entry| entry.name == named)?;
        Some(entry.place.clone())
    }

    /// The fault of the file, if `error` means that one of its options lacks another option.
    pub fn lacking(&self, error: &clap::Error) -> Option<String> {
        let missing = missing(error)?;
        self.entries.iter().find_map(|entry| {
            let FileEntry { place, name, .. } = entry;
            let mut lacking = entry.needed.clone();
            lacking.retain(|option| missing.contains(option));
            let options = lacking.join(" and ");
            (!lacking.is_empty()).then(|| format!("{place}: {name} needs {options}"))
        })
    }
}

impl FileEntry {
    /// The entry `name = value`, which `command` has to accept by itself, except for options that it needs.
    fn new(
        place: &str,
        name: &str,
        value: &DeValue<'_>,
        folder: &Path,
        command: &Command,
    ) -> Result<Self, String> {
        let option = option(command, name);
        if value.is_table() && !option.as_ref().is_ok_and(|option| takes_tables(option)) {
            return Err(format!(
                "there are no sections such as [{name}]: options stand at the top of the file"
            ));
        }
        let option = option?;
        let words = words(option, name, value, folder)?;
        let alone = std::iter::once(OsStr::new("data-server"));
        let alone = alone.chain(words.iter().map(OsString::as_os_str));
        let without_variables = command.clone().mut_args(|option| option.env(None));
        let needed = match without_variables.try_get_matches_from(alone) {
            Ok(_) => Vec::new(),
            Err(error) => missing(&error)
                .ok_or_else(|| first_paragraph(&error))?
                .to_vec(),
        };
        Ok(Self {
            place: place.to_owned(),
            option: option.get_id().clone(),
            name: name.to_owned(),
            words,
            needed,
        })
    }
}

/// True for an option whose value is a table.
fn takes_tables(option: &Arg) -> bool {
    option
        .get_value_names()
        .is_some_and(|names| names == [TABLE])
}

/// The option of this long name, if a file may give it.
fn option<'a>(command: &'a Command, name: &str) -> Result<&'a Arg, String> {
    let options = || command.get_arguments().filter(|it| is_for_files(it));
    let found = options().find(|option| option.get_long() == Some(name));
    let near = || nearest(&name.replace('_', "-"), options().filter_map(Arg::get_long));
    found.ok_or_else(|| match near() {
        Some(near) => format!("{name} cannot be set in a file; did you mean {near}?"),
        None => format!("{name} cannot be set in a file: give long names of options, without --"),
    })
}

/// The folder that paths in the file at `path` are relative to; the working directory for a file that comes through a
/// descriptor.
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

/// True for options that a file may give. Commands have no variable.
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
    let takes_values = option.get_action().takes_values();
    let is_table = takes_tables(option);
    let word = |value: &DeValue<'_>| {
        if value.is_table() != is_table {
            return None;
        }
        let mut word = OsString::from(format!("--{name}="));
        word.push(match value {
            DeValue::String(text) => beside(option, text, folder),
            DeValue::Integer(number) => beside(option, &number.to_string(), folder),
            DeValue::Table(table) => inline(table)?.into(),
            _ => return None,
        });
        Some(word)
    };
    let words = match value {
        DeValue::Boolean(is_on) if !takes_values => {
            Some(Vec::from_iter(is_on.then(|| format!("--{name}").into())))
        }
        _ if !takes_values => None,
        DeValue::Array(values) if matches!(option.get_action(), ArgAction::Append) => {
            values.iter().map(|value| word(value.get_ref())).collect()
        }
        value => word(value).map(|word| vec![word]),
    };
    words.ok_or_else(|| {
        let wanted = match option.get_action() {
            _ if is_table => {
                return format!(
                    "{name} takes a table, [[{name}]], not this {}",
                    value.type_str()
                );
            }
            ArgAction::Append => "a string or an array of strings",
            _ if takes_values => "a string or an integer",
            _ => "true or false",
        };
        format!("{name} takes {wanted}, not this {}", value.type_str())
    })
}

/// The entries of `table` in one line, if each is a text, a number or a truth.
fn inline(table: &DeTable<'_>) -> Option<String> {
    let entry = |(name, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let value = match value.get_ref() {
            // A string of JSON is one of TOML.
            DeValue::String(text) => serde_json::to_string(text).ok()?,
            DeValue::Integer(number) => number.to_string(),
            DeValue::Boolean(is_on) => is_on.to_string(),
            _ => return None,
        };
        let name: &std::borrow::Cow<'_, str> = name.get_ref();
        Some(format!("{name} = {value}"))
    };
    let entries: Option<Vec<String>> = table.iter().map(entry).collect();
    Some(entries?.join(", "))
}

/// `text`, one or several values of `option`, with paths made relative to `folder`.
fn beside(option: &Arg, text: &str, folder: &Path) -> OsString {
    let names = option.get_value_names();
    let is_place = names.is_some_and(|names| names == ["PLACE"]);
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

/// The missing options, if `error` is about missing options.
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

/// The values of an option, without the empty value that an empty variable gives.
pub fn filled<'a>(given: impl IntoIterator<Item = &'a String>) -> impl Iterator<Item = &'a str> {
    let given = given.into_iter().map(String::as_str);
    given.filter(|given| !given.is_empty())
}

/// The fault of an option, in words that begin with the option, or with the place in a file where it was given.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub(super) String);

impl ConfigError {
    /// The fault of a value.
    pub(super) fn value(option: &str, given: impl Display, why: impl Display) -> Self {
        Self(format!("{option} {given}: {why}"))
    }

    /// The fault with the place in a file where the option was given, which `place` finds by the message.
    pub(super) fn at(self, place: impl FnOnce(&str) -> Option<String>) -> Self {
        match place(&self.0) {
            Some(place) => Self(format!("{place}: {}", self.0)),
            None => self,
        }
    }
}
