//! Options of who may do what.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Access")]
pub(super) struct AccessOptions {
    /// File of who may do what, in TOML: subjects with tokens and passwords, and rules by prefix of keys. What no rule
    /// allows is refused. SIGHUP rereads it
    #[arg(long, value_name = "FILE", env = "DATA_SERVER_ACCESS")]
    access: Option<PathBuf>,
}

impl AccessOptions {
    /// The file, if there is one. A variable that is empty gives an empty name.
    pub(super) fn file(&self) -> Option<PathBuf> {
        self.access
            .clone()
            .filter(|file| !file.as_os_str().is_empty())
    }
}
