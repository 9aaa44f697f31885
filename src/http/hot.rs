//! The short way of a hot request: a plain GET of a value that is open and proved current, from its bytes to those of its
//! answer, without hyper.
//!
//! Promises the answer that the long way gives, field for field. Whatever is not as plain as that (another method, a field
//! that could matter, a value that is cold or long, a rule that adds to answers) is left to the long way, untouched.

use std::cell::{Cell, RefCell};
use std::io::{Cursor, Write as _};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use httpdate::HttpDate;
use hyper::Method;
use rustix::time::{ClockId, clock_gettime};

use super::body::stand_in;
use super::caught::caught;
use super::exchange::Exchange;
use super::file_body::{LONG, WINDOW};
use super::hosts::Hosts;
use super::link::Link;
use super::path::key;
use super::plain::Plain;
use super::region::Region;
use super::representation::{CLOSE, Representation, representation};
use super::response::OK;
use super::rules::{Rules, Scope};
use super::service::Service;
use super::survey::is_authority;
use crate::store::Object;

/// The answer to a hot request.
#[derive(Debug)]
pub struct Hot {
    /// Bytes of the request.
    pub asked: usize,
    /// The connection ends with it.
    pub closes: bool,
    object: Arc<Object>,
    date: Date,
    /// Bytes of the region that the link holds, when the value is not in memory.
    region: usize,
}

impl Hot {
    /// All of it, in order: bytes, and last what stands for its region.
    pub fn pieces(&self) -> [&[u8]; 6] {
        let noted = self.object.noted::<Representation>();
        let (start, rest) = noted.map_or_else(Default::default, |noted| noted.head.parts());
        let connection: &[u8] = if self.closes { CLOSE } else { b"" };
        let body = self.object.bytes().map_or(&[][..], |bytes| bytes);
        [start, connection, rest, &self.date.0, body, self.region()]
    }

    /// Stands for the region that the link holds; empty when the value was in memory.
    pub fn region(&self) -> &'static [u8] {
        stand_in(self.region)
    }
}

/// Whether answers depend on nothing but the value, as far as `rules` go.
pub(super) fn is_possible(rules: &Rules) -> bool {
    let adds_nothing = rules.access_log.is_none() && !rules.server_timing;
    adds_nothing && rules.cors_origins.is_empty() && rules.scope != Scope::Pages
}

impl Service {
    /// The answer to the request that `bytes` begin with, when that is plain and its value hot.
    pub fn hot(&self, bytes: &[u8], link: &Rc<Link>) -> Option<Hot> {
        if !self.knows_hot || link.is_last() || link.is_finishing() {
            return None;
        }
        // After a panic, the long way may do better, and knows what to say if it does not.
        caught(|| self.find(bytes, link)).ok().flatten()
    }

    fn find(&self, bytes: &[u8], link: &Rc<Link>) -> Option<Hot> {
        let plain = Plain::at(bytes).filter(|plain| plain.put.is_none())?;
        let compress = self.rules().compress;
        if (compress && plain.codings_accepted)
            || !self.recent.allow(plain.host, &self.rules().hosts)
        {
            return None;
        }
        let key = key(plain.path).ok()?;
        let object = self.store.get_cached(&key)?;
        let region = region(&object)?;
        representation(&object, &key, compress);
        link.meter().counters().hits.add(1);
        let exchange = Exchange::begin(link, &Method::GET);
        if plain.closes {
            link.end_after_answer();
        }
        if region > 0 {
            link.regions().push(Region {
                file: object.descriptor(),
                offset: 0,
                len: region,
                is_long: region as u64 >= LONG,
                is_last: true,
            });
        }
        link.meter().answered(OK);
        drop(exchange);
        Some(Hot {
            asked: plain.len,
            closes: plain.closes,
            object,
            date: self.recent.date(),
            region,
        })
    }
}

/// How much of `object` is to be sent from its file; `None` when that takes more than one go, or might wait for the device.
fn region(object: &Object) -> Option<usize> {
    if object.bytes().is_some() {
        return Some(0);
    }
    let len = object.meta().len;
    let window = usize::try_from(len).ok().filter(|&len| len <= WINDOW)?;
    object.is_resident(0, len).then_some(window)
}

/// What one hot request leaves to the next.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// The last Host that was allowed. One that is empty always is.
    host: RefCell<Vec<u8>>,
    second: Cell<i64>,
    date: Cell<Date>,
}

impl Recent {
    pub(super) fn allow(&self, host: &[u8], hosts: &Hosts) -> bool {
        let mut last = self.host.borrow_mut();
        let is_valid = || host.is_empty() || is_authority(host);
        let is_allowed = *last == host || (is_valid() && hosts.allow(host));
        if is_allowed && *last != host {
            last.clear();
            last.extend_from_slice(host);
        }
        is_allowed
    }

    /// RFC 9110, section 6.6.1: the time of the answer, to the second.
    pub(super) fn date(&self) -> Date {
        let second = clock_gettime(ClockId::RealtimeCoarse).tv_sec;
        if self.second.replace(second) != second {
            self.date.set(Date::of(second));
        }
        self.date.get()
    }
}

/// The value of a Date, and the end of the head behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Date([u8; 33]);

impl Default for Date {
    fn default() -> Self {
        Self::of(0)
    }
}

impl Date {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// That of this second since 1970.
    fn of(second: i64) -> Self {
        let since = Duration::from_secs(u64::try_from(second).unwrap_or(0));
        let mut date = Cursor::new([0; 33]);
        // It fits: dates of this form have 29 bytes until the year 9999.
        let _ = write!(
            date,
            "{}\r\n\r\n",
            HttpDate::from(SystemTime::UNIX_EPOCH + since)
        );
        Self(date.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_fills_its_place_and_follows_the_clock() {
        for (second, date) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n"),
            (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT\r\n\r\n"),
        ] {
            assert_eq!(Date::of(second).0, date.as_bytes());
        }
        let recent = Recent::default();
        let now = httpdate::parse_http_date(str::from_utf8(&recent.date().0[..29]).unwrap());
        let age = SystemTime::now().duration_since(now.unwrap()).unwrap();
        assert!(age < Duration::from_secs(60), "{age:?}");
    }

    #[test]
    fn what_was_allowed_last_does_not_let_others_in() {
        let (recent, mut hosts) = (Recent::default(), Hosts::default());
        hosts.add("store.example").unwrap();
        for (host, is_allowed) in [
            ("", true),
            ("evil.example", false),
            ("store.example:80", true),
            ("evil.example", false),
            ("store.example:80", true),
            ("store.example:x", false),
            ("store.example", true),
            ("", true),
        ] {
            let was = recent.allow(host.as_bytes(), &hosts);
            assert_eq!(was, is_allowed, "{host}");
        }
    }
}
