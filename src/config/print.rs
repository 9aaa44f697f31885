//! What is done instead of serving: printing what is made of the command line itself, and commands.

use clap::{Args, Command, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Instead of serving")]
pub(super) struct Print {
    /// Print completions for this shell
    #[arg(long, value_name = "SHELL")]
    completions: Option<Shell>,

    /// Print the manual page, in roff
    #[arg(long)]
    man: bool,

    /// What to do instead of serving
    #[arg(value_name = "COMMAND", requires = "store")]
    job: Option<Job>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Job {
    /// Try at length what the S3 store does, through every endpoint, and print a line for each thing; 0 where it can be served, else 1
    CheckStore,
}

impl Print {
    /// Whether the store is to be tried.
    pub(super) fn checks_store(&self) -> bool {
        self.job == Some(Job::CheckStore)
    }

    /// The text to print of `command`, if one was asked for.
    pub(super) fn text(&self, mut command: Command) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        if let Some(shell) = self.completions {
            clap_complete::generate(shell, &mut command, "data-server", &mut text);
        } else if self.man {
            // Writing to memory does not fail.
            let _ = manual(command, &mut text);
        } else {
            return None;
        }
        Some(text)
    }
}

/// One page, with the commands in it: by itself the library refers to a page of each.
fn manual(mut command: Command, text: &mut Vec<u8>) -> std::io::Result<()> {
    command.build();
    let mut commands = Roff::new();
    commands.control("SH", ["COMMANDS"]);
    add_commands(&command, &mut commands);
    let page = Man::new(command);
    page.render_title(text)?;
    page.render_name_section(text)?;
    page.render_synopsis_section(text)?;
    page.render_description_section(text)?;
    page.render_options_section(text)?;
    commands.to_writer(text)?;
    page.render_extra_section(text)
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
