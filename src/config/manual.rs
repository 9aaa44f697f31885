//! The texts that are made of the command line: the manual page and the completions.

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::help::{EXAMPLES, EXIT_STATUS, FILES, OUTPUT, VALUES};

/// What `shell` completes the command line by.
pub(super) fn completions(mut command: Command, shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "data-server", &mut text);
    text
}

/// The manual page in roff, with the commands in it: by itself the library refers to a page of each.
pub(super) fn manual(mut command: Command) -> Vec<u8> {
    command.build();
    let mut rest = Roff::new();
    rest.control("SH", ["COMMANDS"]);
    add_commands(&command, &mut rest);
    rest.control("SH", ["ENVIRONMENT"]);
    rest.text([roman(VALUES)]);
    for option in command.get_arguments() {
        if let (Some(variable), Some(name)) = (option.get_env(), option.get_long()) {
            rest.control("TP", []);
            rest.text([bold(variable.to_string_lossy())]);
            rest.text([roman(format!("--{name}"))]);
        }
    }
    rest.control("SH", ["OUTPUT"]);
    rest.text([roman(OUTPUT)]);
    add_table("FILES", FILES, &mut rest);
    add_table("EXIT STATUS", EXIT_STATUS, &mut rest);
    rest.control("SH", ["EXAMPLES"]);
    for line in EXAMPLES.lines() {
        rest.control("PP", []);
        rest.text([bold(line.trim())]);
    }
    rest.control("SH", ["SEE ALSO"]);
    rest.text([roman("curl(1), systemd.service(5), systemd.socket(5)")]);
    let page = Man::new(command);
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = page
        .render_title(&mut text)
        .and_then(|()| page.render_name_section(&mut text))
        .and_then(|()| page.render_synopsis_section(&mut text))
        .and_then(|()| page.render_description_section(&mut text))
        .and_then(|()| page.render_options_section(&mut text))
        .and_then(|()| rest.to_writer(&mut text));
    text
}

/// A section of terms and what they mean.
fn add_table(title: &str, rows: &[(&str, &str)], page: &mut Roff) {
    page.control("SH", [title]);
    for (term, meaning) in rows {
        page.control("TP", []);
        page.text([bold(*term)]);
        page.text([roman(*meaning)]);
    }
}

/// The commands below `command` that have none below them: how each is used, and what it does.
fn add_commands(command: &Command, page: &mut Roff) {
    for command in command.get_subcommands() {
        if command.has_subcommands() {
            add_commands(command, page);
            continue;
        }
        let usage = command.clone().render_usage().to_string();
        let about = command.get_about().map(ToString::to_string);
        page.control("TP", []);
        page.text([bold(usage.trim_start_matches("Usage: "))]);
        page.text([roman(about.unwrap_or_default())]);
    }
}
