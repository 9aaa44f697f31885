//! Options that print what is made of the command line itself, instead of serving.

use clap::{Args, CommandFactory};
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

impl super::Args {
    /// What is to be printed instead of serving, if that was asked for.
    pub fn printed(&self) -> Option<Vec<u8>> {
        let mut command = Self::command();
        let mut text = Vec::new();
        if let Some(shell) = self.print.completions {
            clap_complete::generate(shell, &mut command, "data-server", &mut text);
        } else if self.print.man {
            // Writing to memory does not fail.
            let _ = clap_mangen::Man::new(command).render(&mut text);
        } else {
            return None;
        }
        Some(text)
    }
}
