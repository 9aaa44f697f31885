//! The head of a request, as the features of a door read it: each looks whether the request is its own.
//!
//! Reads what several features read alike, and refuses what all of them refuse. Knows no feature, and does not look
//! into the store.

use hyper::header::{CONTENT_LENGTH, HeaderValue, ORIGIN};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode, Version};

use crate::http::auth::credentials::FolderLink;
use crate::http::head::CommonHeaders;
use crate::http::head::client::{Client, Door};
use crate::http::head::path::{folder, key};
use crate::http::head::query::QueryFields;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::BAD_KEY;
use crate::http::refusal::kind::Kind;
use crate::http::service_config::ServiceConfig;
use crate::store::Key;

pub const LENGTH_REQUIRED: &Kind = &Kind::new(StatusCode::LENGTH_REQUIRED, "length-required");
const IF_FIELD: &Kind = &Kind::new(StatusCode::NOT_IMPLEMENTED, "if-field");
const IS_FOLDER: Refusal = Refusal::new(
    BAD_KEY,
    "this is the address of a folder, which has no value: name a key in it, or make the folder with MKCOL",
);

/// The head of a request, with the findings in it.
pub struct RequestHead<'a> {
    pub head: &'a Parts,
    pub path: &'a str,
    pub query: QueryFields<'a>,
    /// The length of the body, if the framing has it.
    pub len: Option<u64>,
    pub client: Client,
    pub common: CommonHeaders<'a>,
    pub config: &'a ServiceConfig,
    /// The signed link to a folder that it is by.
    pub link: Option<&'a FolderLink>,
}

impl<'a> RequestHead<'a> {
    pub fn new(
        head: &'a Parts,
        len: Option<u64>,
        client: Client,
        config: &'a ServiceConfig,
    ) -> Self {
        Self {
            head,
            path: head.uri.path(),
            query: QueryFields::of(head.uri.query()),
            len,
            client,
            common: CommonHeaders::of(head),
            config,
            link: None,
        }
    }

    /// True for GET and HEAD.
    pub fn reads(&self) -> bool {
        matches!(self.head.method, Method::GET | Method::HEAD)
    }

    /// The Origin of the request, if it is allowed.
    pub fn allowed_origin(&self) -> Option<HeaderValue> {
        let origins = &self.config.allowed.origins;
        if origins.is_empty() {
            return None;
        }
        let origin = self.head.headers.get(ORIGIN)?;
        origins.allow(origin.as_bytes()).then(|| origin.clone())
    }

    /// The key at the path.
    pub fn key(&self) -> Result<Key<'a>, Refusal> {
        key(self.path, self.config.compat)
    }

    /// The key at the path, whose value is to be changed.
    pub fn changed_key(&self) -> Result<Key<'a>, Refusal> {
        self.key().map_err(|why| {
            let is_folder = why.kind == BAD_KEY && matches!(folder(self.path), Ok(Some(_)));
            if is_folder { IS_FOLDER } else { why }
        })
    }

    /// The prefix of the keys in the folder at the path, if that is of one; empty for the root.
    pub fn folder(&self) -> Result<Option<String>, Refusal> {
        match self.path {
            _ if self.config.compat => Ok(None),
            "/" => Ok(Some(String::new())),
            path => folder(path),
        }
    }

    /// An HTTP/1.0 body without a length would end with the connection, as a cut-off one does.
    pub fn needs_length(&self) -> Result<(), Refusal> {
        let head = self.head;
        let has_body = matches!(head.method, Method::PUT | Method::POST | Method::PATCH);
        let has_length = || head.headers.contains_key(CONTENT_LENGTH);
        if has_body && head.version < Version::HTTP_11 && !has_length() {
            return Err(LENGTH_REQUIRED.because("a body over HTTP/1.0 needs a Content-Length"));
        }
        Ok(())
    }

    /// Refuses a condition on the locks and states of `WebDAV` (RFC 4918, section 10.4), which this server cannot test.
    pub fn refuses_if(&self) -> Result<(), Refusal> {
        if self.client.door == Door::Plain
            && !self.config.compat
            && self.head.headers.contains_key("if")
        {
            return Err(IF_FIELD.because(
                "this server has none of the locks and states that the field If of WebDAV asks for: nothing was done; If-Match asks for a version",
            ));
        }
        Ok(())
    }
}
