//! What nearly every test uses: all helpers of this crate, and of the standard library what tests do beside the server,
//! to files, in threads and over time. A file names only what else it uses.

pub use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
pub use std::fs::File;
pub use std::io::{BufRead as _, BufReader, Read as _, Write as _};
pub use std::net::{SocketAddr, TcpListener, TcpStream};
pub use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
pub use std::path::{Path, PathBuf};
pub use std::process::{Command, Stdio};
pub use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
pub use std::sync::{Arc, Mutex};
pub use std::time::{Duration, Instant, SystemTime};
pub use std::{fs, thread};

pub use rustix::process::Signal;
pub use tempfile::TempDir;

pub use crate::*;
