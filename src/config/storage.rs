//! Options of the store.

use std::num::NonZeroU64;
use std::path::PathBuf;

use bytesize::ByteSize;
use clap::{Args, ValueEnum};

use super::Descriptors;
use crate::http::is_guessed_text;
use crate::store;

/// The directory of the values.
#[derive(Clone, Debug)]
pub struct DirectoryConfig {
    /// Its path.
    pub path: PathBuf,
    /// Whether it was named, by an option or in the environment; else it must be this user's own.
    pub is_named: bool,
    /// Bytes free for values below which the server is not ready.
    pub min_free: u64,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Values")]
pub(super) struct Storage {
    /// Directory of the values; made when missing, never emptied; the default is for trying out [default: /tmp/data-rs]
    #[arg(
        long,
        visible_alias = "root",
        value_name = "DIR",
        env = "DATA_SERVER_DIR"
    )]
    dir: Option<PathBuf>,

    /// Memory for hot small values; 0 is none
    #[arg(
        long,
        value_name = "SIZE",
        env = "DATA_SERVER_CACHE",
        default_value = "64MiB"
    )]
    cache: ByteSize,

    /// Threads at most for digests and compression; 0 has the reactors do both, for comparison [default: the CPUs less one]
    #[arg(long, value_name = "N", env = "DATA_SERVER_COMPUTE_THREADS", value_parser = clap::value_parser!(u16).range(..=1024))]
    compute_threads: Option<u16>,

    /// Memory for the names of a large directory, so that a listing walks it no more; 0 is none
    #[arg(
        long,
        value_name = "SIZE",
        env = "DATA_SERVER_LISTING_INDEX",
        default_value = "128MiB"
    )]
    listing_index: ByteSize,

    /// What an acknowledged write survives: the death of the process (os), or the loss of power too (disk)
    #[arg(
        long,
        value_name = "WHAT",
        env = "DATA_SERVER_DURABILITY",
        default_value = "os"
    )]
    durability: Durability,

    /// Bytes of uploads staged at once: received or announced, and not yet published; more are answered 503; 0 is any
    #[arg(
        long,
        value_name = "SIZE",
        env = "DATA_SERVER_MAX_STAGED",
        default_value = "0"
    )]
    max_staged: ByteSize,

    /// Space for values below which /-/ready answers 503; 0 is none
    #[arg(
        long,
        value_name = "SIZE",
        env = "DATA_SERVER_MIN_FREE",
        default_value = "64MiB"
    )]
    min_free: ByteSize,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Durability {
    Os,
    Disk,
}

/// Where values go when no directory is named.
const DEFAULT_DIR: &str = "/tmp/data-rs";

impl Storage {
    pub(super) fn directory(&self) -> DirectoryConfig {
        let path = self.dir.clone();
        DirectoryConfig {
            is_named: path.is_some(),
            path: path.unwrap_or_else(|| DEFAULT_DIR.into()),
            min_free: self.min_free.as_u64(),
        }
    }

    /// By default one processor is left to the reactors.
    fn compute_threads(&self) -> usize {
        self.compute_threads
            .map_or_else(|| num_cpus::get().saturating_sub(1).max(1), usize::from)
    }

    pub(super) fn options(&self, descriptors: &Descriptors) -> store::Options {
        store::Options {
            cache: self.cache.as_u64(),
            cached_files: descriptors.cached_files(),
            listing_index: self.listing_index.as_u64(),
            durability: match self.durability {
                Durability::Os => store::Durability::Os,
                Durability::Disk => store::Durability::Disk,
            },
            compute_threads: self.compute_threads(),
            cpus: None,
            max_staged: NonZeroU64::new(self.max_staged.as_u64()),
            is_text: is_guessed_text,
        }
    }
}
