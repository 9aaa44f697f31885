//! The steps of a start before the first connection: what it checks, the rights that it gives up, the directory or the
//! S3 store that it opens, and the CPUs of its threads. Each failure is a [`StartError`], with advice where there is
//! some. Listens nowhere.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::access::{Access, BadAccess};
use crate::config::{Config, DescriptorLimitError, DirectoryConfig, Values};
use crate::net::{Listen, ListenAddress, Tls, TlsError};
use crate::s3::{self, S3};
use crate::sandbox::{self, Confined, SandboxError};
use crate::store::{self, Directory, Inspected, OpenError, Store};

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The directory cannot be served.
    #[error(transparent)]
    Directory(#[from] OpenError),
    /// The S3 store cannot be served.
    #[error(transparent)]
    S3(#[from] s3::UnfitStore),
    /// The rights of the process could not be given up, as was demanded.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The limit on descriptors is too low.
    #[error(transparent)]
    Descriptors(#[from] DescriptorLimitError),
    /// The server cannot listen there.
    #[error("cannot listen on {at}: {source}{hint}", hint = hint_of_place(.at, .source))]
    Listen {
        /// Where.
        at: Listen,
        /// The cause.
        source: io::Error,
    },
    /// The access file cannot be used.
    #[error("--access: {0}")]
    Access(#[from] BadAccess),
    /// The journal is damaged: what `data-server journal check` says.
    #[error("the journal cannot be replayed: {}", .0.trim_end().replace('\n', "; "))]
    Journal(String),
    /// There is no TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The system refused something a server needs: a thread, a runtime, a signal handler.
    #[error("cannot start: {0}{hint}", hint = hint(.0))]
    System(#[from] io::Error),
}

/// Advice for the operator. Nothing but a thread fails so before the server serves.
fn hint(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::WouldBlock {
        ": the system gives no more threads, or no memory for them; raise TasksMax= of systemd, pids.max of the cgroup, or ulimit -u"
    } else {
        ""
    }
}

/// Advice about a place that cannot be listened on.
fn hint_of_place(at: &Listen, error: &io::Error) -> String {
    let address = match &at.at {
        ListenAddress::Address(address) => address,
        ListenAddress::Unix(path) => return hint_of_path(path, error),
        ListenAddress::Fd(_) => return String::new(),
    };
    match (error.kind(), address.port()) {
        (io::ErrorKind::AddrInUse, port) => format!(
            "; another process has this port (`ss -ltnp 'sport = :{port}'` names it): choose another with --listen"
        ),
        (io::ErrorKind::AddrNotAvailable, _) => {
            "; no interface of this machine has this address".to_owned()
        }
        (io::ErrorKind::PermissionDenied, ..1024) => {
            "; ports below 1024 need CAP_NET_BIND_SERVICE, or a socket that the service manager passes".to_owned()
        }
        _ => String::new(),
    }
}

/// Advice about a path where no unix socket can be made.
fn hint_of_path(path: &Path, error: &io::Error) -> String {
    match (error.kind(), path.parent()) {
        // The library refuses what does not fit sockaddr_un.
        (io::ErrorKind::InvalidInput, _) => {
            "; the path of a unix socket has at most 107 bytes".to_owned()
        }
        (io::ErrorKind::NotFound, Some(folder)) => {
            format!("; make the folder {}", folder.display())
        }
        _ => String::new(),
    }
}

impl StartError {
    /// True where another server has the directory.
    pub fn is_in_use(&self) -> bool {
        matches!(self, Self::Directory(OpenError::InUse { .. }))
    }
}

/// Checks what a start reads: certificates, who may do what, the directory and its journal. Changes nothing. Where the
/// values are, and what could not be checked, in words.
pub fn check(config: &Config) -> Result<String, StartError> {
    let mut unchecked = vec!["whether the addresses are free"];
    check_files(config)?;
    match &config.values {
        Values::Directory(directory, options) => {
            let may_write = !config.service.read_only;
            match store::inspect(&directory.path, may_write)? {
                Inspected::Missing => unchecked.push("the directory, which is not there yet"),
                Inspected::InUse => unchecked.push("the journal: a server has the directory"),
                Inspected::Free => {
                    let at = options.journal.dir.as_deref();
                    let report = store::check_journal(&directory.path, at)?;
                    if report.is_damaged && !options.journal.discards {
                        return Err(StartError::Journal(report.text));
                    }
                }
            }
        }
        Values::S3(..) => unchecked.push("the store, which data-server check-store tries"),
    }
    Ok(format!(
        "values in {}; not checked: {}",
        config.values,
        unchecked.join("; ")
    ))
}

/// Refuses a process with too few descriptors, and files that cannot be used.
fn check_files(config: &Config) -> Result<(), StartError> {
    config.descriptors.check()?;
    config.access.clone().map(Access::read).transpose()?;
    config.tls.clone().map(Tls::new).transpose()?;
    Ok(())
}

/// Refuses a process with too few descriptors or without the files that it needs, makes the directory of values, and
/// gives up all rights that serving does not need. Where clients prove who they are, what they prove it by is in the
/// memory of this process: no other process of its user may read it, and no core has it.
pub fn prepare(config: &Config) -> Result<Confined, StartError> {
    if config.access.is_some() {
        set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(io::Error::from)?;
    }
    check_files(config)?;
    make_directory(config)?;
    let mut allowed = config.allowed.clone();
    if let Values::S3(settings, _) = &config.values {
        let needs = s3::needs(settings);
        allowed.read.extend(needs.read);
        allowed.reread.extend(needs.reread);
        allowed.connect.extend(needs.ports);
    }
    Ok(sandbox::confine(config.sandbox, allowed)?)
}

/// Tries what the S3 store does; without one, nothing.
pub fn check_store(config: &Config) -> Result<s3::ContractReport, StartError> {
    match &config.values {
        Values::Directory(..) => Ok(s3::ContractReport::default()),
        Values::S3(settings, _) => Ok(S3::test(settings)?),
    }
}

/// Opens the directory, or reaches the S3 store.
pub fn open_store(config: &Config, cpus: &Cpus) -> Result<Store, StartError> {
    match &config.values {
        Values::Directory(directory, options) => {
            let options = store::Options {
                cpus: cpus.of_others(),
                ..options.clone()
            };
            let read_only = config.service.read_only;
            Ok(open_directory(directory, &options, read_only)?)
        }
        Values::S3(settings, share) => {
            let share = s3::S3Resources {
                cpus: cpus.of_others(),
                ..*share
            };
            Ok(Store::S3(Arc::new(S3::open(settings.clone(), share)?)))
        }
    }
}

/// Makes the directory if it is missing. The default one, which lies where any user may write, has to be this user's
/// own.
fn make_directory(config: &Config) -> Result<(), OpenError> {
    let Values::Directory(directory, options) = &config.values else {
        return Ok(());
    };
    let (dir, may_make) = (&directory.path, !config.service.read_only);
    if !directory.is_named {
        store::take_default(dir, may_make)?;
    }
    if may_make {
        store::make(dir, options.durability)?;
        if let Some(journal) = &options.journal.dir {
            store::make(journal, options.durability)?;
        }
    }
    Ok(())
}

/// Opens the directory. The default one is looked at again: what serves need not have made it.
fn open_directory(
    config: &DirectoryConfig,
    options: &store::Options,
    read_only: bool,
) -> Result<Store, OpenError> {
    let dir = &config.path;
    if !config.is_named {
        store::take_default(dir, !read_only)?;
        tracing::warn!(
            "{} is for trying out, for /tmp is emptied at reboots: give a directory of your own, as in data-server ./values; \
             data-server . serves the folder that you are in",
            dir.display()
        );
    }
    let directory = if read_only {
        Directory::open_read_only(dir, options)?
    } else {
        Directory::open(dir, options)?
    };
    Ok(Store::Directory(Box::new(directory)))
}

/// The CPUs that threads may run on. Empty when nothing is pinned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpus {
    allowed: Vec<usize>,
    reactors: usize,
}

impl Cpus {
    /// The CPUs that this process may use, divided between the reactors and all other threads.
    pub fn pinned(reactors: usize) -> Self {
        let allowed = sched_getaffinity(None).map_or_else(|_| Vec::new(), |set| numbers(&set));
        Self { allowed, reactors }
    }

    /// The CPU of the reactor with this number.
    pub fn of_reactor(&self, index: usize) -> Option<usize> {
        let turn = index % self.allowed.len().max(1);
        self.allowed.get(turn).copied()
    }

    /// The CPUs of the threads beside the reactors.
    pub fn of_others(&self) -> Option<CpuSet> {
        let left = self.allowed.get(self.reactors..).unwrap_or_default();
        let theirs = if left.is_empty() { &self.allowed } else { left };
        let mut set = CpuSet::new();
        for &cpu in theirs {
            set.set(cpu);
        }
        (!theirs.is_empty()).then_some(set)
    }
}

fn numbers(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared_out(allowed: &[usize], reactors: usize) -> (Vec<Option<usize>>, Option<Vec<usize>>) {
        let allowed = allowed.to_vec();
        let cpus = Cpus { allowed, reactors };
        let of_reactors = (0..reactors).map(|index| cpus.of_reactor(index)).collect();
        (of_reactors, cpus.of_others().map(|set| numbers(&set)))
    }

    #[test]
    fn others_have_the_cpus_that_no_reactor_has_or_all() {
        let some = |cpus: &[usize]| Some(cpus.to_vec());
        assert_eq!(shared_out(&[0, 1], 1), (vec![Some(0)], some(&[1])));
        let found = shared_out(&[2, 5, 7], 2);
        assert_eq!(found, (vec![Some(2), Some(5)], some(&[7])));
        let seen = shared_out(&[0, 1], 2);
        assert_eq!(seen, (vec![Some(0), Some(1)], some(&[0, 1])));
        let expected = (vec![Some(3), Some(4), Some(3)], some(&[3, 4]));
        assert_eq!(shared_out(&[3, 4], 3), expected);
        assert_eq!(shared_out(&[], 1), (vec![None], None));
        assert_eq!(Cpus::default().of_others(), None);
    }
}
