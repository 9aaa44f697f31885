//! Texts for people: the help, the manual page, the completions, and warnings about options without effect.
//!
//! Owns which options the short help has, and the variable of each option. It defines no option: the options come from
//! the command that clap builds.

use std::env;
use std::fmt::Write as _;

use clap::builder::FalseyValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::mistakes::nearest;
use crate::failpoint;

/// The options that most people need: `-h` has only these.
const COMMON: &str = "dir listen share hide threads config read-only allow-anonymous access tls-cert tls-key durability max-body store compat \
    access-log log-format";

/// The prefix of variables that are options.
pub const PREFIX: &str = "DATA_SERVER_";

/// The forms of values, and the order of precedence.
pub const VALUES: &str = "\
Sizes are bytes or carry a unit (64MiB, 1GB); durations carry one (10s, 500ms, 2m). An option on the command line wins over \
its variable, and that over the file of --config. As a variable, a switch is off when it is empty, 0, false, no or off.";

/// The outputs of the server.
pub const OUTPUT: &str = "\
On standard output the server writes a line for each listener, once it serves: 'listening on http://ADDR:PORT'. Logs go to \
standard error.";

/// Files that the server has or reads.
pub const FILES: &[(&str, &str)] = &[
    (
        "DIR/.data-server/",
        "The server's own files: unfinished uploads, the journal, the lock.",
    ),
    (
        "/etc/data-server/data-server.toml",
        "The file of options that the shipped systemd unit names in DATA_SERVER_CONFIG.",
    ),
];

/// The signals that a server knows.
const SIGNALS: &[(&str, &str)] = &[
    (
        "SIGTERM, SIGINT, SIGQUIT",
        "Finishes requests in flight, for at most --grace-period, and exits; a second signal exits at once.",
    ),
    (
        "SIGHUP",
        "Rereads certificates and the access file; data-server reload does the same and reports the result.",
    ),
    ("SIGUSR1, SIGUSR2", "Are ignored."),
];

/// The exit statuses of the process.
pub const EXIT_STATUS: &[(&str, &str)] = &[
    (
        "0",
        "drained after a signal, or a command or check succeeded",
    ),
    ("1", "any other failure, or a second signal"),
    ("2", "the command line or the configuration file is wrong"),
    ("3", "another server has the directory"),
    ("4", "the address cannot be listened on"),
];

/// Command lines to begin with.
pub const EXAMPLES: &str = "  data-server ./values
  data-server --threads 32 --dir /srv/values --durability disk
  curl -T file http://127.0.0.1:8080/key
  curl http://127.0.0.1:8080/key
  data-server config check /etc/data-server/data-server.toml
  data-server health http://127.0.0.1:8080
  data-server access explain access.toml alice GET /alice/key
  data-server check-store --store s3://BUCKET --s3-endpoint http://127.0.0.1:7070";

/// The command line with its help.
pub fn helpful(command: Command) -> Command {
    let all = command.get_arguments().count();
    let short = format!("Examples:\n{EXAMPLES}\n\n--help has all {all} options.");
    let mut long = format!("{VALUES}\n\n{OUTPUT}\n\nExit status:\n");
    for (code, meaning) in EXIT_STATUS {
        let _ = writeln!(long, "  {code}  {meaning}");
    }
    let _ = write!(long, "\nExamples:\n{EXAMPLES}");
    command
        .after_help(short)
        .after_long_help(long)
        .mut_args(|option| match option.get_long() {
            Some(name) if !COMMON.split(' ').any(|common| common == name) => {
                option.hide_short_help(true)
            }
            _ => shortened(option),
        })
}

/// The option with its variable: `DATA_SERVER_` and its name. The variable of a switch may turn the switch off.
pub fn with_variable(option: Arg) -> Arg {
    let Some(name) = option.get_long() else {
        return option;
    };
    // Made a few times in the life of a process.
    let variable = format!("{PREFIX}{}", name.to_uppercase().replace('-', "_")).leak();
    let option = option.env(&*variable);
    if option.get_action().takes_values() {
        option
    } else {
        option.value_parser(FalseyValueParser::new())
    }
}

/// The option with the beginning of its help in the short help.
fn shortened(option: Arg) -> Arg {
    let Some(help) = option.get_help().map(ToString::to_string) else {
        return option;
    };
    let text = help.split(" [default").next().unwrap_or(&help);
    let ends = ["; ", ". ", ": "].map(|end| text.find(end).unwrap_or(text.len()));
    let end = ends.into_iter().min().unwrap_or(text.len());
    let short = text[..end].to_owned();
    option.help(short).long_help(help)
}

/// Faults of the generated completions, and their replacements.
const MENDS: [(&str, &str); 4] = [
    // bash: where the program's name has a hyphen, the state behind a command has two names, and nothing is completed
    // there (https://github.com/clap-rs/clap/issues/6421).
    ("data__subcmd__server", "data__server"),
    // bash: in --durability=disk the = is a word of its own.
    (
        "prev=\"$3\"\n",
        "prev=\"$3\"\n    [[ $prev != = ]] || prev=\"${COMP_WORDS[COMP_CWORD-2]}\"\n",
    ),
    // fish: an option that lacks its value fails, and so its values are not offered.
    (
        "2>/dev/null\n    or return\n",
        "2>/dev/null\n    or return 0\n",
    ),
    // zsh: a command or a directory comes first.
    (
        "\":: :_data-server_commands\"",
        "\":: :{_data-server_commands; _directories}\"",
    ),
];

/// The script by which `shell` completes the command line.
pub fn completions(command: &Command, shell: Shell) -> Vec<u8> {
    // Without the argument DIR: for zsh a command would be taken for the directory, and commands be offered again.
    let mut command = Command::new("data-server")
        .version(env!("CARGO_PKG_VERSION"))
        .args(command.get_opts())
        .subcommands(command.get_subcommands());
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "data-server", &mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    let mended = MENDS
        .iter()
        .fold(text, |text, (fault, right)| text.replace(fault, right));
    mended.into_bytes()
}

/// The manual page in roff, with the commands in it: by default the library refers to a page for each command.
pub fn manual(command: Command) -> Vec<u8> {
    // The library leaves out options that the short help hides.
    let mut command = command.mut_args(|option| option.hide_short_help(false));
    command.build();
    let mut rest = Roff::new();
    rest.control("SH", ["COMMANDS"]);
    add_commands(&command, &mut rest);
    add_text("ENVIRONMENT", VALUES, &mut rest);
    for option in command.get_arguments() {
        if let (Some(variable), Some(name)) = (option.get_env(), option.get_long()) {
            add_row(variable.to_string_lossy(), format!("--{name}"), &mut rest);
        }
    }
    add_text("OUTPUT", OUTPUT, &mut rest);
    for (title, rows) in [
        ("SIGNALS", SIGNALS),
        ("FILES", FILES),
        ("EXIT STATUS", EXIT_STATUS),
    ] {
        rest.control("SH", [title]);
        for (term, meaning) in rows {
            add_row(*term, *meaning, &mut rest);
        }
    }
    rest.control("SH", ["EXAMPLES"]);
    for line in EXAMPLES.lines() {
        rest.control("PP", []);
        rest.text([bold(line.trim())]);
    }
    let others = concat!(
        "curl(1), systemd.service(5), systemd.socket(5), ",
        env!("CARGO_PKG_REPOSITORY")
    );
    add_text("SEE ALSO", others, &mut rest);
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

/// A section of one paragraph.
fn add_text(title: &str, text: &str, page: &mut Roff) {
    page.control("SH", [title]);
    page.text([roman(text)]);
}

/// A term and what it means.
fn add_row(term: impl Into<String>, meaning: impl Into<String>, page: &mut Roff) {
    page.control("TP", []);
    page.text([bold(term)]);
    page.text([roman(meaning)]);
}

/// The leaf commands below `command`: usage, description and options of each.
fn add_commands(command: &Command, page: &mut Roff) {
    let is_own = |command: &&Command| command.get_name() != "help";
    for command in command.get_subcommands().filter(is_own) {
        if command.has_subcommands() {
            add_commands(command, page);
        } else {
            let usage = command.clone().render_usage().to_string();
            let about = command.get_about().map(ToString::to_string);
            let usage = usage.trim_start_matches("Usage: ");
            add_row(usage, about.unwrap_or_default(), page);
            page.control("RS", []);
            command
                .get_arguments()
                .for_each(|option| add_option(option, page));
            page.control("RE", []);
        }
    }
}

/// An option of a command: its name, its default, and what it does.
fn add_option(option: &Arg, page: &mut Roff) {
    let Some(help) = option.get_help().filter(|_| option.get_id() != "help") else {
        return;
    };
    let takes_value = option.get_action().takes_values();
    let default = option.get_default_values().first();
    let default = default
        .filter(|_| takes_value)
        .map(|value| format!(" [default: {}]", value.to_string_lossy()));
    page.control("TP", []);
    page.text([bold(option.to_string()), roman(default.unwrap_or_default())]);
    page.text([roman(help.to_string())]);
}

/// True where the command line or the environment gives this option.
pub fn is_given(given: &ArgMatches, option: &str) -> bool {
    let source = given.value_source(option);
    matches!(
        source,
        Some(ValueSource::CommandLine | ValueSource::EnvVariable)
    )
}

/// Options, whether they have no effect beside the other options, and the reason in words.
type Idle = (&'static str, fn(&ArgMatches) -> bool, &'static str);

const IDLE: [Idle; 5] = [
    (
        "access_log_format",
        |given| !given.get_flag("access_log") && !given.get_flag("audit_log"),
        "without --access-log or --audit-log",
    ),
    (
        "journal journal_dir journal_size",
        |given| {
            let durability = given
                .get_raw("durability")
                .and_then(|mut words| words.next());
            durability.is_none_or(|word| word != "disk")
        },
        "without --durability disk",
    ),
    (
        "max_body max_staged max_staged_per_client max_uploads_per_client upload_expiry min_free max_key_depth max_size \
         bound evict_existing",
        |given| given.get_flag("read_only"),
        "with --read-only",
    ),
    (
        "site title",
        |given| given.get_flag("compat"),
        "with --compat",
    ),
    (
        "interim upload_expiry",
        |given| given.contains_id("store"),
        "with --store",
    ),
];

/// A warning for each option and variable without effect.
pub fn warnings(given: &ArgMatches, command: &Command) -> Vec<String> {
    let idle = IDLE.iter().filter(|(_, is_idle, _)| is_idle(given));
    let idle = idle.flat_map(|(options, _, why)| {
        let vain = options.split(' ').filter(|option| is_given(given, option));
        vain.map(move |option| format!("--{} has no effect {why}", option.replace('_', "-")))
    });
    let variables = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut unknown: Vec<_> = variables
        .filter_map(|name| unknown_variable(&name, command))
        .collect();
    unknown.sort();
    idle.chain(unknown).collect()
}

/// The warning about a variable with the prefix of options that names no option.
fn unknown_variable(name: &str, command: &Command) -> Option<String> {
    let rest = name.strip_prefix(PREFIX)?;
    let options = || {
        command
            .get_arguments()
            .filter_map(|option| option.get_env()?.to_str())
    };
    let mut for_tests = failpoint::VARIABLES.split_whitespace();
    let is_known = options().any(|option| option == name) || for_tests.any(|known| known == rest);
    if is_known || is_of_kubernetes(rest) {
        return None;
    }
    let meant = nearest(name, options()).map(|meant| format!("; did you mean {meant}?"));
    Some(format!(
        "the variable {name} is no option{}",
        meant.unwrap_or_default()
    ))
}

/// Kubernetes gives each container variables of this form for a service named data-server.
fn is_of_kubernetes(rest: &str) -> bool {
    rest == "PORT" || rest.starts_with("PORT_") || rest.starts_with("SERVICE_")
}
