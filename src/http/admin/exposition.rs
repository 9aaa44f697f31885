//! All metrics of the server, as a scrape gets them, in the two text formats of Prometheus.
//!
//! Sums are made when a scrape asks, from counters that each thread keeps for itself. No label has a value that a client
//! can choose. The library writes `OpenMetrics` 1.0. The older format (0.0.4) is made from it: there a counter is declared under
//! the name that it is told with, and there are neither units nor an end mark.

use std::fmt::Write as _;
use std::sync::Arc;

use hyper::header::HeaderMap;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use crate::access::Access;
use crate::http::admin::access_metrics::AccessMetrics;
use crate::http::admin::health::LastAnswer;
use crate::http::admin::process_metrics::ProcessMetrics;
use crate::http::admin::reactor_metrics::ReactorMetrics;
use crate::http::admin::store_metrics::StoreMetrics;
use crate::http::head::accept::prefers_open_metrics;
use crate::metrics::ReactorCounters;
use crate::store::Store;

/// All metrics.
#[derive(Debug)]
pub struct Exposition(Registry);

impl Exposition {
    pub fn new(
        reactors: Vec<Arc<ReactorCounters>>,
        store: Arc<Store>,
        access: Option<Arc<Access>>,
        answer: Arc<LastAnswer>,
    ) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessMetrics::new(answer)));
        registry.register_collector(Box::new(ReactorMetrics(reactors)));
        registry.register_collector(Box::new(StoreMetrics(store)));
        if let Some(access) = access {
            registry.register_collector(Box::new(AccessMetrics(access)));
        }
        Self(registry)
    }

    /// As `OpenMetrics` text.
    pub fn render(&self) -> String {
        let mut open = String::new();
        // Writing to memory does not fail.
        let _ = text::encode(&mut open, &self.0);
        open
    }
}

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsFormat {
    Prometheus,
    OpenMetrics,
}

impl MetricsFormat {
    /// The one that Accept prefers; the older one where it does not name the newer.
    pub fn preferred(headers: &HeaderMap) -> Self {
        if prefers_open_metrics(headers) {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }
}

pub fn media_type(format: MetricsFormat) -> &'static str {
    match format {
        MetricsFormat::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        MetricsFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
    }
}

pub fn render(format: MetricsFormat, exposition: &Exposition) -> String {
    let open = exposition.render();
    match format {
        MetricsFormat::Prometheus => prometheus(&open),
        MetricsFormat::OpenMetrics => open,
    }
}

/// `open`, a text in `OpenMetrics`, as Prometheus text.
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
    use crate::http::admin::exposition::*;

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
