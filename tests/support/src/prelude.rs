//! What nearly every test uses: all helpers of this crate, and of the standard library what tests do beside the server, to files, in
//! threads and over time. A file names only what else it uses.

pub use std::collections::BTreeMap;
pub use std::net::SocketAddr;
pub use std::path::{Path, PathBuf};
pub use std::process::Command;
pub use std::time::{Duration, Instant, SystemTime};
pub use std::{fs, thread};

pub use rustix::process::Signal;

pub use crate::*;
