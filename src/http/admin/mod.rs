//! The server's own pages, under `/-/`: which there are, and what each answers.
//!
//! They say how the server is, and change nothing. None of them touches a value, and none is a key: a key is one segment.

pub mod exposition;
mod health;
mod metric_writer;
mod reactor_metrics;
mod store_metrics;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::access::Access;
use crate::http::admin::exposition::{Exposition, MetricsFormat};
use crate::http::admin::health::{LastAnswer, Lifecycle, Phase, Probe, Readiness};
use crate::metrics::{LAST_RELOAD_FAILED, ReactorCounters};
use crate::store::Store;

/// All that have a path of two segments; one of them answers elsewhere, for it has no end.
const INDEX: &str = "/-/healthz /-/ready /-/metrics /-/watch";

/// The words that `/-/ready` adds when files that have changed could not be read.
const STALE: &str =
    "; the last reload failed, so the old certificates or rules still count: the log says why";

/// One of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// `/` where there are no values: which pages there are.
    Index,
    /// `/-/healthz`: whether the process is alive.
    Health,
    /// `/-/ready`: whether it is worth sending requests to.
    Ready,
    /// `/-/metrics`: what it has counted.
    Metrics,
}

impl Page {
    /// The page of this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "healthz" => Some(Self::Health),
            "ready" => Some(Self::Ready),
            "metrics" => Some(Self::Metrics),
            _ => None,
        }
    }
}

/// The state that the pages tell; one for the server.
#[derive(Debug)]
pub struct Admin {
    lifecycle: Lifecycle,
    probe: Probe,
    answer: Arc<LastAnswer>,
    exposition: Exposition,
}

impl Admin {
    /// The pages of a server that is starting.
    pub fn new(
        reactors: Vec<Arc<ReactorCounters>>,
        store: &Arc<Store>,
        access: Option<Arc<Access>>,
    ) -> Self {
        let answer = Arc::<LastAnswer>::default();
        Self {
            lifecycle: Lifecycle::default(),
            probe: Probe::new(Arc::clone(store), Arc::clone(&answer)),
            exposition: Exposition::new(reactors, Arc::clone(store), access, Arc::clone(&answer)),
            answer,
        }
    }

    /// Every thread runs: the server is ready from now on.
    pub fn start_serving(&self) {
        self.lifecycle.enter(Phase::Serving);
    }

    /// The server is about to end: it is not ready from now on.
    pub fn start_draining(&self) {
        self.lifecycle.enter(Phase::Draining);
    }

    /// The text of `page`, in the format that the client prefers.
    pub async fn answer(&self, page: Page, format: MetricsFormat) -> PageText {
        match page {
            Page::Index => PageText::line(INDEX),
            Page::Health => PageText::line("alive"),
            Page::Ready => {
                let readiness = self.readiness().await;
                let mut line = readiness.to_string();
                if LAST_RELOAD_FAILED.load(Ordering::Relaxed) {
                    line += STALE;
                }
                PageText {
                    is_good: readiness.is_ready(),
                    ..PageText::line(&line)
                }
            }
            Page::Metrics => {
                self.answer.note(&match self.lifecycle.phase() {
                    Phase::Serving => self.probe.for_scrape().await,
                    _ => self.readiness().await,
                });
                PageText {
                    is_good: true,
                    media_type: format.media_type(),
                    body: self.exposition.render(format),
                }
            }
        }
    }

    async fn readiness(&self) -> Readiness {
        match self.lifecycle.phase() {
            Phase::Starting => Readiness::Starting,
            Phase::Serving => self.probe.readiness().await,
            Phase::Draining => Readiness::Draining,
        }
    }
}

/// The text of a page at this moment.
#[derive(Debug)]
pub struct PageText {
    /// False when it says that the server is not ready.
    pub is_good: bool,
    pub media_type: &'static str,
    pub body: String,
}

impl PageText {
    fn line(line: &str) -> Self {
        Self {
            is_good: true,
            media_type: "text/plain; charset=utf-8",
            body: format!("{line}\n"),
        }
    }
}
