//! What nearly every test uses: all helpers of this crate, and of the standard library what tests do beside the server, to files, in
//! threads and over time. A file names only what else it uses.

pub use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
pub use std::fs::File;
pub use std::net::{SocketAddr, TcpListener, TcpStream};
pub use std::path::{Path, PathBuf};
pub use std::process::{Command, Stdio};
pub use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
pub use std::sync::{Arc, Mutex};
pub use std::time::{Duration, Instant, SystemTime};
pub use std::{fs, thread};

pub use rustix::process::Signal;
pub use tempfile::TempDir;

pub use crate::*;
