//! Archives: the values below a folder, or a selection of them, as one tar or zip, and the values that a tar becomes;
//! what requests ask for, and what is answered. Pure; [`pack`] makes an archive as fast as its client takes it, and
//! [`unpack`] stores the members of one as they arrive.
//!
//! An archive is no snapshot of its folder: each value in it is whole and of one version, and they may be of different
//! moments.

pub mod pack;
pub mod tar;
pub mod unpack;
pub mod zip;

use hyper::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, HeaderMap,
    HeaderValue,
};
use hyper::{Method, StatusCode};

use crate::http::fields::end;
use crate::http::head::query::{BAD_QUERY, Parameters, QueryFields};
use crate::http::head::syntax::{encoded, put};
use crate::http::listing::{self, ListFormat, ListTarget, Query};
use crate::http::refusal::Refusal;
use crate::http::refusal::kind::Kind;
use crate::http::request::head::RequestHead;
use crate::http::service_config::ServiceConfig;
use crate::http::values::conditional::preconditions_of_write;
use crate::http::values::digest_fields::are_announced;
use crate::http::verb::{Parsed, parsed};
use crate::store::{BadKey, Digests, Key, Page, WriteCondition};

/// A format of archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveFormat {
    /// One that Unix programs read; a folder takes it, too.
    Tar,
    /// One that all systems open.
    Zip,
}

impl ArchiveFormat {
    /// The format that the query names; `None` where it asks for no archive.
    pub fn of(query: &QueryFields<'_>) -> Result<Option<Self>, Refusal> {
        match query.get(ARCHIVE) {
            None => Ok(None),
            Some("tar") => Ok(Some(Self::Tar)),
            Some("zip") => Ok(Some(Self::Zip)),
            Some(_) => Err(BAD_QUERY.because("bad archive: it is tar or zip")),
        }
    }
}

pub const BAD_ARCHIVE: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "bad-archive");
const COMPRESSED: &Kind = &Kind::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content-coding");

/// The refusal of what is no tar.
pub const NO_TAR: Refusal = Refusal::new(
    COMPRESSED,
    "only a tar is unpacked, no zip and none that is compressed: send it as it is, with archive=tar",
);

/// The refusal of a field that would have to be ignored.
fn takes_no(field: &str) -> Refusal {
    BAD_ARCHIVE.because(format!(
        "an archive is stored without {field}: for that, store each value with PUT"
    ))
}

/// A request for an archive of the values below a folder.
#[derive(Debug)]
pub struct ArchiveRequest {
    pub format: ArchiveFormat,
    /// The first page of the keys. Its prefix is the name of the folder with the `/` at its end; empty for the root.
    pub page: Page,
    /// What the archive has alone, if it is not of all: the names of values and folders without that of this folder, in
    /// their order.
    pub selected: Option<Vec<Box<str>>>,
}

/// The name of the parameter that asks for an archive, or says that the body is one.
const ARCHIVE: &str = "archive";

/// The name of the parameter that selects a value, or a folder, whose name ends with `/`.
const FILES: &str = "files";

/// The parameters of an archive.
const PARAMETERS: &Parameters = &Parameters {
    of: "an archive",
    once: &[ARCHIVE],
    many: &[FILES],
    hint: "it has archive, and files=NAME selects",
};

/// The parameters of a tar that is stored below a folder.
const OF_TAR: &Parameters = &Parameters {
    of: "a tar that is stored",
    once: &[ARCHIVE],
    many: &[],
    hint: "it has archive, and is stored whole",
};

/// The parameters of a value that is stored: none. With that of a tar it would get the name of the folder.
const OF_VALUE: &Parameters = &Parameters {
    of: "a value",
    once: &[],
    many: &[],
    hint: "archive is for a folder, whose path ends with '/'; curl sends a tar there by -T - < FILE",
};

/// The most names of a selection: each may be a key of its own, which takes a look into the store.
const MOST: usize = 1000;

/// The names of values and folders below `folder` that the query selects, if it selects some: each once, in their
/// order.
fn selected(query: &QueryFields<'_>, folder: &str) -> Result<Option<Vec<Box<str>>>, Refusal> {
    let mut all: Vec<Box<str>> = Vec::new();
    for name in query.all(FILES) {
        if all.len() == MOST {
            return Err(BAD_QUERY.because(format!(
                "an archive has at most {MOST} names in files: select folders, or take the whole folder"
            )));
        }
        if name.is_empty() {
            return Err(BadKey::Empty.into());
        }
        // The rules are for keys: one below a folder has to be valid.
        let below = if name.ends_with('/') { "k" } else { "" };
        Key::new(format!("{folder}{name}{below}"))?;
        all.push(name.into());
    }
    all.sort_unstable();
    // What is in a selected folder stands behind it.
    all.dedup_by(|later, kept| {
        later == kept || (kept.ends_with('/') && later.starts_with(&**kept))
    });
    Ok((!all.is_empty()).then_some(all))
}

/// A request to store the members of the tar in its body, below a folder.
#[derive(Debug)]
pub struct UnpackRequest {
    /// The name of the folder with the `/` at its end; empty for the root.
    pub folder: String,
    /// Values that are there stay as they are.
    pub only_new: bool,
}

impl UnpackRequest {
    /// The request with these `headers`. A field that the server would have to ignore, though it says something of the
    /// values, is refused.
    pub fn of(format: ArchiveFormat, folder: String, headers: &HeaderMap) -> Result<Self, Refusal> {
        let is_identity = |it: &HeaderValue| it.as_bytes().eq_ignore_ascii_case(b"identity");
        let mut codings = headers.get_all(CONTENT_ENCODING).iter();
        if format != ArchiveFormat::Tar || !codings.all(is_identity) {
            return Err(NO_TAR);
        }
        check_digests(headers)?;
        if headers.contains_key(CONTENT_RANGE) {
            return Err(takes_no("Content-Range"));
        }
        if end(headers) != Ok(None) {
            return Err(takes_no("an end"));
        }
        let given = preconditions_of_write(headers);
        let only_new = given.is_some();
        if given.is_some_and(|it| !matches!(it.exact(), Some(WriteCondition::Create))) {
            return Err(takes_no("conditions but If-None-Match: *"));
        }
        Ok(Self { folder, only_new })
    }
}

/// The GET of an archive. What looks like one mistyped is refused: it would be a listing.
pub fn packing(asked: &RequestHead<'_>) -> Parsed {
    let (query, of_listing) = (&asked.query, listing::PARAMETERS);
    if !asked.reads() || query.is_empty() {
        return Ok(None);
    }
    let Some(folder) = asked.folder()? else {
        return Ok(None);
    };
    let Some(format) = ArchiveFormat::of(query)? else {
        query.check(of_listing, &[PARAMETERS])?;
        return Ok(None);
    };
    query.check(PARAMETERS, &[of_listing])?;
    let selected = selected(query, &folder)?;
    parsed(ArchiveRequest {
        format,
        page: ListTarget::new(folder, Query::default(), ListFormat::Json).page,
        selected,
    })
}

/// The PUT of an archive to a folder. A PUT of a value with the parameter of one would get the name of the folder.
pub fn unpacking(asked: &RequestHead<'_>) -> Parsed {
    let (head, query, config) = (asked.head, &asked.query, asked.config);
    let in_parts = asked.common.resumable && config.resumes();
    let stores = head.method == Method::PUT || (head.method == Method::POST && in_parts);
    if !stores || query.is_empty() || config.compat {
        return Ok(None);
    }
    if asked.key().is_ok() {
        asked.config.may_change()?;
        query.check(OF_VALUE, &[OF_TAR])?;
        return Ok(None);
    }
    let folder = match asked.folder() {
        Ok(Some(folder)) if head.method == Method::PUT => folder,
        _ => return Ok(None),
    };
    query.check(OF_TAR, &[listing::PARAMETERS, PARAMETERS])?;
    let Some(format) = ArchiveFormat::of(query)? else {
        return Ok(None);
    };
    asked.config.may_change()?;
    asked.needs_length()?;
    asked.refuses_if()?;
    if in_parts {
        return Err(takes_no("Upload-Complete"));
    }
    parsed(UnpackRequest::of(format, folder, &head.headers)?)
}

/// Refuses digests in the fields of an archive, or in its trailers.
fn check_digests(fields: &HeaderMap) -> Result<(), Refusal> {
    let is_none = Digests::of(fields) == Ok(Digests::default()) && !are_announced(fields);
    is_none.then_some(()).ok_or_else(|| takes_no("digests"))
}

/// The name under which an archive of `folder` is saved, without its extension: a selection is not taken for the whole,
/// and one of a single folder or value has the name of that.
fn saved_as(folder: &str, selected: Option<&[Box<str>]>) -> String {
    let (of, number) = match selected {
        Some([name]) => (&**name, 1),
        Some(names) => (folder, names.len()),
        None => (folder, 1),
    };
    let name = of.trim_end_matches('/').rsplit('/').next();
    let name = name.filter(|name| !name.is_empty()).unwrap_or("archive");
    match number {
        1 => name.to_owned(),
        _ => format!("{name} ({number} selected)"),
    }
}

/// Adds the headers of an archive, which is saved under this `name` (RFC 6266).
fn describe(headers: &mut HeaderMap, format: ArchiveFormat, name: &str, config: &ServiceConfig) {
    let (extension, media_type) = match format {
        ArchiveFormat::Tar => ("tar", "application/x-tar"),
        ArchiveFormat::Zip => ("zip", "application/zip"),
    };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    let is_plain = |c: char| matches!(c, ' '..='~') && !matches!(c, '"' | '%' | '\\');
    let plain = name.replace(|c| !is_plain(c), "_");
    let mut disposition = format!("attachment; filename=\"{plain}.{extension}\"");
    if plain != name {
        let encoded = encoded(name);
        disposition = format!("{disposition}; filename*=UTF-8''{encoded}.{extension}");
    }
    put(headers, CONTENT_DISPOSITION, disposition);
    if let Some(value) = &config.cache_control {
        headers.insert(CACHE_CONTROL, value.clone());
    }
}
