//! What OPTIONS is answered: the methods of each kind of target.

use hyper::header::HeaderValue;

use crate::http::service_config::ServiceConfig;
use crate::http::uploads::UPLOAD_METHODS;

/// An OPTIONS request.
#[derive(Debug)]
pub struct OptionsRequest {
    /// A browser asks on behalf of a page of another origin.
    pub is_preflight: bool,
    /// The fields of requests that the page wants to send.
    pub fields: Option<Box<HeaderValue>>,
    pub target: Target,
}

/// A kind of target, which has its methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Values,
    /// A value, or a folder, that is there.
    Existing,
    /// A value with the query of a link to share.
    Shared,
    /// An upload resource.
    Upload,
    /// The path that takes forms with files.
    Forms,
    /// The feed of changes.
    Watch,
    /// Another page of the server.
    Page,
}

impl Target {
    /// The methods of the target.
    pub fn methods(self, config: &ServiceConfig) -> &'static str {
        match (self, config.read_only) {
            (Self::Values | Self::Existing, true) | (Self::Page, _) => "GET, HEAD, OPTIONS",
            (Self::Shared, true) => "GET, HEAD, POST, OPTIONS",
            (Self::Values, false) => "GET, HEAD, PUT, DELETE, MOVE, COPY, MKCOL, OPTIONS",
            (Self::Existing, false) => "GET, HEAD, PUT, DELETE, MOVE, COPY, OPTIONS",
            (Self::Shared, false) => "GET, HEAD, PUT, POST, DELETE, MOVE, COPY, MKCOL, OPTIONS",
            (Self::Upload, _) => UPLOAD_METHODS,
            // No HEAD: the response has no end.
            (Self::Watch, _) => "GET, OPTIONS",
            (Self::Forms, true) => "OPTIONS",
            (Self::Forms, false) => "POST, OPTIONS",
        }
    }
}
