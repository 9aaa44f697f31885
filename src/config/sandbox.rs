//! The option of the sandbox, and what a server with these options may do in it.
//!
//! Pure data: `sandbox` gives up the rights. What an S3 store needs beside it depends on the environment, and the server adds it.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::ListenConfig;
use crate::net::{At, Dispatch, Identity, TlsOptions};
use crate::sandbox::{Allowed, Mode};

/// Whether rights are given up, and which are kept.
#[derive(Clone, Debug)]
pub struct SandboxConfig {
    /// Whether they are.
    pub mode: Mode,
    /// Those that are kept.
    pub allowed: Allowed,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Sandbox")]
pub struct Sandbox {
    /// Give up all rights to files and the network that serving does not need, by Landlock: as far as the kernel can
    /// (auto), or refuse to start where it cannot (require), or not (off)
    #[arg(
        long = "sandbox",
        value_name = "HOW",
        env = "DATA_SERVER_SANDBOX",
        default_value = "auto"
    )]
    how: How,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum How {
    Auto,
    Require,
    Off,
}

impl Sandbox {
    /// The rights of a server with these options and these directories, which may be only read; it reads the `others` again when it
    /// is told to.
    pub fn config(
        &self,
        directories: Vec<PathBuf>,
        read_only: bool,
        listen: &ListenConfig,
        tls: Option<&TlsOptions>,
        others: impl IntoIterator<Item = PathBuf>,
    ) -> SandboxConfig {
        let mode = match self.how {
            How::Auto => Mode::Auto,
            How::Require => Mode::Require,
            How::Off => Mode::Off,
        };
        let places = || listen.at.iter().chain(&listen.admin);
        let socket = |at: &At| match at {
            At::Unix(path) => Some(path.clone()),
            At::Address(_) | At::Fd(_) => None,
        };
        let sockets = places().filter_map(|listen| socket(&listen.at));
        let (values, read) = if read_only {
            (Vec::new(), directories)
        } else {
            (directories, Vec::new())
        };
        let allowed = Allowed {
            values,
            read,
            reread: tls.into_iter().flat_map(files).chain(others).collect(),
            sockets: sockets.collect(),
            connect: Vec::new(),
            bind: ports(listen),
        };
        SandboxConfig { mode, allowed }
    }
}

/// The ports that it listens on. Where reactors share one that the kernel picks, the others need what was picked for the first.
fn ports(listen: &ListenConfig) -> Option<Vec<u16>> {
    let mut ports = Vec::new();
    for listen in listen.at.iter().chain(&listen.admin) {
        if let At::Address(address) = listen.at {
            ports.push(address.port());
        }
    }
    let is_picked_once = listen.dispatch != Dispatch::ReusePort || !ports.contains(&0);
    is_picked_once.then_some(ports)
}

/// The files that TLS is made of.
fn files(options: &TlsOptions) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = match &options.identity {
        Identity::Files(pairs) => pairs
            .iter()
            .flat_map(|(certificate, key)| [certificate.clone(), key.clone()])
            .collect(),
        Identity::SelfSigned(_) => Vec::new(),
    };
    files.extend(options.clients.iter().map(|clients| clients.file.clone()));
    files
}

#[cfg(test)]
mod tests {
    use super::super::{Args, Config};
    use super::*;
    use clap::Parser as _;

    fn allowed(options: &[&str]) -> Allowed {
        let words = ["data-server", "--dir", "/values"];
        let words = words.iter().chain(options);
        let args = Args::try_parse_from(words).unwrap();
        Config::try_from(args).unwrap().sandbox.allowed
    }

    #[test]
    fn what_is_allowed_is_what_the_options_name() {
        let sealed = [
            "--listen",
            "https://127.0.0.1:8443",
            "--listen",
            "unix:/run/socket",
        ];
        let files = [
            "--tls-cert",
            "/c/chain",
            "--tls-key",
            "/k/key",
            "--tls-client-ca",
            "/a/ca",
        ];
        let admin = ["--admin", "127.0.0.1:0"];
        let all = [&sealed[..], &files, &admin].concat();
        let path = |path: &str| PathBuf::from(path);
        let expected = Allowed {
            values: vec![path("/values")],
            reread: vec![path("/c/chain"), path("/k/key"), path("/a/ca")],
            sockets: vec![path("/run/socket")],
            bind: Some(vec![8443, 0]),
            ..Allowed::default()
        };
        assert_eq!(allowed(&all), expected);
    }

    #[test]
    fn a_directory_that_is_only_read_is_only_read() {
        let expected = Allowed {
            read: vec![PathBuf::from("/values")],
            bind: Some(vec![8080]),
            ..Allowed::default()
        };
        assert_eq!(allowed(&["--read-only"]), expected);
    }

    #[test]
    fn a_port_that_is_picked_for_several_reactors_is_not_known() {
        let shared = ["--dispatch", "reuse-port", "--listen"];
        assert_eq!(
            allowed(&[&shared[..], &["127.0.0.1:0"]].concat()).bind,
            None
        );
        let named = allowed(&[&shared[..], &["127.0.0.1:80"]].concat()).bind;
        assert_eq!(named, Some(vec![80]));
    }
}
