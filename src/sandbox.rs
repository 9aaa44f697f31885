//! The sandbox: the rights that this process gives up before its first thread, by Landlock.
//!
//! Owns what is asked of the kernel, and what is said of it. Promises that no thread of this process, whatever code it
//! comes to run, opens, makes, changes or removes a file outside what [`Allowed`] names, runs a program, or opens a TCP
//! connection to another port than named, as far as the kernel enforces that: [`Confined`] says how far. Does not take
//! back what is open already, and does not restrict UDP, names and times of files, memory or processors. What a server
//! needs is not known here.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort,
    PathBeneath, PathFd, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    Scope, make_bitflags,
};

/// The newest rights that are given up. Later ones have to be tried first: a program that does not know a right gives
/// up what it may need.
const NEWEST: ABI = ABI::V6;

/// The first Landlock that has renames between directories, and that of all that changes files, of TCP, of signals.
const RENAMES: ABI = ABI::V2;
const FILES: ABI = ABI::V3;
const NETWORK: ABI = ABI::V4;
const SIGNALS: ABI = ABI::V6;

/// The rights of a store in its directory.
const STORE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    ReadFile | ReadDir | WriteFile | Truncate | MakeReg | MakeDir | RemoveFile | RemoveDir | Refer
});
const READ: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir});
/// The rights by which a unix socket's file comes and goes.
const SOCKET: BitFlags<AccessFs> = make_bitflags!(AccessFs::{MakeSock | RemoveFile});

/// The most links that the kernel follows (`path_resolution(7)`).
const MOST_LINKS: usize = 40;

/// The prefix of the name of a service manager's socket that has no file.
const ABSTRACT: &str = "@";

/// The extent to which rights are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As far as the kernel can.
    Auto,
    /// The rights of files and the network; fails where the kernel cannot.
    Require,
    /// No right is given up.
    Off,
}

/// The rights that a process keeps. What is not there when the rights are given up stays out of reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Directories of values.
    pub values: Vec<PathBuf>,
    /// Files and directories that are only read.
    pub read: Vec<PathBuf>,
    /// Files that are read again when another has their name: their directories are read, and those that links on the
    /// way to them may lead to.
    pub reread: Vec<PathBuf>,
    /// Files of unix sockets, which are made and removed.
    pub sockets: Vec<PathBuf>,
    /// Ports that connections are opened to.
    pub connect: Vec<u16>,
    /// Ports that it may listen on; `None` for any.
    pub bind: Option<Vec<u16>>,
}

/// The outcome of giving up rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confined {
    /// The rights that this Landlock knows were given up, but these.
    By(ABI, Allowed),
    /// No right was given up; these words say why, behind "nothing is enforced".
    No(String),
    /// No right was to be given up.
    Off,
}

/// Why a process that must give up rights keeps them.
#[derive(Debug, thiserror::Error)]
#[error(
    "--sandbox require: {0}; start it on Linux 6.7 or later with Landlock among its security modules (lsm= of the kernel), or \
     give --sandbox auto"
)]
pub struct SandboxError(String);

/// Gives up all rights but these, for this thread and those that it starts: for good. Call it while there is no other.
pub fn confine(mode: Mode, allowed: Allowed) -> Result<Confined, SandboxError> {
    if mode == Mode::Off {
        return Ok(Confined::Off);
    }
    let confined = match restrict(&allowed) {
        Ok(status) => Confined::of(&status, allowed),
        Err(error) => Confined::No(format!(": {error}")),
    };
    if mode == Mode::Require && !confined.is_full() {
        return Err(SandboxError(confined.to_string()));
    }
    Ok(confined)
}

fn restrict(allowed: &Allowed) -> Result<RestrictionStatus, RulesetError> {
    // Landlock without the right to rename between directories lets no process do it that gives up any right of files:
    // then a PUT into a folder would fail, so nothing is given up.
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::SoftRequirement)
        .handle_access(AccessFs::Refer)?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::ConnectTcp)?
        .scope(scopes())?;
    if allowed.bind.is_some() {
        ruleset = ruleset.handle_access(AccessNet::BindTcp)?;
    }
    // The process needs its own figures and descriptors, and where bytes are dropped, wherever its values are.
    let null = make_bitflags!(AccessFs::{ReadFile | WriteFile});
    let own = [("/proc".into(), READ), ("/dev/null".into(), null)];
    let paths = allowed.paths().chain(own);
    let mut created = ruleset.create()?;
    for (path, access) in paths {
        // What cannot be opened here cannot be opened later either, so it is left out.
        if let Ok(fd) = PathFd::new(path) {
            created = created.add_rule(PathBeneath::new(fd, access))?;
        }
    }
    for &port in &allowed.connect {
        created = created.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
    }
    for &port in allowed.bind.iter().flatten() {
        created = created.add_rule(NetPort::new(port, AccessNet::BindTcp))?;
    }
    created.restrict_self()
}

/// True where `file` may be read, but not by this process. Landlock restricts what is opened, and `access(2)` opens
/// nothing.
pub fn hides(file: &Path) -> bool {
    let may = rustix::fs::access(file, rustix::fs::Access::READ_OK).is_ok();
    let opened = std::fs::File::open(file).map_err(|error| error.kind());
    may && opened.is_err_and(|kind| kind == std::io::ErrorKind::PermissionDenied)
}

/// Processes outside are out of reach of signals, and their sockets without a file too, unless the service manager has
/// one.
fn scopes() -> BitFlags<Scope> {
    let manager = std::env::var("NOTIFY_SOCKET").unwrap_or_default();
    if manager.starts_with(ABSTRACT) {
        Scope::Signal.into()
    } else {
        Scope::from_all(NEWEST)
    }
}

impl Allowed {
    /// Every path, with what is allowed at it and below.
    fn paths(&self) -> impl Iterator<Item = (PathBuf, BitFlags<AccessFs>)> {
        let with = |access| move |path: &PathBuf| (path.clone(), access);
        let values = self.values.iter().map(with(STORE));
        let read = self.read.iter().map(with(READ));
        let reread = self.reread.iter().flat_map(|file| folders(file));
        let sockets = self.sockets.iter().map(|file| (folder(file), SOCKET));
        let reread = reread.map(|folder| (folder, READ));
        values.chain(read).chain(reread).chain(sockets)
    }
}

/// The directories that `file` is found by: its own, and for each link on the way the one that its target is in, for
/// the link is made to lead to a neighbour of that when all is replaced at once. Never the root, below which is
/// everything.
fn folders(file: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder(file)];
    let mut paths = VecDeque::from([file.to_owned()]);
    let mut looked_at = 0..MOST_LINKS;
    while let (Some(path), Some(_)) = (paths.pop_front(), looked_at.next()) {
        for link in path.ancestors() {
            let Ok(target) = link.read_link() else {
                continue;
            };
            let target = folder(link).join(target);
            let neighbours = folder(&target).canonicalize().ok();
            let neighbours = neighbours.filter(|folder| folder.parent().is_some());
            found.extend(neighbours);
            paths.push_back(target);
        }
    }
    found
}

/// The directory that `file` is in.
fn folder(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if folder.as_os_str().is_empty() => PathBuf::from("."),
        Some(folder) => folder.to_owned(),
        None => file.to_owned(),
    }
}

impl Confined {
    fn of(status: &RestrictionStatus, allowed: Allowed) -> Self {
        let why = match status.landlock {
            LandlockStatus::Available { effective_abi, .. } if effective_abi >= RENAMES => {
                return Self::By(effective_abi, allowed);
            }
            LandlockStatus::Available { .. } => {
                "its Landlock has no renames between directories, as Linux 5.19 has"
            }
            LandlockStatus::NotEnabled => "it has Landlock, which is not enabled (lsm=)",
            LandlockStatus::NotImplemented => "it has no Landlock, or refuses its calls",
        };
        Self::No(format!(" by this kernel: {why}"))
    }

    /// True where files and the network are out of reach.
    fn is_full(&self) -> bool {
        matches!(self, Self::By(abi, _) if *abi >= NETWORK)
    }

    /// Logs what is enforced, and what is left.
    pub fn report(&self) {
        match self {
            Self::By(_, allowed) => {
                let paths: BTreeSet<_> = allowed.paths().map(|(path, _)| path).collect();
                let paths: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
                let connect: Vec<_> = allowed.connect.iter().map(ToString::to_string).collect();
                let connect = (!connect.is_empty()).then(|| connect.join(" "));
                tracing::info!(paths = paths.join(" "), connect, "sandbox: {self}");
            }
            Self::Off => tracing::info!("sandbox: {self}"),
            Self::No(_) => tracing::warn!("sandbox: {self}"),
        }
    }
}

impl fmt::Display for Confined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let abi = match self {
            Self::By(abi, _) => *abi,
            Self::No(why) => return write!(f, "nothing is enforced{why}"),
            Self::Off => return f.write_str("nothing is enforced, as --sandbox off says"),
        };
        let files = if abi >= FILES {
            "files"
        } else {
            "files, but truncate(2)"
        };
        let network = if abi >= NETWORK {
            "network"
        } else {
            "not the network"
        };
        write!(f, "{files}, {network}")?;
        if abi >= SIGNALS {
            f.write_str(", signals")?;
        }
        write!(f, "; Landlock ABI {abi}")
    }
}
