//! The parser of what is asked of folders, and of the methods of RFC 4918.

use hyper::{Method, StatusCode};

use super::RequestHead;
use crate::http::archives::{
    self, ArchiveFormat, ArchiveRequest, UnpackRequest, selected, takes_no,
};
use crate::http::folders::{CopyFolder, MakeFolder, MoveFolder, RemoveFolder};
use crate::http::head::path::{check_depth, folder};
use crate::http::listing::perform::list_request;
use crate::http::listing::site::index_or;
use crate::http::listing::{self, ListFormat, ListTarget, Query};
use crate::http::refusal::Refusal;
use crate::http::refusal::common::{FOLDER_PRECONDITION, NO_SUCH_PATH, READ_ONLY};
use crate::http::refusal::kind::{Flag, Kind};
use crate::http::service::operation::Operation;
use crate::http::values::conditional::preconditions_of_write;
use crate::http::values::moves::Relocating;
use crate::http::values::moves::request::{OF_FOLDER, is_deep, relocation};
use crate::store::{Error, Key, WriteCondition};

const NO_KEY: Refusal = Refusal::new(
    &Kind::new(StatusCode::BAD_REQUEST, "no-key")
        .compat(&Kind::new(StatusCode::NO_CONTENT, "").flags(&[Flag::Empty])),
    "PUT needs a key, as in PUT /key",
);

impl<'a> RequestHead<'a> {
    /// A listing of a folder, or the index in its place, or an archive of it.
    pub(super) fn below(&self, folder: &str) -> Result<Operation<'a>, Refusal> {
        let (of_listing, of_archive) = (listing::PARAMETERS, archives::PARAMETERS);
        if let Some(format) = ArchiveFormat::of(&self.query)? {
            self.query.check(of_archive, &[of_listing])?;
            let target = ListTarget::new(folder.to_owned(), Query::default(), ListFormat::Json);
            let request = ArchiveRequest {
                format,
                page: target.page,
                selected: selected(&self.query, folder)?,
            };
            return Ok(Operation::other(request));
        }
        self.query.check(of_listing, &[of_archive])?;
        let listing = match list_request(self.head, &self.query, folder.to_owned())? {
            Ok(listing) => listing,
            Err(redirect) => return Ok(Operation::other(redirect)),
        };
        let asked = index_or(listing, self.head, &self.query, folder, self.config);
        Ok(Operation::Other(asked))
    }

    /// A PUT to an address that is of no key, for the reason `why`: an archive that is unpacked into a folder, if it
    /// asks for that.
    #[cold]
    pub(super) fn unpack(&self, why: Refusal) -> Result<Operation<'a>, Refusal> {
        let (head, config) = (self.head, self.config);
        let folder = match self.path {
            _ if config.compat || head.method != Method::PUT => None,
            "/" => Some(String::new()),
            path => folder(path).unwrap_or_default(),
        };
        if folder.is_some() {
            let others = [listing::PARAMETERS, archives::PARAMETERS];
            self.query.check(archives::OF_TAR, &others)?;
        }
        let (Some(folder), Some(format)) = (folder, ArchiveFormat::of(&self.query)?) else {
            return Err(if why == NO_SUCH_PATH { NO_KEY } else { why });
        };
        if config.read_only {
            return Err(READ_ONLY);
        }
        self.needs_length()?;
        self.refuses_if()?;
        if self.common.resumable && config.resumes() {
            return Err(takes_no("Upload-Complete"));
        }
        let request = UnpackRequest::of(format, folder, &head.headers)?;
        Ok(Operation::other(request))
    }

    /// A method of RFC 4918.
    pub(super) fn extension(&self) -> Result<Operation<'a>, Refusal> {
        let (head, config) = (self.head, self.config);
        let is_copy = match head.method.as_str() {
            _ if config.compat => return Err(self.refuse_method()),
            "MKCOL" => return self.make_folder(),
            "MOVE" => false,
            "COPY" => true,
            _ => return Err(self.refuse_method()),
        };
        if config.read_only {
            return Err(READ_ONLY);
        }
        self.refuses_if()?;
        let asked = relocation(head, &self.query, is_copy, self.client, config)?;
        Ok(match asked {
            Relocating::Value(asked) => Operation::Other(asked),
            Relocating::Folder(asked) if is_copy => Operation::other(CopyFolder(asked)),
            Relocating::Folder(asked) => Operation::other(MoveFolder(asked)),
        })
    }

    /// True where the path is that of a folder.
    pub(super) fn is_folder(&self) -> bool {
        !self.config.compat && matches!(folder(self.path), Ok(Some(_)))
    }

    /// The folder at the path, with a `/` at the end or without, which is to be changed.
    fn changed_folder(&self) -> Result<Key<'static>, Refusal> {
        self.query.check_all(OF_FOLDER)?;
        let folder = match folder(self.path)? {
            Some(found) => found,
            None => folder(&format!("{}/", self.path))?.ok_or(NO_SUCH_PATH)?,
        };
        if self.config.read_only {
            return Err(READ_ONLY);
        }
        Ok(Key::new(folder.trim_end_matches('/').to_owned())?)
    }

    fn make_folder(&self) -> Result<Operation<'a>, Refusal> {
        if self.path == "/" {
            return Err(Error::NameTaken("the root, a folder,").into());
        }
        let folder = self.changed_folder()?;
        self.refuses_if()?;
        let given = preconditions_of_write(&self.head.headers);
        // `If-None-Match: *` asks for what it does anyway.
        if given.is_some_and(|it| !matches!(it.exact(), Some(WriteCondition::Create))) {
            return Err(FOLDER_PRECONDITION);
        }
        let below = Key::new(format!("{folder}/k"))?;
        check_depth(&below, self.config.limits.max_key_depth)?;
        Ok(Operation::other(MakeFolder(folder)))
    }

    pub(super) fn remove_folder(&self) -> Result<Operation<'a>, Refusal> {
        let headers = &self.head.headers;
        let folder = self.changed_folder()?;
        self.refuses_if()?;
        if preconditions_of_write(headers).is_some() {
            return Err(FOLDER_PRECONDITION);
        }
        let is_deep = is_deep(headers)?.unwrap_or(false);
        Ok(Operation::other(RemoveFolder { folder, is_deep }))
    }
}
