//! One exchange: from the head of a request to the last byte of its answer.
//!
//! An [`Exchange`] is alive as long as the exchange is, in the service first and in the body of the answer then, so
//! that its end is known however it ends: sent, given up, or cut off. It answers with what was noted of it.

use std::fmt::Write as _;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hyper::Response;
use hyper::header::{HeaderName, HeaderValue};

use super::body::Body;
use super::identity::REQUEST_ID;
use super::link::Link;
use super::meter::{Notes, Timing};

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// An exchange going on.
#[derive(Debug)]
pub(super) struct Exchange {
    link: Rc<Link>,
}

impl Exchange {
    pub(super) fn begin(link: &Rc<Link>, method: &hyper::Method) -> Self {
        link.begin();
        link.meter().begin(method);
        Self {
            link: Rc::clone(link),
        }
    }

    /// Keeps `notes` until it ends.
    pub(super) fn note(&self, notes: Notes) {
        self.link.meter().note(notes);
    }

    /// The request's id, for the log; of `notes`, which are kept until it ends, when nothing was noted of it yet.
    pub(super) fn request_id(&self, notes: impl FnOnce() -> Notes) -> String {
        let meter = self.link.meter();
        let id = |notes: &mut Notes| notes.identity.request.to_str().map(str::to_owned);
        if meter.with_notes(|_| ()).is_none() {
            meter.note(notes());
        }
        meter
            .with_notes(id)
            .and_then(Result::ok)
            .unwrap_or_default()
    }

    /// It has become one without an end of its own.
    pub(super) fn watches(&self) {
        self.link.begin_watching();
        self.link.meter().watches();
    }

    /// The store is asked now.
    pub(super) fn asks(&self) {
        self.link.meter().with_notes(|notes| {
            if let Some(timing) = &mut notes.timing {
                timing.asked = Some(Instant::now());
            }
        });
    }

    /// The answer is known: gives it the headers that the notes ask for.
    pub(super) fn answered(&self, response: &mut Response<Body>) {
        let meter = self.link.meter();
        meter.answered(response.status().as_u16());
        meter.with_notes(|notes| {
            let headers = response.headers_mut();
            headers.insert(REQUEST_ID, notes.identity.request.clone());
            if let Some(timing) = &notes.timing {
                let field = server_timing(timing, meter.elapsed());
                if let Ok(field) = HeaderValue::try_from(field) {
                    headers.insert(SERVER_TIMING, field);
                }
            }
        });
    }

    /// `bytes` of the answer were handed to hyper.
    pub(super) fn sent(&self, bytes: usize) {
        self.link.meter().handed(bytes);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.link.end();
        self.link.meter().ended();
    }
}

/// The field `Server-Timing` (W3C), in milliseconds: the store's part, and all until now.
fn server_timing(timing: &Timing, total: Duration) -> String {
    let mut field = String::new();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    if let Some(asked) = timing.asked {
        let store = asked.elapsed().saturating_sub(timing.waited);
        let _ = write!(field, "store;dur={:.3}, ", ms(store));
    }
    let _ = write!(field, "total;dur={:.3}", ms(total));
    field
}
