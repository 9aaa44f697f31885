//! What of the system an S3 store is reached with: files and ports.

use std::path::{Path, PathBuf};

use hyper::Uri;

use super::settings::Settings;
use super::transport::credentials;

/// What names are resolved by, and servers are proved by: where systems have it.
const SYSTEM: [&str; 16] = [
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/resolv.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/var/lib/ca-certificates",
    "/usr/lib",
    "/usr/lib64",
    "/lib",
    "/lib64",
];

/// Where a manager of the network writes its /etc/resolv.conf anew.
const RESOLVER: &str = "/etc/resolv.conf";

/// Long answers about names come by TCP.
const DNS: u16 = 53;

/// Files and ports that an S3 store is reached with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Files and directories of the system.
    pub read: Vec<PathBuf>,
    /// Files that other programs replace.
    pub reread: Vec<PathBuf>,
    /// Ports of the store, and of what gives its credentials.
    pub ports: Vec<u16>,
}

/// What the store with these settings needs in the environment of this process.
pub fn needs(settings: &Settings) -> Needs {
    let mut needs = Needs {
        read: SYSTEM.map(PathBuf::from).to_vec(),
        reread: settings.ca.iter().cloned().collect(),
        ports: vec![DNS],
    };
    for name in ["SSL_CERT_FILE", "SSL_CERT_DIR"] {
        let given = std::env::var_os(name);
        needs.read.extend(given.map(PathBuf::from));
    }
    let resolver = Path::new(RESOLVER).canonicalize();
    // Not the directory of a file of /etc itself, which holds much else.
    let resolver = resolver.ok().filter(|file| !file.starts_with("/etc"));
    needs.reread.extend(resolver);
    let endpoints = settings.endpoints.iter();
    needs.ports.extend(endpoints.filter_map(|url| port(url)));
    if settings.endpoints.is_empty() {
        needs.ports.push(443);
    }
    let (files, urls) = credentials::reach(&settings.region);
    needs.reread.extend(files);
    needs.ports.extend(urls.iter().filter_map(|url| port(url)));
    needs.ports.sort_unstable();
    needs.ports.dedup();
    needs
}

/// The port that `url` is asked at.
fn port(url: &str) -> Option<u16> {
    let url: Uri = url.parse().ok()?;
    let of_scheme = match url.scheme_str() {
        Some("http") => Some(80),
        Some("https") => Some(443),
        _ => None,
    };
    url.port_u16().or(of_scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_a_port_has_that_of_its_scheme() {
        for (url, expected) in [
            ("http://127.0.0.1:7070", Some(7070)),
            ("http://169.254.169.254", Some(80)),
            ("https://sts.us-east-1.amazonaws.com", Some(443)),
            ("https://[fd00:ec2::23]:8443/v1", Some(8443)),
            ("nonsense", None),
        ] {
            assert_eq!(port(url), expected, "{url}");
        }
    }
}
