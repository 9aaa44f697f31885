//! The engine of the servers that `tests/it` starts: a directory, or with `DATA_SERVER_ENGINE=s3` a store that all
//! tests of the process share, where each directory of a test is a prefix of its own.
//!
//! A test of what a directory alone has says so by [`directory_only!`](crate::directory_only), and one whose answer
//! differs where `docs/s3.md` says that it does, by [`by_engine`].

use std::env;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::s3::{Bucket, VersityGw};

/// Names the engine.
const ENGINE: &str = "DATA_SERVER_ENGINE";

/// Options that a server of a store refuses.
const OF_A_DIRECTORY: &str =
    "--dir --cache --durability --min-free --listing-index --compress --compat --max-size --bound";

static STORE: LazyLock<Option<Bucket>> = LazyLock::new(|| {
    let engine = env::var(ENGINE).ok()?;
    match &*engine {
        "directory" => None,
        "s3" => {
            let store = VersityGw::shared().expect("versitygw, which tests/run setup builds");
            Some(store.bucket.clone())
        }
        _ => panic!("{ENGINE}={engine}: it is directory or s3"),
    }
});

/// Whether the values are in an S3 store.
pub fn is_s3() -> bool {
    STORE.is_some()
}

/// What is expected of this run's engine, where `docs/s3.md` says that they differ.
pub fn by_engine<T>(directory: T, s3: T) -> T {
    if is_s3() { s3 } else { directory }
}

/// Those of these sets of options that a server of this run's engine takes.
pub fn taken<'a>(all: &[&'a [&'a str]]) -> Vec<&'a [&'a str]> {
    let of_a_directory = crate::words(OF_A_DIRECTORY);
    let is_taken = |args: &&[&str]| !args.iter().any(|arg| of_a_directory.contains(arg));
    let all = all.iter().copied();
    all.filter(|args| !is_s3() || is_taken(args)).collect()
}

/// Whether this run's engine takes this key: no listing of a store can show control characters.
pub fn takes_key(key: &str) -> bool {
    let cannot_be_listed = |c: char| matches!(c, '\0'..' ' | '\u{7f}' | '\u{fffe}' | '\u{ffff}');
    !(is_s3() && key.contains(cannot_be_listed))
}

/// An empty prefix of the store; `None` where a directory is the engine.
pub(crate) fn fresh_prefix() -> Option<Bucket> {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let store = STORE.as_ref()?;
    Some(store.beneath(&format!("of-test-{}", NEXT.fetch_add(1, Ordering::Relaxed))))
}

/// Ends the test where the engine is an S3 store: it is of what a directory alone has.
#[macro_export]
macro_rules! directory_only {
    ($why:literal) => {
        let why = concat!("directory only: ", $why);
        $crate::only_where!(!$crate::is_s3(), &$crate::this_test(), why)
    };
}

/// Ends the test where values are no files, or where strace does not run, which tells of the system calls on them.
#[macro_export]
macro_rules! file_calls_only {
    ($what:expr) => {
        $crate::directory_only!("system calls on files");
        $crate::tracing_only!($what)
    };
}

/// Whether directories of tests lie where there can be a journal: on ext4, xfs or btrfs (statfs(2)).
pub fn can_journal() -> bool {
    let magic = rustix::fs::statfs(env::temp_dir()).map_or(0, |fs| fs.f_type);
    [0xef53, 0x5846_5342, 0x9123_683e].contains(&magic)
}

/// Ends the test where there can be no journal: on an S3 store, or where directories of tests lie on another file
/// system.
///
/// Behind a reason, also where strace does not run, by which the test has calls fail or take their time.
#[macro_export]
macro_rules! journal_only {
    ($what:expr) => {
        $crate::journal_only!();
        $crate::tracing_only!($what)
    };
    () => {
        $crate::directory_only!("durability");
        let why = "the directory for temporary files is on no ext4, xfs or btrfs";
        $crate::only_where!($crate::can_journal(), &$crate::this_test(), why)
    };
}
