//! The configuration of the service: the meaning of the options about requests and responses.
//!
//! Each reactor has its own copy, which no reload changes. It knows nothing of the command line.

use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};

use crate::http::exchange::request_log::RequestLogs;
use crate::http::fields::KeptFields;
use crate::http::head::allowlists::AllowLists;
use crate::http::head::client::TrustedProxies;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::READ_ONLY;
use crate::http::sites::Sites;
use crate::store::Prefixes;

/// The configuration of the service.
#[derive(Clone, Debug, Default)]
pub struct ServiceConfig {
    /// The routes of the listener.
    pub routes: Routes,
    /// Answers as the C server did, where that differs (docs/http.md).
    pub compat: bool,
    /// Drops the body of a PUT.
    pub discard: bool,
    /// Refuses changes.
    pub read_only: bool,
    /// A name that symbolic links lead to a value or a folder stands for that.
    pub follows_symlinks: bool,
    /// The store keeps unfinished uploads; only the store knows.
    pub store_resumes: bool,
    /// There are rules of access: responses depend on the client.
    pub authorizes: bool,
    /// Clients get a 104 before the response, with the address at which the upload can be resumed.
    pub interim: bool,
    /// The limits of uploads.
    pub limits: UploadLimits,
    /// The fields that are kept with values besides those that always are.
    pub kept_fields: KeptFields,
    /// The keys whose last segment is the SHA-256 of the value.
    pub named_by_sha256: Prefixes,
    /// The keys of entries that name other values, as of Bazel's action cache.
    pub action_results: Prefixes,
    /// The keys of repositories of restic, folders.
    pub repositories: Prefixes,
    /// The sites among the values.
    pub sites: Sites,
    /// The name of the page for browsers, if it is not the realm.
    pub title: Option<String>,
    /// A GET of some keys is more than that of a value: there are sites, action caches or repositories.
    pub reads_by_rows: bool,
    /// Compresses values for clients that ask for it.
    pub compress: bool,
    /// The Cache-Control of listings, and of values that were stored without one.
    pub cache_control: Option<HeaderValue>,
    /// The names by which the server may be asked, and the pages that may use it.
    pub allowed: AllowLists,
    /// The hosts in whose name the door of S3 finds a bucket, in lower case.
    pub s3_hosts: Vec<String>,
    /// The proxies that speak for their clients.
    pub trusted_proxies: TrustedProxies,
    /// The field by which these name the user whom they have signed on.
    pub proxy_user_header: Option<HeaderName>,
    /// The logs of requests.
    pub logs: RequestLogs,
    /// Adds Server-Timing to responses.
    pub server_timing: bool,
}

/// The limits of uploads.
#[derive(Clone, Copy, Debug, Default)]
pub struct UploadLimits {
    /// The longest value that is stored, in bytes.
    pub max_body: u64,
    /// The most segments of a key that is stored.
    pub max_key_depth: usize,
    /// The time that an unfinished upload is kept after its last request; zero is no limit.
    pub expiry: Duration,
}

/// The routes that a listener has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routes {
    /// Values, the feed of their changes, and the server's own pages.
    #[default]
    All,
    /// The same without metrics, which are on a listener of their own.
    Values,
    /// The server's own pages alone.
    Pages,
}

impl ServiceConfig {
    /// Refuses a change where there are none.
    pub fn may_change(&self) -> Result<(), Refusal> {
        if self.read_only {
            return Err(READ_ONLY);
        }
        Ok(())
    }

    /// True where requests of resumable uploads are understood: not as the C server answered, and not where nothing is
    /// stored.
    pub fn resumes(&self) -> bool {
        !(self.compat || self.discard || self.read_only)
    }

    /// True if responses announce resumable uploads. Their fields have a meaning, and are refused, even if the store
    /// keeps no unfinished upload.
    pub fn announces_uploads(&self) -> bool {
        self.resumes() && self.store_resumes
    }
}
