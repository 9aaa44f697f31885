//! Options of the store.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

use bytesize::ByteSize;
use clap::builder::{PathBufValueParser, TypedValueParser as _};
use clap::{Args, Command, Subcommand as _, ValueEnum};

use super::command::Commands;
use super::help::nearest;
use super::{ConfigError, Descriptors};
use crate::commands::size;
use crate::http::{ServiceConfig, is_guessed_text};
use crate::s3::S3Resources;
use crate::store::{self, StagingBounds};

/// The directory of the values.
#[derive(Clone, Debug)]
pub struct DirectoryConfig {
    /// Its path.
    pub path: PathBuf,
    /// Whether it was named, by an option or in the environment; else it must be this user's own.
    pub is_named: bool,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Values")]
pub struct Storage {
    /// Directory of the values, as --dir
    #[arg(value_name = "DIR", value_parser = PathBufValueParser::new().try_map(word))]
    place: Option<PathBuf>,

    /// Directory of the values; made when missing, never emptied; the default is for trying out [default: /tmp/data-rs]
    #[arg(long, visible_alias = "root", value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Memory for hot small values; 0 is none [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    cache: Option<ByteSize>,

    /// Threads at most for digests and compression [default: the CPUs less one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    compute_threads: Option<u16>,

    /// Memory for the names of a large directory, so that listings need no walk; 0 is none [default: 128MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    listing_index: Option<ByteSize>,

    /// What an acknowledged write survives: the death of the process (os), or a power failure (disk) [default: os]
    #[arg(long, value_name = "WHAT")]
    durability: Option<Durability>,

    /// With --durability disk, write small values and deletes to a journal first: on ext4, xfs and btrfs (auto), or not
    /// (off); discard gives up, at this start, what cannot be read of a damaged journal
    #[arg(long, value_name = "HOW", default_value = "auto")]
    journal: Journal,

    /// Directory of the journal, for example on a faster device; made when missing [default: DIR/.data-server/journal]
    #[arg(long, value_name = "DIR")]
    journal_dir: Option<PathBuf>,

    /// Space for the journal, of which it takes a fourth at first; 16MiB to 64GiB
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = journal_size)]
    journal_size: ByteSize,

    /// Bytes of uploads received or announced, and not yet published; more are answered 503; 0 is any
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "0")]
    max_staged: ByteSize,

    /// Those of one client: a subject of --access, else an address; 0 is any [default: half of --max-staged]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_staged_per_client: Option<ByteSize>,

    /// Unfinished resumable uploads of one client at once; more are answered 503; 0 is any
    #[arg(long, value_name = "N", default_value_t = store::UPLOADS_OF_ONE)]
    max_uploads_per_client: u32,

    /// Time to keep an unfinished resumable upload after its last request; 0s is for ever
    #[arg(long, value_name = "DURATION", default_value = "24h")]
    upload_expiry: humantime::Duration,

    /// Disk space that uploads leave free: others are answered 507; 0 is none [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    min_free: Option<ByteSize>,
}

/// The directory that a word means which is no command. One that is to be made is named by a path.
fn word(given: PathBuf) -> Result<PathBuf, String> {
    let text = given.to_string_lossy();
    if given.is_dir() || text.contains('/') || text == "." || text == ".." {
        return Ok(given);
    }
    let command = Commands::augment_subcommands(Command::new("data-server"));
    let names = command.get_subcommands().map(Command::get_name);
    let meant = nearest(&text, names).map(|name| format!("; did you mean {name}?"));
    Err(format!(
        "there is no command of this name{} To serve a directory that is not there yet, give ./{text} or --dir {text}",
        meant.as_deref().unwrap_or(".")
    ))
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Durability {
    Os,
    Disk,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Journal {
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

/// Where values go when no directory is named.
const DEFAULT_DIR: &str = "/tmp/data-rs";

const CACHE: ByteSize = ByteSize::mib(64);
const LISTING_INDEX: ByteSize = ByteSize::mib(128);
const MIN_FREE: ByteSize = ByteSize::mib(64);

impl Storage {
    pub fn directory(&self) -> DirectoryConfig {
        let path = self.place.clone().or_else(|| self.dir.clone());
        DirectoryConfig {
            is_named: path.is_some(),
            path: path.unwrap_or_else(|| DEFAULT_DIR.into()),
        }
    }

    /// The resources of an S3 store; options that only a directory has are refused.
    pub fn share(
        &self,
        reactors: usize,
        service: &ServiceConfig,
    ) -> Result<S3Resources, ConfigError> {
        let given = [
            (
                self.place.is_some() || self.dir.is_some(),
                "--dir",
                "the values are in the store",
            ),
            (
                self.cache.is_some(),
                "--cache",
                "a value is read from the store each time, for other servers may change it",
            ),
            (
                self.durability.is_some(),
                "--durability",
                "what an acknowledged write survives is the store's promise",
            ),
            (
                self.journal_dir.is_some(),
                "--journal-dir",
                "what an acknowledged write survives is the store's promise",
            ),
            (
                self.min_free.is_some(),
                "--min-free",
                "the server does not see how much space the store has",
            ),
            (
                self.listing_index.is_some(),
                "--listing-index",
                "the store makes the listings",
            ),
            (
                service.compress,
                "--compress",
                "values pass as the store sends them: have a proxy compress them",
            ),
            (service.compat, "--compat", "the C server had a directory"),
        ];
        match given.into_iter().find(|&(is_given, ..)| is_given) {
            Some((_, option, why)) => Err(ConfigError::NotWithStore { option, why }),
            None => Ok(S3Resources {
                reactors,
                cpus: None,
                compute_threads: self.compute_threads(),
                staging: self.bounds(),
                read_only: service.read_only,
            }),
        }
    }

    /// By default one processor is left to the reactors.
    fn compute_threads(&self) -> usize {
        self.compute_threads
            .map_or_else(|| num_cpus::get().saturating_sub(1).max(1), usize::from)
    }

    /// The longest value that can be staged, if that is bounded, and how long an unfinished one is kept.
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

    pub fn options(&self, descriptors: &Descriptors) -> store::Options {
        store::Options {
            cache: self.cache.unwrap_or(CACHE).as_u64(),
            cached_files: descriptors.cached_files(),
            listing_index: self.listing_index.unwrap_or(LISTING_INDEX).as_u64(),
            durability: match self.durability.unwrap_or(Durability::Os) {
                Durability::Os => store::Durability::Os,
                Durability::Disk => store::Durability::Disk,
            },
            journal: store::JournalOptions {
                is_used: self.journal != Journal::Off,
                discards: self.journal == Journal::Discard,
                dir: self.journal_dir.clone(),
                size: self.journal_size.as_u64(),
            },
            compute_threads: self.compute_threads(),
            cpus: None,
            staging: self.bounds(),
            min_free: self.min_free.unwrap_or(MIN_FREE).as_u64(),
            upload_expiry: *self.upload_expiry,
            is_text: is_guessed_text,
        }
    }
}
