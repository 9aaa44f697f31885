//! Options of an S3 store in place of a directory.

use std::path::PathBuf;

use bytesize::ByteSize;
use clap::{Args, ValueEnum};

use super::ConfigError;
use super::help::with_variable;
use crate::commands::size;
use crate::s3::{BucketPrefix, Conditions, Settings};

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "An S3 store", mut_args(with_variable))]
pub struct S3Store {
    /// Serve the objects of a bucket, or those below a prefix, in place of a directory; credentials come from
    /// variables, `~/.aws`, or the metadata service
    #[arg(long, value_name = "s3://BUCKET[/PREFIX]")]
    store: Option<String>,

    /// Address of the store, such as `https://s3.example:9000`; repeat for several, which are asked in turn [default: that of AWS in the
    /// region]
    #[arg(long, value_name = "URL", value_delimiter = ',', requires = "store")]
    s3_endpoint: Vec<String>,

    /// Region that requests are signed for [default: `AWS_REGION`, `AWS_DEFAULT_REGION`, or us-east-1]
    #[arg(long, value_name = "REGION", requires = "store")]
    s3_region: Option<String>,

    /// Name the bucket in the host (BUCKET.s3.example) and not in the path; the default for AWS
    #[arg(long, requires = "store")]
    s3_virtual_host: bool,

    /// Certificates in PEM to trust for an https endpoint, beside those of the system
    #[arg(long, value_name = "FILE", requires = "store")]
    s3_ca: Option<PathBuf>,

    /// Longest wait for the store: for the head of an answer, and between two pieces of a body
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    s3_timeout: humantime::Duration,

    /// Connections to the store at most, for each reactor
    #[arg(long, value_name = "N", default_value = "256", value_parser = clap::value_parser!(u16).range(1..))]
    s3_connections: u16,

    /// A store that does not honour conditions on writes: refuse to start (require), or answer such writes 501 (off)
    #[arg(long, value_name = "HOW", default_value = "require")]
    s3_conditions: OnConditions,

    /// Directory for uploads of unknown length [default: that of temporary files]
    #[arg(long, value_name = "DIR", requires = "store")]
    spool: Option<PathBuf>,

    /// Answer GET and HEAD of values of at least this size with 307 and a signed link to the store, which clients must
    /// reach at --s3-endpoint; it works for 5 minutes, for anybody who has it [default: never]
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "store")]
    redirect_from: Option<ByteSize>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OnConditions {
    Require,
    Off,
}

/// The region where none is given, as AWS's own clients have it.
const DEFAULT_REGION: &str = "us-east-1";

impl S3Store {
    /// Whether it names a store.
    pub fn is_given(&self) -> bool {
        self.store.as_ref().is_some_and(|given| !given.is_empty())
    }

    /// The store, if one was asked for.
    pub fn settings(&self) -> Result<Option<Settings>, ConfigError> {
        let Some(store) = self.store.as_deref().filter(|given| !given.is_empty()) else {
            return Ok(None);
        };
        let place = place(store).map_err(|why| bad_store(store, why))?;
        let given = self.s3_endpoint.iter().filter(|given| !given.is_empty());
        let endpoints = given
            .map(|given| endpoint(given))
            .collect::<Result<Vec<_>, _>>()?;
        let from_environment = ["AWS_REGION", "AWS_DEFAULT_REGION"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok().filter(|region| !region.is_empty()));
        let given = self.s3_region.clone().filter(|given| !given.is_empty());
        let region = given.or(from_environment);
        Ok(Some(Settings {
            place,
            virtual_host: self.s3_virtual_host || endpoints.is_empty(),
            endpoints,
            region: region.unwrap_or_else(|| DEFAULT_REGION.to_owned()),
            ca: self.s3_ca.clone(),
            timeout: *self.s3_timeout,
            connections: usize::from(self.s3_connections),
            conditions: match self.s3_conditions {
                OnConditions::Require => Conditions::Require,
                OnConditions::Off => Conditions::Off,
            },
            spool: self.spool.clone().unwrap_or_else(std::env::temp_dir),
            redirect_from: self.redirect_from.map(|size| size.as_u64()),
        }))
    }
}

/// The fault of a store that is `given`.
pub fn bad_store(given: &str, why: &str) -> ConfigError {
    let why = format!("{why}; give s3://BUCKET or s3://BUCKET/PREFIX");
    ConfigError::value("--store", given, &why)
}

/// The bucket and the prefix that `given` names.
fn place(given: &str) -> Result<BucketPrefix, &'static str> {
    let rest = given
        .strip_prefix("s3://")
        .ok_or("it has to begin with s3://")?;
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    // The rules of AWS, as far as every store has them.
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if !(3..=63).contains(&bucket.len()) || !bucket.bytes().all(is_name) {
        return Err("a bucket has 3 to 63 letters, digits, dots and hyphens");
    }
    let prefix = prefix.trim_end_matches('/');
    let is_segment = |segment: &str| !matches!(segment, "" | "." | "..");
    if !prefix.is_empty() && !prefix.split('/').all(is_segment) {
        return Err("a prefix has no empty segment, and none that is . or ..");
    }
    Ok(BucketPrefix {
        bucket: bucket.to_owned(),
        prefix: match prefix {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        },
    })
}

/// The origin that `given` is.
fn endpoint(given: &str) -> Result<String, ConfigError> {
    let bad = |why| {
        let why = format!("{why}; give an address such as https://s3.example:9000");
        ConfigError::value("--s3-endpoint", given, &why)
    };
    let uri: hyper::Uri = given.parse().map_err(|_| bad("it is no URL"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(bad("it has to begin with http:// or https://"));
    }
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err(bad("it has a path: give scheme, host and port alone"));
    }
    let authority = uri
        .authority()
        .filter(|authority| !authority.as_str().contains('@'));
    let authority =
        authority.ok_or_else(|| bad("it has no host, or a user: credentials are no part of it"))?;
    Ok(format!(
        "{}://{authority}",
        uri.scheme_str().unwrap_or("http")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_a_bucket_and_maybe_a_prefix() {
        let bucket = |prefix: &str| BucketPrefix {
            bucket: "values".into(),
            prefix: prefix.into(),
        };
        for (given, prefix) in [
            ("s3://values", ""),
            ("s3://values/", ""),
            ("s3://values/a", "a/"),
            ("s3://values/a/b/", "a/b/"),
        ] {
            assert_eq!(place(given), Ok(bucket(prefix)), "{given}");
        }
        for bad in [
            "values",
            "http://values",
            "s3://",
            "s3://ab",
            "s3://va lues",
            "s3://values//a",
            "s3://values/../a",
        ] {
            assert!(place(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_endpoint_is_an_origin() {
        for (given, origin) in [
            ("http://127.0.0.1:7070", "http://127.0.0.1:7070"),
            ("https://s3.example/", "https://s3.example"),
        ] {
            assert_eq!(endpoint(given).unwrap(), origin);
        }
        for bad in [
            "127.0.0.1:7070",
            "ftp://h",
            "http://h/path",
            "http://h/?q",
            "http://key:secret@h",
            "",
        ] {
            let error = endpoint(bad).unwrap_err().to_string();
            assert!(error.starts_with("--s3-endpoint"), "{error}");
        }
    }
}
