//! What is asked of the store and what it answers, as values.

use std::ops::Range;
use std::time::SystemTime;

use crate::transfer::Uploader;

/// What is known of a value without reading it.
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

/// What of a value is to be read.
#[derive(Clone, Debug, Default)]
pub struct Read<'a> {
    /// These bytes, and not none; without a range, all of it.
    pub range: Option<Range<u64>>,
    /// Only of the version with this entity tag.
    pub only: Option<&'a str>,
}

/// The condition of a write, as a store can decide it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exact {
    /// None.
    Any,
    /// There is no value.
    Create,
    /// The value has this entity tag.
    Swap(String),
}

/// What is kept with a value.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// Its media type.
    pub media_type: Option<Box<str>>,
    /// Its fields, a line `name: value` for each.
    pub fields: Option<Box<[u8]>>,
    /// Its digest, where that is known before the body is received: the store refuses any other body.
    pub sha256: Option<[u8; 32]>,
}

/// What an upload begins with.
#[derive(Debug)]
pub struct Begin {
    /// How many bytes there will be, where that is known.
    pub len: Option<u64>,
    /// What is kept with the value.
    pub kept: Kept,
    /// The condition, where it is known before the body is received. Without one, the value is kept until
    /// its publishing gives it, which may then be called again.
    pub condition: Option<Exact>,
    /// The client that it counts for, where that matters.
    pub uploader: Option<Uploader>,
}

/// A write that was made.
#[derive(Clone, Debug)]
pub struct Written {
    /// The entity tag of the value.
    pub etag: String,
}

/// What a listing tells of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteValue {
    /// Its length in bytes.
    pub len: u64,
    /// The entity tag that the store gives it, quotes included.
    pub etag: String,
    /// When it was written.
    pub modified: SystemTime,
}
