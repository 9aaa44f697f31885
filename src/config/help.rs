//! What the help and the manual say beside the options, which options a short help has, and which word was meant.

use std::fmt::Write as _;

use clap::{Arg, Command};

/// The options that most people need: `-h` has these alone.
const COMMON: [&str; 15] = [
    "dir",
    "listen",
    "threads",
    "config",
    "read-only",
    "allow-anonymous",
    "access",
    "tls-cert",
    "tls-key",
    "durability",
    "max-body",
    "store",
    "compat",
    "access-log",
    "log-format",
];

/// How values are written, and which wins.
pub(super) const VALUES: &str = "\
Sizes are bytes or carry a unit (64MiB, 1GB); durations carry one (10s, 500ms, 2m). An option on the command line wins over \
its variable, and that over the file of --config. As a variable, a switch is off when it is empty, 0, false, no or off.";

/// What the server writes where.
pub(super) const OUTPUT: &str = "\
On standard output the server writes a line for each place, once it serves: 'listening on http://ADDR:PORT'. Logs go to \
standard error.";

/// Files that the server has or reads.
pub(super) const FILES: &[(&str, &str)] = &[
    (
        "DIR/.data-server/",
        "The server's own files: uploads that are not finished, the journal, the lock.",
    ),
    (
        "/etc/data-server/data-server.toml",
        "The file of options that the shipped systemd unit names in DATA_SERVER_CONFIG.",
    ),
];

/// What the process ends with.
pub(super) const EXIT_STATUS: &[(&str, &str)] = &[
    (
        "0",
        "drained after a signal, or the answer of a command is yes",
    ),
    ("1", "any other failure, or a second signal"),
    ("2", "the command line or the configuration file is wrong"),
    ("3", "another server has the directory"),
    ("4", "the address cannot be listened on"),
];

/// Command lines to begin with.
pub(super) const EXAMPLES: &str = "  data-server ./values
  data-server --threads 32 --dir /srv/values --durability disk
  curl -T file http://127.0.0.1:8080/key
  curl http://127.0.0.1:8080/key
  data-server config check /etc/data-server/data-server.toml
  data-server health http://127.0.0.1:8080
  data-server access explain access.toml alice GET /alice/key
  data-server check-store --store s3://BUCKET --s3-endpoint http://127.0.0.1:7070";

/// The command line with its help.
pub(super) fn helpful(command: Command) -> Command {
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
            Some(name) if !COMMON.contains(&name) => option.hide_short_help(true),
            _ => shortened(option),
        })
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

/// The one of `names` that `given` may be meant for.
pub(super) fn nearest<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    /// As similar as clap wants words to be.
    const SIMILAR: f64 = 0.8;
    names
        .map(|name| (strsim::jaro_winkler(given, name), name))
        .filter(|(similarity, _)| *similarity > SIMILAR)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| name)
}
