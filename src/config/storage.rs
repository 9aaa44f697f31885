//! Options of the store: a directory, or a bucket of an S3 store in its place.
//!
//! Each becomes the settings that the store is opened with. An option of how values lie in a directory is refused
//! beside `--store`.

use std::env;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{self, Path, PathBuf};
use std::time::Duration;

use bytesize::ByteSize;
use clap::{ArgAction, Args, ValueEnum};
use hyper::http::uri::Authority;

use super::bounds::BoundOptions;
use super::descriptors::Descriptors;
use super::file::{ConfigError, filled};
use super::help::with_variable;
use super::mistakes::one_of;
use crate::commands::{number, size};
use crate::http::{ServiceConfig, is_guessed_text};
use crate::s3::{BucketPrefix, S3Resources, Settings};
use crate::store::{self, Durability, NamePattern, StagingBounds};

/// The directory of the values.
#[derive(Clone, Debug)]
pub struct DirectoryConfig {
    /// Its path.
    pub path: PathBuf,
    /// True if the path was given, by an option or in the environment; the default directory has to belong to this
    /// user.
    pub is_named: bool,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Values")]
pub struct Storage {
    /// Directory of the values, as --dir
    #[arg(value_name = "DIR")]
    place: Option<PathBuf>,

    /// Directory of the values; made when missing, never emptied; the default is for trying out [default: the
    /// state directory of a systemd service, else /tmp/data-rs]
    #[arg(long, visible_alias = "root", value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Hide the names that match, and all that is below them: they are neither listed, read nor stored. * stands for
    /// any characters and ? for one, as in `.*`; repeat for more [default: none; with --share `.*`]
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    hide: Vec<String>,

    /// Answer GET and HEAD of a name that symbolic links lead to a value or folder inside DIR as those of that; a link
    /// that is absolute or leads out stays 404
    #[arg(long)]
    pub follow_symlinks: bool,

    /// Memory for hot small values, less where descriptors are few; 0 is no cache [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    cache: Option<ByteSize>,

    /// Most threads for digests and compression [default: the CPUs less one]
    #[arg(long, value_name = "N", value_parser = number(1..=1024_u16))]
    compute_threads: Option<u16>,

    /// Memory for the names of a large directory, so that listings need no walk; 0 is no index [default: 128MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    listing_index: Option<ByteSize>,

    /// What an acknowledged write survives: the death of the process (os), or a power failure (disk), with a journal
    /// that takes half of --journal-size from the first changes on [default: os]
    #[arg(long, value_name = "WHAT", value_parser = one_of([
        ("os", Durability::Os),
        ("disk", Durability::Disk),
    ]))]
    durability: Option<Durability>,

    /// With --durability disk, write small values and deletes to a journal first: on ext4, xfs and btrfs (auto), or
    /// never (off); discard gives up, at this start, the records of a damaged journal that cannot be read
    #[arg(long, value_name = "HOW", default_value = "auto")]
    journal: JournalMode,

    /// Directory of the journal, for example on a faster device; made when missing [default: DIR/.data-server/journal]
    #[arg(long, value_name = "DIR")]
    journal_dir: Option<PathBuf>,

    /// Space for the journal, of which the first changes take half: 128MiB by default; 16MiB to 64GiB
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = journal_size)]
    journal_size: ByteSize,

    /// Most bytes of uploads received or announced, and not yet published; more are answered 503; 0 is no limit
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "0")]
    max_staged: ByteSize,

    /// As --max-staged, for one client (subject of --access, else address); 0 is no limit [default: half of
    /// --max-staged]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_staged_per_client: Option<ByteSize>,

    /// Most unfinished resumable uploads of one client at once; more are answered 503; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = store::UPLOADS_OF_ONE, value_parser = number(0..=u32::MAX))]
    max_uploads_per_client: u32,

    /// Time to keep an unfinished resumable upload after its last request; 0s is no limit
    #[arg(long, value_name = "DURATION", default_value = "24h")]
    upload_expiry: humantime::Duration,

    /// Disk space that uploads must leave free: any other upload is answered 507; 0 is none [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    min_free: Option<ByteSize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum JournalMode {
    Auto,
    Off,
    Discard,
}

/// The bytes that the journal may take.
const JOURNAL_SIZE: std::ops::RangeInclusive<ByteSize> = ByteSize::mib(16)..=ByteSize::gib(64);

fn journal_size(text: &str) -> Result<ByteSize, String> {
    let size = size(text)?;
    if JOURNAL_SIZE.contains(&size) {
        Ok(size)
    } else {
        Err("a journal has 16MiB to 64GiB".to_owned())
    }
}

/// The default directory.
const DEFAULT_DIR: &str = "/tmp/data-rs";

const CACHE: ByteSize = ByteSize::mib(64);
const LISTING_INDEX: ByteSize = ByteSize::mib(128);
const MIN_FREE: ByteSize = ByteSize::mib(64);

/// The service's first state directory (systemd.exec(5)): unlike the default directory, it survives a reboot.
fn of_service() -> Option<PathBuf> {
    let all = env::var_os("STATE_DIRECTORY")?;
    let first = env::split_paths(&all).next();
    first.filter(|path| !path.as_os_str().is_empty())
}

/// `given` as an absolute path, for logs and messages.
fn absolute(given: &Path) -> PathBuf {
    path::absolute(given).unwrap_or_else(|_| given.to_owned())
}

impl Storage {
    pub fn directory(&self) -> DirectoryConfig {
        let path = self.place.clone().or_else(|| self.dir.clone());
        let path = path.or_else(of_service);
        DirectoryConfig {
            is_named: path.is_some(),
            path: absolute(path.as_deref().unwrap_or(DEFAULT_DIR.as_ref())),
        }
    }

    /// The patterns of the names that are hidden. Where files are shared, by default those that begin with a dot: what
    /// a person does not see in a folder is not meant to be shared.
    pub fn hidden(&self, is_shared: bool) -> Result<Vec<NamePattern>, ConfigError> {
        let default = (self.hide.is_empty() && is_shared).then_some(".*");
        let pattern = |text| {
            let bad = |why| ConfigError::value("--hide", text, why);
            NamePattern::new(text).map_err(bad)
        };
        filled(&self.hide).chain(default).map(pattern).collect()
    }

    /// The resources of an S3 store; options that only a directory has are refused.
    pub fn share(
        &self,
        reactors: usize,
        service: &ServiceConfig,
        bounds: &BoundOptions,
    ) -> Result<S3Resources, ConfigError> {
        let cache = "a value is read from the store each time, for other servers may change it";
        let durability = "what an acknowledged write survives is the store's promise";
        let space = "the server does not see how much space the store has";
        let listings = "the store makes the listings";
        let coding = "values pass as the store sends them: have a proxy compress them";
        let has_dir = self.place.is_some() || self.dir.is_some();
        for (option, is_given, why) in [
            ("--dir", has_dir, "the values are in the store"),
            (
                "--follow-symlinks",
                self.follow_symlinks,
                "a store has no symbolic links",
            ),
            ("--cache", self.cache.is_some(), cache),
            ("--durability", self.durability.is_some(), durability),
            ("--journal-dir", self.journal_dir.is_some(), durability),
            ("--min-free", self.min_free.is_some(), space),
            ("--listing-index", self.listing_index.is_some(), listings),
            ("--compress", service.compress, coding),
            ("--compat", service.compat, "the C server had a directory"),
            (
                bounds.given().unwrap_or_default(),
                bounds.given().is_some(),
                "have the store remove what is old, by its own lifecycle rules",
            ),
        ] {
            if is_given {
                let why = format!("{option} cannot be had with --store: {why}");
                return Err(ConfigError(why));
            }
        }
        Ok(S3Resources {
            reactors,
            cpus: None,
            compute_threads: self.compute_threads(),
            staging: self.bounds(),
            read_only: service.read_only,
        })
    }

    /// By default one processor is left to the reactors.
    fn compute_threads(&self) -> usize {
        self.compute_threads
            .map_or_else(|| num_cpus::get().saturating_sub(1).max(1), usize::from)
    }

    /// The longest value that can be staged, if there is a limit, and how long an unfinished upload is kept.
    pub fn staging(&self) -> (Option<NonZeroU64>, Duration) {
        (self.bounds().longest(), *self.upload_expiry)
    }

    fn bounds(&self) -> StagingBounds {
        let bytes = self.max_staged.as_u64();
        let of_one = self.max_staged_per_client;
        StagingBounds {
            bytes: NonZeroU64::new(bytes),
            bytes_of_one: NonZeroU64::new(of_one.map_or(bytes.div_ceil(2), |size| size.as_u64())),
            uploads_of_one: NonZeroU32::new(self.max_uploads_per_client),
        }
    }

    pub fn options(&self, descriptors: &Descriptors, bounds: &BoundOptions) -> store::Options {
        store::Options {
            cache: self.cache.unwrap_or(CACHE).as_u64(),
            cached_files: descriptors.cached_files(),
            listing_index: self.listing_index.unwrap_or(LISTING_INDEX).as_u64(),
            durability: self.durability.unwrap_or(Durability::Os),
            journal: store::JournalOptions {
                is_used: self.journal != JournalMode::Off,
                discards: self.journal == JournalMode::Discard,
                dir: self.journal_dir.as_deref().map(absolute),
                size: self.journal_size.as_u64(),
            },
            compute_threads: self.compute_threads(),
            cpus: None,
            staging: self.bounds(),
            min_free: self.min_free.unwrap_or(MIN_FREE).as_u64(),
            upload_expiry: *self.upload_expiry,
            is_text: is_guessed_text,
            bounds: bounds.all(),
            evict_existing: bounds.evict_existing,
        }
    }
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "An S3 store", mut_args(with_variable))]
pub struct S3Store {
    /// Serve the objects of a bucket, or those below a prefix, in place of a directory; credentials come from
    /// variables, `~/.aws`, or the metadata service
    #[arg(long, value_name = "s3://BUCKET[/PREFIX]")]
    store: Option<String>,

    /// Address of the store, such as `https://s3.example:9000`; repeat for several, used round-robin [default: that of
    /// AWS in the region]
    #[arg(long, value_name = "URL", value_delimiter = ',', requires = "store")]
    s3_endpoint: Vec<String>,

    /// Region that requests are signed for [default: `AWS_REGION`, `AWS_DEFAULT_REGION`, or us-east-1]
    #[arg(long, value_name = "REGION", requires = "store")]
    s3_region: Option<String>,

    /// Name the bucket in the host (BUCKET.s3.example) instead of the path; the default for AWS
    #[arg(long, requires = "store")]
    s3_virtual_host: bool,

    /// CA certificates (PEM) to trust for an https endpoint, in addition to the system's
    #[arg(long, value_name = "FILE", requires = "store")]
    s3_ca: Option<PathBuf>,

    /// Longest wait for the store: for the head of a response, and between two pieces of a body
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    s3_timeout: humantime::Duration,

    /// Most connections to the store, for each reactor
    #[arg(long, value_name = "N", default_value = "256", value_parser = number(1..=u16::MAX))]
    s3_connections: u16,

    /// If the store does not honour conditions on writes: refuse to start (require), or answer such writes 501 (off)
    #[arg(long = "s3-conditions", value_name = "HOW", default_value = "require", action = ArgAction::Set,
        value_parser = one_of([("require", true), ("off", false)]))]
    requires_conditions: bool,

    /// Directory for uploads of unknown length [default: that of temporary files]
    #[arg(long, value_name = "DIR", requires = "store")]
    spool: Option<PathBuf>,

    /// Answer GET and HEAD of values of at least this size with 307 and a signed link to the store, which clients must
    /// reach at --s3-endpoint; the link works for 5 minutes, for anyone who has it [default: never]
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "store")]
    redirect_from: Option<ByteSize>,
}

/// The default region, as in AWS's own clients.
const DEFAULT_REGION: &str = "us-east-1";

impl S3Store {
    /// True if a store is named.
    pub fn is_given(&self) -> bool {
        filled(&self.store).next().is_some()
    }

    /// The settings of the store, if a store is named.
    pub fn settings(&self) -> Result<Option<Settings>, ConfigError> {
        let Some(store) = filled(&self.store).next() else {
            return Ok(None);
        };
        let place = place(store).map_err(|why| bad_store(store, why))?;
        let endpoints = filled(&self.s3_endpoint).map(endpoint);
        let endpoints = endpoints.collect::<Result<Vec<_>, _>>()?;
        let variables = ["AWS_REGION", "AWS_DEFAULT_REGION"].map(|name| env::var(name).ok());
        let regions = [&self.s3_region].into_iter().chain(&variables);
        let region = regions.flat_map(filled).next().unwrap_or(DEFAULT_REGION);
        Ok(Some(Settings {
            place,
            virtual_host: self.s3_virtual_host || endpoints.is_empty(),
            endpoints,
            region: region.to_owned(),
            ca: self.s3_ca.clone(),
            timeout: *self.s3_timeout,
            connections: usize::from(self.s3_connections),
            requires_conditions: self.requires_conditions,
            spool: self.spool.clone().unwrap_or_else(env::temp_dir),
            redirect_from: self.redirect_from.map(|size| size.as_u64()),
        }))
    }
}

/// The fault of a store that is `given`.
pub fn bad_store(given: &str, why: &str) -> ConfigError {
    let why = format!("{why}; give s3://BUCKET or s3://BUCKET/PREFIX");
    ConfigError::value("--store", given, why)
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
    let mut prefix = prefix.trim_end_matches('/').to_owned();
    if !prefix.is_empty() {
        if prefix
            .split('/')
            .any(|segment| matches!(segment, "" | "." | ".."))
        {
            return Err("a prefix has no empty segment, and none that is . or ..");
        }
        prefix.push('/');
    }
    let bucket = bucket.to_owned();
    Ok(BucketPrefix { bucket, prefix })
}

/// The origin that `given` is.
fn endpoint(given: &str) -> Result<String, ConfigError> {
    let bad = |why| {
        let why = format!("{why}; give an address such as https://s3.example:9000");
        ConfigError::value("--s3-endpoint", given, why)
    };
    let uri: hyper::Uri = given.parse().map_err(|_| bad("it is no URL"))?;
    let Some(scheme @ ("http" | "https")) = uri.scheme_str() else {
        return Err(bad("it has to begin with http:// or https://"));
    };
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err(bad("it has a path: give scheme, host and port alone"));
    }
    match uri.authority().map(Authority::as_str) {
        Some(authority) if !authority.contains('@') => Ok(format!("{scheme}://{authority}")),
        _ => Err(bad(
            "it has no host, or a user: credentials are no part of it",
        )),
    }
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
        for bad in "values|http://values|s3://|s3://ab|s3://va lues|s3://values//a|\
            s3://values/../a"
            .split('|')
        {
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
        for bad in
            "127.0.0.1:7070|ftp://h|http://h/path|http://h/?q|http://key:secret@h|".split('|')
        {
            let error = endpoint(bad).unwrap_err().to_string();
            assert!(error.starts_with("--s3-endpoint"), "{error}");
        }
    }
}
