//! What an S3 store is reached with: pure data.

use std::path::PathBuf;
use std::time::Duration;

/// What an S3 store is reached with. Credentials are not among it: they come from the environment, files or metadata
/// services.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which objects are the values.
    pub place: Place,
    /// The origins of its endpoints, in turn; with none, those of AWS in the region.
    pub endpoints: Vec<String>,
    /// The region that requests are signed for.
    pub region: String,
    /// Whether the bucket is a part of the host's name, instead of the first segment of the path.
    pub virtual_host: bool,
    /// Certificates, in PEM, that the endpoints' are proved with, besides those of the system.
    pub ca: Option<PathBuf>,
    /// The longest wait for the head of an answer, and from one piece of a body to the next.
    pub timeout: Duration,
    /// Connections to the store at most, for each reactor.
    pub connections: usize,
    /// Whether the store has to honour conditions on writes.
    pub conditions: Conditions,
    /// Where uploads of unknown length are kept until they can be sent.
    pub spool: PathBuf,
    /// From which length on a value is read from the store itself, by a link.
    pub redirect_from: Option<u64>,
}

impl Settings {
    /// The same store through each of its endpoints alone.
    pub fn by_endpoint(&self) -> Vec<Self> {
        if self.endpoints.len() < 2 {
            return vec![self.clone()];
        }
        let alone = |endpoint: &String| Self {
            endpoints: vec![endpoint.clone()],
            ..self.clone()
        };
        self.endpoints.iter().map(alone).collect()
    }
}

/// Which objects of a store are the values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The bucket.
    pub bucket: String,
    /// What the names of all objects begin with; empty, or it ends with `/`.
    pub prefix: String,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.prefix)
    }
}

/// Whether the store has to honour conditions on writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conditions {
    /// A store that does not is refused at the start.
    Require,
    /// Writes with conditions are refused.
    Off,
}
