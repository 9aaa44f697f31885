//! The server's own pages, under `/-/`: their names, and their texts.
//!
//! The pages show the state of the server, and change nothing. No page reads a value, and no key has the path of a
//! page.

mod health;
mod metrics;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use async_trait::async_trait;
use hyper::{Method, StatusCode};

use crate::access::Access;
use crate::access::Right;
use crate::http::admin::health::{Readiness, ReadinessProbe};
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::head::path::PAGES;
use crate::http::refusal::common::{NO_SUCH_PATH, no_page_method};
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::{Outcome, Reply, TEXT, unstored};
use crate::http::service_config::Routes;
use crate::http::verb::{OptionsRequest, Parsed, Verb, parsed};
use crate::metrics::{LAST_RELOAD_FAILED, ReactorCounters, process_start};
use crate::store::Store;

pub use crate::metrics::MetricsFormat;

/// The paths of the pages.
const INDEX: &str = "/-/healthz /-/ready /-/metrics";

const METHODS: &str = "GET, HEAD, OPTIONS";

/// The words that `/-/ready` adds after a reload that failed.
const STALE: &str =
    "; the last reload failed, so the old certificates or rules still count: the log says why";

/// A page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminPage {
    /// `/` of a listener without values: the paths of the pages.
    Index,
    /// `/-/healthz`: the process is alive.
    Health,
    /// `/-/ready`: the server is worth sending requests to, or why not.
    Ready,
    /// `/-/metrics`: the metrics.
    Metrics,
}

impl AdminPage {
    /// True where it needs no right: monitors of a server have no secret.
    pub fn is_open(self, routes: Routes) -> bool {
        self != Self::Metrics || routes == Routes::Pages
    }

    /// The page of this name.
    fn named(name: &str) -> Option<Self> {
        match name {
            "healthz" => Some(Self::Health),
            "ready" => Some(Self::Ready),
            "metrics" => Some(Self::Metrics),
            _ => None,
        }
    }
}

/// The page that `path` names on a listener with these `routes`.
pub fn page(path: &str, routes: Routes) -> Option<AdminPage> {
    if routes == Routes::Pages && path == "/" {
        return Some(AdminPage::Index);
    }
    let page = AdminPage::named(path.strip_prefix(PAGES)?)?;
    let is_elsewhere = routes == Routes::Values && page == AdminPage::Metrics;
    (!is_elsewhere).then_some(page)
}

/// A request for a page.
pub struct PageRequest {
    /// None where it is only asked what the request needs.
    pub admin: Option<Arc<Admin>>,
    pub page: AdminPage,
    pub format: MetricsFormat,
}

/// The request for a page of this server, if there is one at the path. With `--compat` there is one for GET and HEAD
/// alone.
pub fn page_request(asked: &RequestHead<'_>, admin: Option<&Arc<Admin>>) -> Parsed {
    let config = asked.config;
    let Some(page) = page(asked.path, config.routes) else {
        return Ok(None);
    };
    if asked.reads() {
        return parsed(PageRequest {
            admin: admin.cloned(),
            page,
            format: MetricsFormat::preferred(&asked.head.headers),
        });
    }
    match asked.head.method {
        _ if config.compat => Ok(None),
        Method::OPTIONS => parsed(OptionsRequest::of(asked, METHODS)),
        _ => Err(no_page_method(METHODS)),
    }
}

#[async_trait(?Send)]
impl Verb for PageRequest {
    fn needs(&self) -> Vec<Need<'_>> {
        match self.page {
            AdminPage::Metrics => vec![Need::any(Right::Metrics, "")],
            _ => Vec::new(),
        }
    }

    async fn perform(self: Box<Self>, _: &RequestContext, _: &mut Received<'_>) -> Outcome {
        let admin = self.admin.ok_or(NO_SUCH_PATH)?;
        Ok(admin.answer(self.page, self.format).await.into())
    }
}

/// The state that the pages show; the server has one.
pub struct Admin {
    is_serving: AtomicBool,
    is_draining: AtomicBool,
    probe: ReadinessProbe,
    /// The start of the process, in seconds since 1970.
    started: f64,
    reactors: Vec<Arc<ReactorCounters>>,
    store: Arc<Store>,
    access: Option<Arc<Access>>,
}

impl Admin {
    /// The pages of a server that is starting. To be made once, when the process starts.
    pub fn new(
        reactors: Vec<Arc<ReactorCounters>>,
        store: &Arc<Store>,
        access: Option<Arc<Access>>,
    ) -> Self {
        Self {
            is_serving: AtomicBool::new(false),
            is_draining: AtomicBool::new(false),
            probe: ReadinessProbe::default(),
            started: process_start(),
            reactors,
            store: Arc::clone(store),
            access,
        }
    }

    /// Makes the server ready; every thread runs.
    pub fn start_serving(&self) {
        self.is_serving.store(true, Relaxed);
    }

    /// Ends readiness for good, before the server ends.
    pub fn start_draining(&self) {
        self.is_draining.store(true, Relaxed);
    }

    /// The text of `page`, in the format that the client prefers.
    pub async fn answer(&self, page: AdminPage, format: MetricsFormat) -> PageText {
        match page {
            AdminPage::Index => PageText::line(true, INDEX),
            AdminPage::Health => PageText::line(true, "alive"),
            AdminPage::Ready => {
                let readiness = self.readiness(false).await;
                let is_ready = readiness.is_ok();
                let mut text = readiness.unwrap_or_else(|why| format!("not ready: {why}"));
                if LAST_RELOAD_FAILED.load(Relaxed) {
                    text += STALE;
                }
                PageText::line(is_ready, &text)
            }
            AdminPage::Metrics => {
                let is_ready = self.readiness(true).await.is_ok();
                PageText {
                    is_good: true,
                    media_type: format.media_type(),
                    body: self.metrics(format, is_ready),
                }
            }
        }
    }

    async fn readiness(&self, is_scrape: bool) -> Readiness {
        if self.is_draining.load(Relaxed) {
            Err("draining".to_owned())
        } else if !self.is_serving.load(Relaxed) {
            Err("starting".to_owned())
        } else {
            self.probe.readiness(&self.store, is_scrape).await
        }
    }
}

/// The text of a page, true at this moment only.
#[derive(Debug)]
pub struct PageText {
    /// False where the text says that the server is not ready.
    pub is_good: bool,
    pub media_type: &'static str,
    pub body: String,
}

impl From<PageText> for Reply {
    fn from(page: PageText) -> Self {
        let PageText {
            media_type, body, ..
        } = page;
        Self::from(if page.is_good {
            unstored(StatusCode::OK, media_type, body)
        } else {
            unstored(StatusCode::SERVICE_UNAVAILABLE, media_type, body)
        })
    }
}

impl PageText {
    fn line(is_good: bool, line: &str) -> Self {
        Self {
            is_good,
            media_type: TEXT,
            body: format!("{line}\n"),
        }
    }
}
