//! Checks that `docs/configuration.md` is what the command line generates.

use std::env;
use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory};
use data_server::Args;

use super::path;
use crate::support::prelude::*;

const PAGE: &str = "docs/configuration.md";

/// If this variable is set, the test writes the page.
const WRITE: &str = "WRITE_DOCS";

const INTRODUCTION: &str = "\
<!-- Made from the command line by tests/it/docs/configuration.rs: do not edit. -->

# Configuration

Each option has an environment variable (`DATA_SERVER_MAX_BODY` for `--max-body`) and can be in a
[file](operations.md#configuration-file); the command line wins. As a variable, a switch is off when it is empty, `0`, `false`, `no` or `off`. Sizes
are bytes or carry a unit (`64MiB`, `1GB`); durations carry one (`10s`, `500ms`, `2m`). Defaults are in parentheses; without one an option is off.
";

const COMMANDS: &str = "
## Instead of serving

`data-server DIR` serves DIR. Options of the server stand before these commands:

";

#[test]
fn the_page_of_options_is_what_the_command_line_says() {
    let made = page(&Args::command());
    if env::var_os(WRITE).is_some() {
        fs::write(path(PAGE), &made).expect("the page");
    }
    let kept = fs::read_to_string(path(PAGE)).unwrap_or_default();
    assert!(
        kept == made,
        "{PAGE} is stale; make it again with\n    {WRITE}=1 cargo test --locked --test it docs::configuration"
    );
}

/// Every option, under its heading.
fn page(command: &Command) -> String {
    let mut page = INTRODUCTION.to_owned();
    let mut heading = None;
    for option in command.get_opts() {
        if option.get_help_heading() != heading {
            heading = option.get_help_heading();
            let heading = heading.expect("every option has a heading");
            let _ = write!(page, "\n## {heading}\n\n");
        }
        page += &row(option);
    }
    page += COMMANDS;
    let commands = command.get_subcommands();
    let rows = commands.map(|it| rows_below(it, it.get_name()));
    page + &rows.collect::<String>()
}

/// The rows of the commands below a command, or its own.
fn rows_below(command: &Command, name: &str) -> String {
    if command.has_subcommands() {
        let below = command.get_subcommands();
        let rows = below.map(|below| rows_below(below, &format!("{name} {}", below.get_name())));
        return rows.collect();
    }
    let words = command.get_positionals().map(|word| format!(" {word}"));
    let name = words.fold(name.to_owned(), |name, word| name + &word);
    let help = command.get_about().expect("every command has a help");
    format!("- `{name}`: {help}\n")
}

fn row(option: &Arg) -> String {
    let long = option.get_long().expect("every option has a name");
    let variable = option.get_env().map(|name| name.to_string_lossy());
    let expected = format!("DATA_SERVER_{}", long.to_uppercase().replace('-', "_"));
    assert_eq!(variable.as_deref(), Some(expected.as_str()), "--{long}");

    let takes_value = option.get_action().takes_values();
    let value = option.get_value_names().map(|names| names[0].as_str());
    let value = value.filter(|_| takes_value);
    let mut name = format!(
        "`--{long}{}`",
        value.map(|value| format!(" {value}")).unwrap_or_default()
    );
    for alias in option.get_visible_aliases().unwrap_or_default() {
        let _ = write!(name, " or `--{alias}`");
    }

    let help = option.get_help().expect("every option has a help");
    let help = help.to_string();
    let (help, told) = match help.split_once(" [default: ") {
        Some((help, default)) => (help, Some(default.trim_end_matches(']').to_owned())),
        None => (help.as_str(), None),
    };
    let given = option.get_default_values().first();
    let default = match (told, given) {
        (Some(told), _) if told == "none" => String::new(),
        (Some(told), _) => format!(" ({told})"),
        (None, Some(given)) => format!(" (`{}`)", given.to_string_lossy()),
        (None, None) => String::new(),
    };
    let values = option.get_possible_values();
    let values = values.iter().map(|value| format!("`{}`", value.get_name()));
    let values: Vec<String> = values.collect();
    // Where the help explains each value, it names them.
    let names = |value: &String| help.contains(value) || help.contains(&value.replace('`', ""));
    let values = match values.as_slice() {
        values if takes_value && !values.iter().all(names) => {
            format!(". One of {}", values.join(", "))
        }
        _ => String::new(),
    };
    let help = help.replace('*', "\\*");
    format!("- {name}{default}: {help}{values}\n")
}

#[test]
fn the_readme_names_options_with_their_defaults() {
    let readme = fs::read_to_string(path("README.md")).expect("the README");
    let rows = readme.lines().filter_map(|line| line.strip_prefix("| `--"));
    let rows = rows.map(|line| {
        let (name, rest) = line.split_once('`').expect("a name");
        let default = rest.trim_start_matches([' ', '|']).split('|').next();
        let name = name.split(' ').next().expect("a name");
        (name, default.expect("a default").trim())
    });
    let rows: Vec<_> = rows.collect();
    assert!((8..=14).contains(&rows.len()), "{rows:?}");
    let command = Args::command();
    for (name, default) in rows {
        let mut options = command.get_arguments();
        let option = options.find(|option| option.get_long() == Some(name));
        let option = option.unwrap_or_else(|| panic!("--{name} is no option"));
        if let Some(given) = option.get_default_values().first() {
            let expected = format!("`{}`", given.to_string_lossy());
            assert_eq!(default, expected, "--{name}");
        }
    }
}
