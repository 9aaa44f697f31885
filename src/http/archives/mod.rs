//! Archives: all values below a folder as one tar or zip, and the values that a tar becomes; what requests ask for, and what is
//! answered. Pure; [`pack`] makes an archive as fast as its client takes it, and [`unpack`] stores the members of one as they arrive.
//!
//! An archive is no snapshot of its folder: each value in it is whole and of one version, and they may be of different moments.

pub mod pack;
pub mod tar;
pub mod unpack;
pub mod zip;

use std::pin::Pin;

use futures_util::Stream;
use hyper::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, HeaderMap,
    HeaderValue,
};
use serde::Serialize;

use crate::http::body::Piece;
use crate::http::head::syntax::{encoded, put};
use crate::http::service_config::ServiceConfig;
use crate::http::values::conditional::preconditions;
use crate::http::values::digest_fields::are_announced;
use crate::http::values::fields::end;
use crate::store::{Digests, Error, Page, Preconditions, Prefixes, WriteCondition};

/// The parameter of a query that names the format of an archive.
const PARAMETER: &str = "archive";

/// The most keys that an answer names.
const MAX_NAMED: usize = 100;

/// A format of archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveFormat {
    Tar,
    Zip,
}

impl ArchiveFormat {
    /// The format that the query names; `None` where it asks for no archive.
    pub fn of(query: Option<&str>) -> Result<Option<Self>, BadArchive> {
        let mut query = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        let Some((_, format)) = query.find(|(name, _)| name == PARAMETER) else {
            return Ok(None);
        };
        match &*format {
            "tar" => Ok(Some(Self::Tar)),
            "zip" => Ok(Some(Self::Zip)),
            _ => Err(BadArchive::Format),
        }
    }

    /// The extension of its files, and its media type.
    fn terms(self) -> (&'static str, &'static str) {
        match self {
            Self::Tar => ("tar", "application/x-tar"),
            Self::Zip => ("zip", "application/zip"),
        }
    }
}

/// The reason that an archive is not made, or not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadArchive {
    #[error("bad archive: it is tar or zip")]
    Format,
    #[error("only a tar is unpacked: send PUT with archive=tar")]
    OnlyTar,
    #[error("the folder has more values than a zip can list here: take archive=tar")]
    TooMany,
    #[error("the server decodes no archive: send the tar as it is, not compressed")]
    Coding,
    #[error(
        "the server checks no digest of an archive: store each value with PUT to have it checked"
    )]
    Digest,
    #[error("the values of an archive have no end: store each value with PUT to give it one")]
    End,
    #[error("the only condition on an archive is If-None-Match: *, which stores new values alone")]
    Condition,
    #[error("a part of an archive cannot be stored: PUT takes no Content-Range")]
    Part,
    #[error("an archive comes in one request: it cannot be resumed")]
    Resumable,
    #[error("this is no tar: a header has not the sum that it names")]
    Sum,
    #[error("this is no tar, but a compressed file: send the tar as it is")]
    Compressed,
    #[error("a header of the tar is malformed")]
    Header,
    #[error("the names and attributes before a member are too long")]
    LongHeader,
    #[error("the tar ends before its end mark: it was cut off")]
    Ends,
    #[error("the tar goes on behind its end mark")]
    Behind,
    #[error("it is {0}, and only plain files are stored")]
    Kind(&'static str),
}

/// A request for an archive of the values below a folder.
#[derive(Debug)]
pub struct ArchiveRequest {
    pub format: ArchiveFormat,
    /// The name of the folder with the `/` at its end; empty for the root.
    pub folder: String,
    /// The first page of its keys.
    pub page: Page,
}

impl ArchiveRequest {
    pub fn new(format: ArchiveFormat, folder: String) -> Self {
        let page = Page {
            prefix: folder.clone(),
            after: String::new(),
            limit: 1000,
            by_folder: false,
            within: Prefixes::all(),
        };
        Self {
            format,
            folder,
            page,
        }
    }
}

/// A request to store the members of the tar in its body, below a folder.
#[derive(Debug)]
pub struct UnpackRequest {
    /// As in [`ArchiveRequest`].
    pub folder: String,
    /// Values that are there stay as they are.
    pub only_new: bool,
}

impl UnpackRequest {
    /// The request with these `headers`. A field that the server would have to ignore, though it says something of the values, is refused.
    pub fn of(
        format: ArchiveFormat,
        folder: String,
        headers: &HeaderMap,
    ) -> Result<Self, BadArchive> {
        if format != ArchiveFormat::Tar {
            return Err(BadArchive::OnlyTar);
        }
        if headers.contains_key(CONTENT_RANGE) {
            return Err(BadArchive::Part);
        }
        let is_identity =
            |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"identity");
        if !headers.get_all(CONTENT_ENCODING).iter().all(is_identity) {
            return Err(BadArchive::Coding);
        }
        check_digests(headers)?;
        if end(headers) != Ok(None) {
            return Err(BadArchive::End);
        }
        let given = preconditions(headers).filter(Preconditions::are_of_writes);
        let only_new = match given.map(|given| given.exact()) {
            None => false,
            Some(Some(WriteCondition::Create)) => true,
            Some(_) => return Err(BadArchive::Condition),
        };
        Ok(Self { folder, only_new })
    }
}

/// Refuses digests in the fields of an archive, or in its trailers.
fn check_digests(fields: &HeaderMap) -> Result<(), BadArchive> {
    let is_none = Digests::of(fields) == Ok(Digests::default()) && !are_announced(fields);
    is_none.then_some(()).ok_or(BadArchive::Digest)
}

/// The bytes of an archive, made as fast as the client takes them.
pub type Pieces = Pin<Box<dyn Stream<Item = Result<Piece, Error>>>>;

/// An archive that answers a request.
pub struct Archive {
    pub format: ArchiveFormat,
    pub folder: String,
    pub pieces: Pieces,
}

/// Adds the headers of an archive of this folder: it is saved under the folder's name (RFC 6266).
pub fn describe(
    headers: &mut HeaderMap,
    format: ArchiveFormat,
    folder: &str,
    config: &ServiceConfig,
) {
    let (extension, media_type) = format.terms();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    let name = folder.trim_end_matches('/').rsplit('/').next();
    let name = name.filter(|name| !name.is_empty()).unwrap_or("archive");
    let is_plain = |c: char| matches!(c, ' '..='~') && !matches!(c, '"' | '%' | '\\');
    let plain: String = name
        .chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect();
    let mut disposition = format!("attachment; filename=\"{plain}.{extension}\"");
    if plain != name {
        let encoded = encoded(name);
        disposition += &format!("; filename*=UTF-8''{encoded}.{extension}");
    }
    put(headers, CONTENT_DISPOSITION, disposition);
    if let Some(value) = &config.cache_control {
        headers.insert(CACHE_CONTROL, value.clone());
    }
}

/// What has become of an archive that is unpacked.
#[derive(Debug, Default, Serialize)]
pub struct Unpacked {
    /// The number of values that were stored, and of their bytes.
    pub stored: u64,
    pub bytes: u64,
    /// The number of members that were not stored, as their keys had values already; and the keys of the first ones.
    pub existing: u64,
    pub existing_keys: Vec<String>,
}

impl Unpacked {
    fn leave(&mut self, key: String) {
        self.existing += 1;
        if self.existing_keys.len() < MAX_NAMED {
            self.existing_keys.push(key);
        }
    }

    /// As text, for a program.
    pub fn json(&self) -> Vec<u8> {
        let mut json = serde_json::to_vec(self).unwrap_or_default();
        json.push(b'\n');
        json
    }
}
