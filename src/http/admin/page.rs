//! The server's own pages, under `/-/`, as a request names them.

use hyper::header::HeaderMap;

use crate::http::head::accept::prefers_open_metrics;

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

/// What OPTIONS asks the methods of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Values,
    /// An upload resource.
    Upload,
    /// Where forms with files are sent.
    Forms,
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
