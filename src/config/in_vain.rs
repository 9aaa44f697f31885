//! What is given and has no effect: options that another one makes idle, and variables that no option has.

use std::env;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use super::help::nearest;
use crate::failpoint;

/// Options, the one that makes them idle, whether it does, and how that is said.
type Idle = (
    &'static [&'static str],
    fn(&ArgMatches) -> bool,
    &'static str,
);

const IDLE: [Idle; 4] = [
    (
        &["access_log_format"],
        |given| !given.get_flag("access_log"),
        "without --access-log",
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

/// What variables begin with that are options.
const PREFIX: &str = "DATA_SERVER_";

/// One sentence for each thing that was given in vain.
pub(super) fn warnings(given: &ArgMatches, command: &Command) -> Vec<String> {
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

fn is_given(given: &ArgMatches, option: &str) -> bool {
    let source = given.value_source(option);
    source.is_some_and(|source| source != ValueSource::DefaultValue)
}

/// What is wrong with a variable that looks like an option's and is none.
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
