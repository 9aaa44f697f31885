//! Options of TLS.

use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};

use super::BadConfig;
use crate::net::{ClientAuthority, Identity, TlsOptions};

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "TLS")]
pub struct Tls {
    /// Certificate chain in PEM, the server's first; repeat it, with a --tls-key each, to serve several names (SNI):
    /// the first is the default. SIGHUP rereads them
    #[arg(
        long = "tls-cert",
        value_name = "FILE",
        env = "DATA_SERVER_TLS_CERT",
        value_delimiter = ','
    )]
    cert: Vec<PathBuf>,

    /// Its private key, in PEM
    #[arg(
        long = "tls-key",
        value_name = "FILE",
        env = "DATA_SERVER_TLS_KEY",
        value_delimiter = ','
    )]
    key: Vec<PathBuf>,

    /// Certificates, in PEM, that those of clients must be issued by
    #[arg(
        long = "tls-client-ca",
        value_name = "FILE",
        env = "DATA_SERVER_TLS_CLIENT_CA"
    )]
    client_ca: Option<PathBuf>,

    /// Whether a client must have a certificate
    #[arg(
        long = "tls-client-auth",
        value_name = "WHETHER",
        env = "DATA_SERVER_TLS_CLIENT_AUTH",
        default_value = "require"
    )]
    client_auth: ClientAuth,

    /// Make a certificate at the start, for the names of --listen and --allowed-host, and log its fingerprint: to try
    /// TLS out
    #[arg(long = "tls-self-signed", env = "DATA_SERVER_TLS_SELF_SIGNED", value_parser = FalseyValueParser::new())]
    self_signed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ClientAuth {
    Require,
    Allow,
}

impl Tls {
    /// The certificates for a server with a place for TLS, or without; with a certificate of its own, of these `names`.
    pub fn options<'a>(
        &self,
        is_wanted: bool,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<Option<TlsOptions>, BadConfig> {
        let given = |files: &[PathBuf]| {
            // A variable that is empty gives one empty name.
            let files = files.iter().filter(|file| !file.as_os_str().is_empty());
            files.cloned().collect::<Vec<_>>()
        };
        let (certificates, keys) = (given(&self.cert), given(&self.key));
        if certificates.len() != keys.len() {
            return Err(BadConfig::Tls("give as many --tls-key as --tls-cert"));
        }
        let identity = match (certificates.is_empty(), self.self_signed) {
            (false, true) => {
                return Err(BadConfig::Tls(
                    "--tls-self-signed and --tls-cert exclude each other",
                ));
            }
            (false, false) => Identity::Files(certificates.into_iter().zip(keys).collect()),
            (true, true) => Identity::SelfSigned(own_names(names)),
            (true, false) if is_wanted => {
                return Err(BadConfig::Tls(
                    "--listen https://...: give --tls-cert and --tls-key, or --tls-self-signed",
                ));
            }
            (true, false) => return Ok(None),
        };
        if !is_wanted {
            return Err(BadConfig::Tls(
                "there is a certificate, and no place to show it: give --listen https://ADDR:PORT",
            ));
        }
        let clients = self.client_ca.clone().map(|file| ClientAuthority {
            file,
            is_required: self.client_auth == ClientAuth::Require,
        });
        Ok(Some(TlsOptions { identity, clients }))
    }
}

/// The names that a certificate can have of `names`, and those of the loopback network.
fn own_names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let names = names.map(|name| name.trim_matches(['[', ']']));
    let names = names.filter(|name| !matches!(*name, "" | "*" | "0.0.0.0" | "::"));
    let all = ["localhost", "127.0.0.1", "::1"].into_iter().chain(names);
    let mut unique: Vec<String> = Vec::new();
    for name in all.map(str::to_owned) {
        if !unique.contains(&name) {
            unique.push(name);
        }
    }
    unique
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_made_of_each_name_once() {
        let names = ["127.0.0.1", "[::1]", "*", "0.0.0.0", "store.example", ""];
        let expected = ["localhost", "127.0.0.1", "::1", "store.example"];
        assert_eq!(own_names(names.into_iter()), expected);
    }
}
