//! Security: the options of TLS, the rights that a process with these options keeps, and which listeners are allowed
//! without an access file.
//!
//! Pure data: `sandbox` gives up the rights. The server adds the rights that an S3 store needs, which depend on the
//! environment.

use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::file::ConfigError;
use super::mistakes::one_of;
use crate::access::Right;
use crate::http::{Door, ServiceConfig};
use crate::net::{
    ClientAuthority, Dispatch, Listen, ListenAddress, ServerCertificates, TlsOptions,
};
use crate::sandbox::Allowed;

/// What `--share` lets everybody do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Read.
    Read,
    /// Read, and store what replaces nothing.
    Upload,
}

impl Sharing {
    /// The rights of everybody.
    pub fn rights(self) -> &'static [Right] {
        const RIGHTS: [Right; 4] = [Right::Read, Right::List, Right::Watch, Right::Create];
        match self {
            Self::Read => &RIGHTS[..3],
            Self::Upload => &RIGHTS,
        }
    }
}

/// The places where clients connect.
#[derive(Clone, Debug)]
pub struct ListenConfig {
    /// Where to listen: at least one place.
    pub at: Vec<Listen>,
    /// The listener of `--admin`.
    pub admin: Option<Listen>,
    /// The way that connections come to reactors.
    pub dispatch: Dispatch,
    /// True where `--allow-anonymous` lets anyone who reaches the server change values.
    pub allow_anonymous: bool,
}

impl ListenConfig {
    /// True if a listener has TLS.
    pub fn has_tls(&self) -> bool {
        self.at.iter().chain(&self.admin).any(|at| at.by_tls)
    }

    /// Refuses places of the doors that need folders beside what has none, or stores nothing, and for metrics.
    pub fn check_doors(&self, has_store: bool, service: &ServiceConfig) -> Result<(), ConfigError> {
        let excluding = [
            ("--store", has_store),
            ("--compat", service.compat),
            ("--discard", service.discard),
        ];
        let has_door = |at: &&Listen| at.door != Door::Plain;
        if let Some(admin) = self.admin.as_ref().filter(has_door) {
            return Err(ConfigError(format!(
                "--admin {admin}: it has neither folders nor buckets: give the address alone"
            )));
        }
        let given = excluding.into_iter().find(|(_, is_given)| *is_given);
        match (self.at.iter().find(has_door), given) {
            (Some(place), Some((option, _))) => Err(ConfigError(format!(
                "--listen {place} cannot be had with {option}: it is for folders, and for values that are kept"
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses a listener on which other machines could change values, unless access control guards it (`is_guarded`)
    /// or the options allow this explicitly. Refuses clients at the socket of `--admin`, which has no authentication.
    pub fn check_exposure(&self, is_guarded: bool) -> Result<(), ConfigError> {
        let is_admin = |listen: &&Listen| self.admin.iter().any(|admin| admin.at == listen.at);
        let mut sockets = self
            .at
            .iter()
            .filter(|listen| matches!(listen.at, ListenAddress::Fd(_)));
        if let Some(listen) = sockets.find(is_admin) {
            let why = "--listen has this socket too: pass one for each";
            return Err(ConfigError::value("--admin", listen, why));
        }
        if is_guarded || self.allow_anonymous {
            return Ok(());
        }
        match self.at.iter().find(|listen| listen.is_exposed()) {
            Some(listen) => Err(ConfigError(format!(
                "--listen {listen}: other machines reach it, and anyone could write and delete; give --share to let others \
                 read, --share=upload to let them add files, --access FILE to say who may what, or --read-only, or \
                 --allow-anonymous to let anyone"
            ))),
            None => Ok(()),
        }
    }
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "TLS")]
pub struct TlsArgs {
    /// Certificate chain in PEM, the server's certificate first; repeat, with one --tls-key each, to serve several
    /// names (SNI): the first chain is the default. SIGHUP rereads the files
    #[arg(long = "tls-cert", value_name = "FILE", value_delimiter = ',')]
    cert: Vec<PathBuf>,

    /// Private key of the certificate, in PEM
    #[arg(long = "tls-key", value_name = "FILE", value_delimiter = ',')]
    key: Vec<PathBuf>,

    /// CA certificates (PEM) that client certificates must chain to
    #[arg(long = "tls-client-ca", value_name = "FILE")]
    client_ca: Option<PathBuf>,

    /// Whether a client must have a certificate
    #[arg(
        long = "tls-client-auth",
        value_name = "WHETHER",
        default_value = "require",
        action = ArgAction::Set,
        value_parser = one_of([("require", true), ("allow", false)])
    )]
    requires_client: bool,

    /// Make a certificate at startup, for the names of --listen and --allowed-host, and log its fingerprint: for trying
    /// out TLS
    #[arg(long = "tls-self-signed")]
    self_signed: bool,
}

impl TlsArgs {
    /// The certificates for a server with a place for TLS, or without; with a certificate of its own, of these `names`.
    pub fn options<'a>(
        &self,
        is_wanted: bool,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<Option<TlsOptions>, ConfigError> {
        let given = |files: &[PathBuf]| {
            // An empty variable gives one empty name.
            let files = files.iter().filter(|file| !file.as_os_str().is_empty());
            files.cloned().collect::<Vec<_>>()
        };
        let (certificates, keys) = (given(&self.cert), given(&self.key));
        let refused = |why: &str| Err(ConfigError(why.to_owned()));
        if certificates.len() != keys.len() {
            return refused("give as many --tls-key as --tls-cert");
        }
        let identity = match (certificates.is_empty(), self.self_signed) {
            (false, true) => return refused("--tls-self-signed and --tls-cert exclude each other"),
            (false, false) => {
                ServerCertificates::Files(certificates.into_iter().zip(keys).collect())
            }
            (true, true) => ServerCertificates::SelfSigned(own_names(names)),
            (true, false) if is_wanted => {
                return refused(
                    "--listen https://...: give --tls-cert and --tls-key, or --tls-self-signed",
                );
            }
            (true, false) => return Ok(None),
        };
        if !is_wanted {
            return refused(
                "there is a certificate but no TLS listener: give --listen https://ADDR:PORT",
            );
        }
        let clients = self.client_ca.clone().map(|file| ClientAuthority {
            file,
            is_required: self.requires_client,
        });
        Ok(Some(TlsOptions { identity, clients }))
    }
}

/// The `names` that a certificate can have, and the names of the loopback network.
fn own_names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let names = names.map(|name| name.trim_matches(['[', ']']));
    let names = names.filter(|name| !matches!(*name, "" | "*" | "0.0.0.0" | "::"));
    let mut unique: Vec<String> = Vec::new();
    for name in ["localhost", "127.0.0.1", "::1"].into_iter().chain(names) {
        if !unique.iter().any(|known| known == name) {
            unique.push(name.to_owned());
        }
    }
    unique
}

/// The rights of a server with these options and directories. A reload reads the `others` again.
pub fn allowed(
    directories: Vec<PathBuf>,
    read_only: bool,
    listen: &ListenConfig,
    tls: Option<&TlsOptions>,
    others: impl IntoIterator<Item = PathBuf>,
) -> Allowed {
    let places = listen.at.iter().chain(&listen.admin);
    let sockets = places.filter_map(|listen| match &listen.at {
        ListenAddress::Unix(path) => Some(path.clone()),
        ListenAddress::Address(_) | ListenAddress::Fd(_) => None,
    });
    let (values, read) = if read_only {
        (Vec::new(), directories)
    } else {
        (directories, Vec::new())
    };
    Allowed {
        values,
        read,
        reread: tls.into_iter().flat_map(files).chain(others).collect(),
        sockets: sockets.collect(),
        connect: Vec::new(),
        bind: ports(listen),
    }
}

/// The ports of the listeners, if they are known. Where reactors share a port that the kernel picks for the first of
/// them, it is not.
fn ports(listen: &ListenConfig) -> Option<Vec<u16>> {
    let places = listen.at.iter().chain(&listen.admin);
    let ports = places.filter_map(|place| match place.at {
        ListenAddress::Address(address) => Some(address.port()),
        ListenAddress::Unix(_) | ListenAddress::Fd(_) => None,
    });
    let ports: Vec<u16> = ports.collect();
    let is_picked_once = listen.dispatch != Dispatch::ReusePort || !ports.contains(&0);
    is_picked_once.then_some(ports)
}

/// The certificate and key files of TLS.
fn files(options: &TlsOptions) -> impl Iterator<Item = PathBuf> {
    let pairs = match &options.identity {
        ServerCertificates::Files(pairs) => &pairs[..],
        ServerCertificates::SelfSigned(_) => &[],
    };
    let own = pairs
        .iter()
        .flat_map(|(certificate, key)| [certificate, key]);
    let of_clients = options.clients.iter().map(|clients| &clients.file);
    own.chain(of_clients).cloned()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::{Args, Config};
    use super::*;

    #[test]
    fn a_certificate_is_made_of_each_name_once() {
        let names = ["127.0.0.1", "[::1]", "*", "0.0.0.0", "store.example", ""];
        let expected = ["localhost", "127.0.0.1", "::1", "store.example"];
        assert_eq!(own_names(names.into_iter()), expected);
    }

    fn allowed(options: &[&str]) -> Allowed {
        let words = ["data-server", "--dir", "/values"];
        let words = words.iter().chain(options);
        let args = Args::try_parse_from(words).unwrap();
        Config::try_from(args).unwrap().allowed
    }

    #[test]
    fn what_is_allowed_is_what_the_options_name() {
        let places = [
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
        let all = [&places[..], &files, &admin].concat();
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
        let found = allowed(&[&shared[..], &["127.0.0.1:0"]].concat()).bind;
        assert_eq!(found, None);
        let named = allowed(&[&shared[..], &["127.0.0.1:80"]].concat()).bind;
        assert_eq!(named, Some(vec![80]));
    }
}
