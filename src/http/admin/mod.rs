//! The server's own pages, under `/-/`: which there are, and what each answers.
//!
//! They say how the server is, and change nothing. None of them touches a value, and none is a key: a key is one segment.

mod exposition;
mod health;
mod process;
mod scribe;
mod text;

use std::sync::Arc;

use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

use self::exposition::Exposition;
use self::health::{Lifecycle, Phase, Probe, Readiness};
pub(super) use self::text::Form;
use super::body::Body;
use crate::metrics::ReactorCounters;
use crate::store::Directory;

/// All that have a path of two segments; one of them answers elsewhere, for it has no end.
const INDEX: &str = "/-/healthz /-/ready /-/metrics /-/watch";

/// One of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
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
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "healthz" => Some(Self::Health),
            "ready" => Some(Self::Ready),
            "metrics" => Some(Self::Metrics),
            _ => None,
        }
    }
}

/// What the pages tell of; one for the server.
#[derive(Debug)]
pub struct Admin {
    lifecycle: Lifecycle,
    probe: Probe,
    exposition: Exposition,
}

impl Admin {
    /// The pages of a server that is starting; it is not ready with less than `min_free` bytes free for values.
    pub fn new(reactors: Vec<Arc<ReactorCounters>>, store: &Arc<Directory>, min_free: u64) -> Self {
        Self {
            lifecycle: Lifecycle::default(),
            probe: Probe::new(Arc::clone(store), min_free),
            exposition: Exposition::new(reactors, Arc::clone(store)),
        }
    }

    /// Every thread runs: the server is ready from now on.
    pub fn serves(&self) {
        self.lifecycle.enter(Phase::Serving);
    }

    /// The server is about to end: it is not ready from now on.
    pub fn drains(&self) {
        self.lifecycle.enter(Phase::Draining);
    }

    /// The answer of `page`, in the form that the client likes.
    pub(super) async fn answer(&self, page: Page, form: Form) -> Response<Body> {
        match page {
            Page::Index => line(StatusCode::OK, INDEX),
            Page::Health => line(StatusCode::OK, "alive"),
            Page::Ready => ready(&self.readiness().await),
            Page::Metrics => now(
                StatusCode::OK,
                form.media_type(),
                form.render(&self.exposition),
            ),
        }
    }

    async fn readiness(&self) -> Readiness {
        match self.lifecycle.phase() {
            Phase::Starting => Readiness::Starting,
            Phase::Serving => self.probe.ask().await,
            Phase::Draining => Readiness::Draining,
        }
    }
}

fn ready(readiness: &Readiness) -> Response<Body> {
    let status = match readiness {
        Readiness::Ready => StatusCode::OK,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    line(status, &readiness.to_string())
}

fn line(status: StatusCode, text: &str) -> Response<Body> {
    now(status, "text/plain; charset=utf-8", format!("{text}\n"))
}

/// An answer that is true at this moment only.
fn now(status: StatusCode, media_type: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Body::bytes(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
