//! The server's own pages, under `/-/`: their names, and their texts.
//!
//! The pages tell the state of the server, and change nothing. No page reads a value, and no key has the path of a page. Metrics
//! come in the two text formats of Prometheus: the library writes `OpenMetrics` 1.0, and the older format (0.0.4) is made from it,
//! where a counter is declared under the name that it is told with, and there are neither units nor an end mark.

mod exposition;
mod health;
mod metrics;

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyper::header::HeaderMap;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use crate::access::Access;
use crate::http::admin::exposition::registry;
use crate::http::admin::health::{LastAnswer, Lifecycle, Phase, Probe, Readiness};
use crate::http::head::accept::prefers_open_metrics;
use crate::metrics::{LAST_RELOAD_FAILED, ReactorCounters};
use crate::store::Store;

/// The paths of the pages.
const INDEX: &str = "/-/healthz /-/ready /-/metrics";

/// The words that `/-/ready` adds after a reload that failed.
const STALE: &str =
    "; the last reload failed, so the old certificates or rules still count: the log says why";

/// A page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// `/` of a listener without values: the paths of the pages.
    Index,
    /// `/-/healthz`: the process is alive.
    Health,
    /// `/-/ready`: the server is worth sending requests to, or why not.
    Ready,
    /// `/-/metrics`: the metrics.
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

/// The state that the pages tell; the server has one.
#[derive(Debug)]
pub struct Admin {
    lifecycle: Lifecycle,
    probe: Probe,
    answer: Arc<LastAnswer>,
    metrics: Registry,
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
            metrics: registry(reactors, Arc::clone(store), access, Arc::clone(&answer)),
            answer,
        }
    }

    /// Makes the server ready; every thread runs.
    pub fn start_serving(&self) {
        self.lifecycle.enter(Phase::Serving);
    }

    /// Ends readiness for good, before the server ends.
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
                    body: self.metrics(format),
                }
            }
        }
    }

    /// The metrics as text; the library writes `OpenMetrics`.
    fn metrics(&self, format: MetricsFormat) -> String {
        let mut open = String::new();
        // Writing to memory does not fail.
        let _ = text::encode(&mut open, &self.metrics);
        match format {
            MetricsFormat::Prometheus => prometheus(&open),
            MetricsFormat::OpenMetrics => open,
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

/// The text of a page, true at this moment only.
#[derive(Debug)]
pub struct PageText {
    /// False where it says that the server is not ready.
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

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsFormat {
    Prometheus,
    OpenMetrics,
}

impl MetricsFormat {
    /// The format that Accept prefers; the older one where it does not name the newer.
    pub fn preferred(headers: &HeaderMap) -> Self {
        if prefers_open_metrics(headers) {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    pub fn media_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The text `open`, of `OpenMetrics`, in the format 0.0.4.
fn prometheus(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    let mut help = "";
    for line in open.lines() {
        // HELP comes before TYPE, which says how the name ends.
        if line.starts_with("# HELP ") {
            help = line;
        } else if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, kind) = declared.split_once(' ').unwrap_or((declared, ""));
            let ending = if kind == "counter" { "_total" } else { "" };
            let said = help.strip_prefix("# HELP ").unwrap_or_default();
            let said = said.strip_prefix(name).unwrap_or_default();
            let _ = writeln!(text, "# HELP {name}{ending}{said}");
            let _ = writeln!(text, "# TYPE {name}{ending} {kind}");
        } else if !line.starts_with("# ") {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::http::admin::*;

    #[test]
    fn prometheus_text_declares_counters_as_they_are_told() {
        let open = "# HELP a_bytes What a does.\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\na_bytes_total 1\n\
            # HELP b B.\n# TYPE b gauge\nb{x=\"# y\"} 2\n# EOF\n";
        assert_eq!(
            prometheus(open),
            "# HELP a_bytes_total What a does.\n# TYPE a_bytes_total counter\na_bytes_total 1\n\
                # HELP b B.\n# TYPE b gauge\nb{x=\"# y\"} 2\n"
        );
    }
}
