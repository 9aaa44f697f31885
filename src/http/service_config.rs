//! How requests are answered: what the options of this room mean.

use std::time::Duration;

use hyper::header::HeaderValue;

use crate::http::client::TrustedProxies;
use crate::http::exchange::access_log::LogFormat;
use crate::http::head::hosts::Hosts;
use crate::http::head::origins::Origins;

/// How requests are answered.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(Default))]
pub struct ServiceConfig {
    /// The routes that are answered at all.
    pub routes: Routes,
    /// Answer as the C server did, where that differs (docs/http.md).
    pub compat: bool,
    /// Receive PUT bodies and drop them.
    pub discard: bool,
    /// Refuse to change anything.
    pub read_only: bool,
    /// The store can keep what was received of an upload; only the store knows.
    pub store_resumes: bool,
    /// Responses depend on who asks.
    pub authorizes: bool,
    /// Clients are told before the answer where an upload can be resumed, by a 104.
    pub interim: bool,
    /// How much is taken.
    pub limits: UploadLimits,
    /// Compress answers for clients that ask for it.
    pub compress: bool,
    /// The Cache-Control of listings, and of values that were stored without one; none where it is `None`.
    pub cache_control: Option<HeaderValue>,
    /// By which names the server may be asked, and by which pages.
    pub allowed: AllowLists,
    /// The proxies that say whom they ask for.
    pub trusted_proxies: TrustedProxies,
    /// The logs of requests.
    pub logs: RequestLogs,
    /// Tell clients how long their answers took.
    pub server_timing: bool,
}

/// The logs of requests.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(Default))]
pub struct RequestLogs {
    /// A line for each request.
    pub access: bool,
    /// A line for each change, and for each refusal of who asks.
    pub audit: bool,
    /// The format of such a line.
    pub format: LogFormat,
}

impl RequestLogs {
    /// Whether one may have a line for a request.
    pub fn any(&self) -> bool {
        self.access || self.audit
    }

    /// Whether a line says what the client said of itself.
    pub fn tell_of_client(&self) -> bool {
        self.any() && self.format != LogFormat::Fields
    }
}

/// Limits of what is uploaded.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(Default))]
pub struct UploadLimits {
    /// The longest value taken, in bytes.
    pub max_body: u64,
    /// The most segments of a key that is stored.
    pub max_key_depth: usize,
    /// How long an unfinished upload is kept after its last request; zero is for ever.
    pub expiry: Duration,
}

/// Names and origins that may use the server: other web sites may not.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(Default))]
pub struct AllowLists {
    /// Names by which the server may be asked.
    pub hosts: Hosts,
    /// Origins whose pages may use it.
    pub origins: Origins,
}

/// The routes that a listener answers; the rest is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Default))]
pub enum Routes {
    /// Values, and the server's own pages.
    #[cfg_attr(test, default)]
    All,
    /// Values alone: the pages have a listener of their own.
    Values,
    /// The server's own pages alone.
    Pages,
}

impl ServiceConfig {
    /// Whether uploads can be resumed: not as the C server answered, and not where nothing is stored.
    pub fn resumes(&self) -> bool {
        !(self.compat || self.discard || self.read_only)
    }

    /// Whether clients are told so: the fields have a meaning also where the store can keep nothing, and are refused.
    pub fn announces_uploads(&self) -> bool {
        self.resumes() && self.store_resumes
    }
}
