//! The contract of the engine: what a store is reached with, what is asked of it, what it answers, and what it was seen
//! to do: the report of a trial, and the promises that follow from it. Sends nothing and knows no request.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::transfer::{BlockingPool, StagingQuota};
use crate::value::{Current, Error};

pub use crate::value::WriteCondition;

/// The settings that an S3 store is reached with. Credentials are not among them: they come from the environment, files
/// or metadata services.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The objects that are the values.
    pub place: BucketPrefix,
    /// The origins of its endpoints, used in turn; with none, the endpoint of AWS in the region.
    pub endpoints: Vec<String>,
    /// The region that requests are signed for.
    pub region: String,
    /// True where the bucket is a part of the host's name, instead of the first segment of the path.
    pub virtual_host: bool,
    /// CA certificates (PEM) that the endpoints' certificates may chain to, beside the system's.
    pub ca: Option<PathBuf>,
    /// The longest wait for the head of an answer, and from one piece of a body to the next.
    pub timeout: Duration,
    /// Connections to the store at most, for each reactor.
    pub connections: usize,
    /// A store that does not honour conditions on writes is refused at the start; else writes with conditions are
    /// refused.
    pub requires_conditions: bool,
    /// The directory of uploads of unknown length, until they can be sent.
    pub spool: PathBuf,
    /// The shortest value that clients read from the store itself, by a link.
    pub redirect_from: Option<u64>,
}

impl Settings {
    /// The settings of this store through each of its endpoints alone.
    pub fn by_endpoint(&self) -> Vec<Self> {
        let with = |endpoints: &[String]| Self {
            endpoints: endpoints.to_vec(),
            ..self.clone()
        };
        match &self.endpoints[..] {
            [] => vec![self.clone()],
            several => several.chunks(1).map(with).collect(),
        }
    }
}

/// The objects of a store that are the values: a bucket, and the beginning of their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketPrefix {
    /// The bucket.
    pub bucket: String,
    /// The beginning of the names of all objects; empty, or it ends with `/`.
    pub prefix: String,
}

impl fmt::Display for BucketPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.prefix)
    }
}

/// The metadata of a value, known without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteMeta {
    /// Its length in bytes.
    pub len: u64,
    /// The entity tag that the store gives it, quotes included.
    pub etag: String,
    /// When it was written, to the second.
    pub modified: SystemTime,
    /// The media type it was stored with.
    pub media_type: Option<String>,
    /// The fields it was stored with, a line `name: value` for each.
    pub fields: Vec<u8>,
    /// Its digest, where the store keeps one.
    pub sha256: Option<[u8; 32]>,
}

impl RemoteMeta {
    /// The state that preconditions are compared with.
    pub fn current(&self) -> Current<'_> {
        Current {
            etag: &self.etag,
            variant: None,
            modified: self.modified,
        }
    }
}

/// The parts that the reactors of an S3 store share.
#[derive(Debug)]
pub struct S3Context {
    pub settings: Settings,
    pub disk: BlockingPool,
    pub compute: BlockingPool,
    pub quota: Arc<StagingQuota>,
    pub promises: Promises,
}

/// The conditions that the store was seen to keep.
#[derive(Clone, Copy, Debug, Default)]
pub struct Promises {
    /// A write is made if its condition holds, and at no other time.
    pub conditional_put: bool,
    /// A value is removed if its condition holds, and at no other time.
    pub conditional_delete: bool,
}

impl Promises {
    /// Refuses writes under a condition where the store does not keep it.
    pub fn for_put(self) -> Result<(), Error> {
        let missing = Error::NotSupported {
            name: "no-conditions",
            what: "this store does not keep conditions on writes",
        };
        self.conditional_put.then_some(()).ok_or(missing)
    }

    /// Refuses removals under a condition where the store does not keep it.
    pub fn for_delete(self) -> Result<(), Error> {
        let missing = Error::NotSupported {
            name: "no-conditional-delete",
            what: "this store has no removal under a condition",
        };
        self.conditional_delete.then_some(()).ok_or(missing)
    }
}

/// The findings of a trial, row by row.
#[derive(Clone, Debug, Default)]
pub struct ContractReport {
    /// The things that the store should do, each with the number of times that it did it, or what it did instead.
    rows: Vec<(What, Result<usize, String>)>,
}

/// An error for the operator alone, with what the store or the network said.
pub fn explained(error: &Error) -> String {
    match error {
        Error::Refused(said) | Error::BadGateway(said) | Error::Unreachable(said) => {
            format!("{error}: {said}")
        }
        _ => error.to_string(),
    }
}

/// Why a check of a store ends before the store did all that was tried.
#[derive(Debug, thiserror::Error)]
pub enum ContractError {
    /// The store did something else: what.
    #[error("{0}")]
    Fails(String),
    /// The store cannot be used as it is.
    #[error("{}", explained(.0))]
    Unusable(#[from] Error),
}

/// The end of a check of a store that does something else: `how`.
pub fn fails<T>(how: impl Into<String>) -> Result<T, ContractError> {
    Err(ContractError::Fails(how.into()))
}

/// The things that a store should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An upload that breaks off leaves the old value.
    CutUpload,
    /// An upload whose checksum is wrong is refused.
    WrongChecksum,
    /// A list has the names as they are, in the order of their bytes, page by page.
    ListOrder,
    /// A list begins after any name, also one that is not there.
    ListAfter,
    /// `PUT` with `If-None-Match: *` writes only where there is nothing.
    Create,
    /// `PUT` with `If-Match` writes only over that version.
    Swap,
    /// One of several creations at once is made.
    CreateRace,
    /// One of several swaps at once is made.
    SwapRace,
    /// `DELETE` with `If-Match` removes only that version.
    Remove,
    /// One of several swaps and removals of one version at once is made.
    RemoveRace,
    /// A write or a removal through one endpoint is seen through all others at once.
    EndpointReads,
    /// As [`What::CreateRace`], through all endpoints.
    EndpointCreateRace,
    /// As [`What::SwapRace`], through all endpoints.
    EndpointSwapRace,
}

impl ContractReport {
    /// Adds the verdict of a check on `what`. The error is that of a store that cannot be used.
    pub fn add(&mut self, what: What, checked: Result<usize, ContractError>) -> Result<(), Error> {
        match checked {
            Err(ContractError::Unusable(error)) => return Err(error),
            checked => self.note(what, checked),
        }
        Ok(())
    }

    /// As [`ContractReport::add`], of a check that an error of the store fails too.
    pub fn note(&mut self, what: What, checked: Result<usize, ContractError>) {
        let verdict = checked.map_err(|fault| fault.to_string());
        self.rows.push((what, verdict));
    }

    /// The first of these things that the store does wrong.
    pub fn fault<'a>(&'a self, of: &'a [What]) -> Option<&'a str> {
        self.faults_of(of).next()
    }

    /// All that keeps it from being served, in one line.
    pub fn faults(&self) -> String {
        let needed = self.faults_of(&What::NEEDED);
        let all: Vec<_> = needed.chain(self.faults_of(&What::FOR_PUT)).collect();
        all.join("; ")
    }

    fn faults_of<'a>(&'a self, of: &'a [What]) -> impl Iterator<Item = &'a str> {
        let rows = self.rows.iter().filter(|(what, _)| of.contains(what));
        rows.filter_map(|(_, verdict)| verdict.as_ref().err().map(String::as_str))
    }

    /// True where the store can be served without `--s3-conditions off`.
    pub fn is_servable(&self) -> bool {
        self.faults().is_empty()
    }

    /// True where the store was seen to do this.
    pub fn keeps(&self, what: What) -> bool {
        let mut rows = self.rows.iter();
        rows.any(|(tried, verdict)| *tried == what && verdict.is_ok())
    }
}

impl What {
    /// The things that a value store cannot do without.
    pub const NEEDED: [Self; 4] = [
        Self::CutUpload,
        Self::ListOrder,
        Self::ListAfter,
        Self::EndpointReads,
    ];
    /// The things that conditional writes need.
    pub const FOR_PUT: [Self; 6] = [
        Self::Create,
        Self::Swap,
        Self::CreateRace,
        Self::SwapRace,
        Self::EndpointCreateRace,
        Self::EndpointSwapRace,
    ];
    /// The things that conditional removals need.
    pub const FOR_DELETE: [Self; 2] = [Self::Remove, Self::RemoveRace];

    fn text(self) -> &'static str {
        match self {
            Self::CutUpload => "an upload that breaks off leaves the old value",
            Self::WrongChecksum => "an upload with a wrong checksum is refused",
            Self::ListOrder => "a list has the names as they are, in byte order",
            Self::ListAfter => "a list begins after any name, also an absent one",
            Self::Create => "PUT with If-None-Match: * creates only",
            Self::Swap => "PUT with If-Match replaces that version only",
            Self::CreateRace => "of 8 creations at once, one is made",
            Self::SwapRace => "of 8 swaps at once, one is made",
            Self::Remove => "DELETE with If-Match removes that version only",
            Self::RemoveRace => "of 4 swaps and 4 removals at once, one is made",
            Self::EndpointReads => "a change through one endpoint is so for all others",
            Self::EndpointCreateRace => "of 8 creations through all endpoints, one is made",
            Self::EndpointSwapRace => "of 8 swaps through all endpoints, one is made",
        }
    }
}

impl fmt::Display for ContractReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, verdict) in &self.rows {
            let text = what.text();
            match verdict {
                Ok(times) => writeln!(f, "{text:<52} yes, {times} times")?,
                Err(how) => writeln!(f, "{text:<52} NO: {how}")?,
            }
        }
        Ok(())
    }
}
