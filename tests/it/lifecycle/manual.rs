//! Proves the manual page and the completions: they have every command and option, with its text and its values.

use clap::{Arg, Command as Clap, CommandFactory};
use data_server::Args;

use crate::support::prelude::*;

/// The output of a command that prints and ends.
fn printed(words: &[&str]) -> String {
    let ended = Launch::new(words).bare().run();
    ended.printed().to_owned()
}

/// Every command with the words that lead to it, the program itself first. What clap adds for help is left out.
fn commands() -> Vec<(Vec<String>, Clap)> {
    fn add(path: &[String], command: &Clap, all: &mut Vec<(Vec<String>, Clap)>) {
        all.push((path.to_vec(), command.clone()));
        for below in command.get_subcommands().filter(|c| c.get_name() != "help") {
            add(&[path, &[below.get_name().to_owned()]].concat(), below, all);
        }
    }
    let mut program = Args::command();
    program.build();
    let mut all = Vec::new();
    add(&[], &program, &mut all);
    assert!(all.len() > 15, "{all:?}");
    all
}

/// The options and arguments of `command`, without those for help.
fn own_options(command: &Clap) -> impl Iterator<Item = &Arg> {
    let is_of_clap = |option: &&Arg| ["help", "version"].contains(&option.get_id().as_str());
    let options = command.get_arguments();
    options.filter(move |option| !is_of_clap(option))
}

/// The text of `page` as it is shown.
fn plain(page: &str) -> String {
    let page = page.replace("\\-", "-").replace("\\*(Aq", "'");
    let marks = ["\\fB", "\\fI", "\\fR", "\\&"];
    marks.iter().fold(page, |page, mark| page.replace(mark, ""))
}

#[test]
fn the_manual_page_has_the_text_of_every_command_and_option() {
    let page = plain(&printed(&["man"]));
    assert!(page.contains(".TH data-server 1"), "{page}");
    let entries = page
        .split(".TP\n")
        .filter_map(|entry| entry.split_once('\n'));
    let entries: Vec<(&str, &str)> = entries.collect();
    let has = |term: &str, text: &str| {
        let is_it = |(head, body): &&(&str, &str)| head.starts_with(term) && body.starts_with(text);
        let is_there = entries.iter().any(|entry| is_it(&entry));
        assert!(!text.is_empty() && is_there, "{term}: {text}");
    };
    for (path, command) in commands() {
        let usage = [&["data-server".to_owned()], &path[..]].concat().join(" ");
        if !path.is_empty() && !command.has_subcommands() {
            let about = command.get_about().expect("what it does");
            has(&usage, &about.to_string());
        }
        for option in own_options(&command) {
            let long = option.get_long().map(|name| format!("--{name}"));
            let name = option.get_value_names().map(|names| names[0].to_string());
            let bracketed = name.map(|name| {
                if option.is_required_set() {
                    format!("<{name}>")
                } else {
                    format!("[{name}]")
                }
            });
            let help = option.get_help().expect("a text").to_string();
            has(&long.or(bracketed).expect("a name"), &help);
            if let Some(variable) = option.get_env().filter(|_| path.is_empty()) {
                has(variable.to_str().expect("text"), "--");
            }
        }
    }
    assert!(!page.contains("data-server help") && !page.contains("config help"));
    for section in words("ENVIRONMENT SIGNALS FILES EXAMPLES") {
        assert!(page.contains(&format!(".SH {section}\n")), "{section}");
    }
    for section in ["EXIT STATUS", "SEE ALSO"] {
        assert!(page.contains(&format!(".SH \"{section}\"\n")), "{section}");
    }
    let unit = include_str!("../../../src/assets/data-server.service");
    let mut lines = unit.lines();
    let named = lines.find_map(|line| line.strip_prefix("Environment=DATA_SERVER_CONFIG="));
    let named = named.expect("the file of options that the unit names");
    assert!(page.contains(named), "another file than {named}");
}

/// What stands behind `data-server` before the cursor, and what a shell has to offer there; one that `has_arguments`
/// knows the values of arguments too.
fn offers(has_arguments: bool) -> Vec<(Vec<String>, BTreeSet<String>)> {
    let mut all = Vec::new();
    for (path, command) in commands() {
        let at = |last: &[&str]| {
            let last = last.iter().map(ToString::to_string);
            path.iter().cloned().chain(last).collect()
        };
        let options = own_options(&command).filter_map(Arg::get_long);
        let options = options.map(|name| format!("--{name}"));
        all.push((at(&["--"]), options.collect()));
        let own = own_options(&command).filter(|option| has_arguments && option.is_positional());
        let values = own.flat_map(Arg::get_possible_values);
        let values = values.map(|value| value.get_name().to_owned());
        let names = command.get_subcommands();
        let names = names.map(|command| command.get_name().to_owned());
        all.push((at(&[""]), values.chain(names).collect()));
        for option in own_options(&command).filter(|option| !option.is_positional()) {
            let values = option.get_possible_values();
            let values = values.iter().map(|value| value.get_name().to_owned());
            let values: BTreeSet<_> = values.collect();
            if option.get_action().takes_values() && !values.is_empty() {
                let option = format!("--{}", option.get_long().expect("a name"));
                if has_arguments {
                    // bash takes the = for a word.
                    all.push((at(&[&option, "=", ""]), values.clone()));
                }
                all.push((at(&[&option, ""]), values));
            }
        }
    }
    all.retain(|(_, offered)| !offered.is_empty());
    assert!(all.len() > 15, "{all:?}");
    all
}

/// Has `shell` complete each of `offers`: `script`, which ends with what completes the words of `$1`, on one line.
#[track_caller]
fn assert_completes(shell: &str, script: &str) {
    if !is_on_path(shell) {
        return left_out("completion by its shell", &format!("there is no {shell}"));
    }
    let place = TempDir::new().expect("a directory");
    let file = place.path().join("completions");
    fs::write(&file, printed(&["completions", shell])).expect("a file");
    for (before, expected) in offers(shell != "fish") {
        let mut command = Command::new(shell);
        let command = command.args(["-c", script]).env("COMPLETIONS", &file);
        let command = command.env("HOME", place.path()).current_dir(place.path());
        // bash takes the word between the script and its arguments for its name.
        let command = command.arg("--").args(&before).stdin(Stdio::null());
        let output = command.output().expect("the shell runs");
        let offered = String::from_utf8_lossy(&output.stdout).into_owned();
        let offered = offered.lines().filter_map(|line| line.split('\t').next());
        let offered: BTreeSet<String> = offered.map(str::to_owned).collect();
        let missing: Vec<_> = expected.difference(&offered).collect();
        let what = format!("{shell}: {before:?}: {missing:?} of {offered:?}");
        assert!(missing.is_empty(), "{what}");
    }
}

#[test]
fn bash_and_fish_complete_every_command_option_and_value() {
    assert_completes(
        "bash",
        r#". "$COMPLETIONS"; COMP_WORDS=(data-server "$@"); COMP_CWORD=$#
        f=$(complete -p data-server | grep -o -- '-F [^ ]*'); "${f#-F }" data-server "${@: -1}" "${COMP_WORDS[-2]}"
        printf '%s\n' "${COMPREPLY[@]}""#,
    );
    let fish = r#"source "$COMPLETIONS"; complete -C "data-server $argv""#;
    assert_completes("fish", fish);
}

#[test]
fn completions_for_every_shell_name_every_option() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = printed(&["completions", shell]);
        for (_, command) in commands() {
            for name in own_options(&command).filter_map(Arg::get_long) {
                assert!(script.contains(name), "{name} in {shell}");
            }
            assert!(script.contains(command.get_name()), "{shell}");
        }
    }
    // Behind a directory zsh would offer commands where a command has been given.
    assert!(!printed(&["completions", "zsh"]).contains("$line[2]"));
    let seen = Launch::new(&["completions", "sh"]).bare().run().code;
    assert_eq!(seen, Some(2));
}
