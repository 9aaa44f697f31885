//! Messages about a wrong command line: with the word that was probably meant, or what to give instead. Words with a
//! meaning.

use std::env;
use std::ffi::OsString;
use std::path::Path;

use clap::Command;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Options of other servers, and what to give here.
const ELSEWHERE: [(&[&str], &str); 2] = [
    (
        &["-p", "--port", "-b", "--host", "--address"],
        "give --listen 127.0.0.1:9000, or --listen :9000 for all addresses",
    ),
    (
        &["-d", "--directory", "--path"],
        "give the directory alone, as in data-server ./values, or --dir ./values",
    ),
];

/// The message of `error`.
pub fn message(error: &clap::Error) -> String {
    let text = error.render().to_string();
    text.trim_start_matches("error: ").trim_end().to_owned()
}

/// The name in `names` that `given` is probably meant for.
pub fn nearest<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    /// As similar as clap wants words to be.
    const SIMILAR: f64 = 0.8;
    names
        .map(|name| (strsim::jaro_winkler(given, name), name))
        .filter(|(similarity, _)| *similarity > SIMILAR)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| name)
}

/// Why `given` is neither a command nor a directory. A directory that does not exist yet has to be given as a path.
pub fn no_directory(given: &Path, command: &Command) -> Option<String> {
    let text = given.to_string_lossy();
    if given.is_dir() || text.contains('/') || text == "." || text == ".." {
        return None;
    }
    if given.exists() {
        return Some("this is a file: values are served from a directory".to_owned());
    }
    let names = command.get_subcommands().map(Command::get_name);
    let meant = nearest(&text, names).map(|name| format!("; did you mean {name}?"));
    Some(format!(
        "there is no command of this name{} To serve a directory that is not there yet, give ./{text} or --dir {text}",
        meant.as_deref().unwrap_or(".")
    ))
}

/// The fault of the words. An option whose value comes from its variable is named by that.
pub fn misuse(error: &clap::Error, command: &Command, words: &[OsString]) -> String {
    let mut command = command.clone();
    command.build();
    if let Some(advice) = advice(error, &command, words) {
        return advice;
    }
    let mut text = message(error);
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
    text
}

/// Advice about an unknown word.
fn advice(error: &clap::Error, command: &Command, words: &[OsString]) -> Option<String> {
    if !matches!(
        error.kind(),
        ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand
    ) {
        return None;
    }
    // Commands have options of their own.
    let is_command = |word: &OsString| command.find_subcommand(word).is_some();
    if words.iter().skip(1).any(is_command) {
        return None;
    }
    // clap takes a mistyped command for the directory, and reports the word after it.
    let first = words.get(1)?.to_string_lossy();
    if !first.starts_with('-')
        && let Some(why) = no_directory(Path::new(&*first), command)
    {
        return Some(format!("{first}: {why}"));
    }
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let (_, instead) = ELSEWHERE
        .iter()
        .find(|(names, _)| names.contains(&unknown.as_str()))?;
    Some(format!("{unknown} is no option: {instead}"))
}

/// The parser of an option that takes one of these words, each with its meaning.
pub fn one_of<T: Clone + Send + Sync + 'static, const N: usize>(
    words: [(&'static str, T); N],
) -> impl TypedValueParser<Value = T> {
    let names = PossibleValuesParser::new(words.each_ref().map(|(word, _)| *word));
    names.try_map(move |given| {
        let found = words.iter().find(|(word, _)| *word == given);
        found.map(|(_, meaning)| meaning.clone()).ok_or("unknown")
    })
}
