//! Options that print what is made of the command line itself, instead of serving.

use clap::{Args, Command};
use clap_complete::Shell;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Instead of serving")]
pub(super) struct Print {
    /// Print completions for this shell
    #[arg(long, value_name = "SHELL")]
    completions: Option<Shell>,

    /// Print the manual page, in roff
    #[arg(long)]
    man: bool,
}

impl Print {
    /// The text to print of `command`, if one was asked for.
    pub(super) fn text(&self, mut command: Command) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        if let Some(shell) = self.completions {
            clap_complete::generate(shell, &mut command, "data-server", &mut text);
        } else if self.man {
            // Writing to memory does not fail.
            let _ = clap_mangen::Man::new(command).render(&mut text);
        } else {
            return None;
        }
        Some(text)
    }
}
