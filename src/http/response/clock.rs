//! The time of a response, as the field Date has it.

use std::cell::{Cell, RefCell};
use std::time::{Duration, SystemTime};

use hyper::header::HeaderValue;
use rustix::time::{ClockId, clock_gettime};

/// Renders a date once for each second.
#[derive(Debug)]
pub struct Clock {
    second: Cell<i64>,
    date: RefCell<HeaderValue>,
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            second: Cell::new(0),
            date: RefCell::new(date(0)),
        }
    }
}

impl Clock {
    /// RFC 9110, section 6.6.1: the time of the response, to the second.
    pub fn date(&self) -> HeaderValue {
        let second = clock_gettime(ClockId::RealtimeCoarse).tv_sec;
        if self.second.replace(second) != second {
            *self.date.borrow_mut() = date(second);
        }
        self.date.borrow().clone()
    }
}

/// The date of this second since 1970.
fn date(second: i64) -> HeaderValue {
    let since = Duration::from_secs(u64::try_from(second).unwrap_or(0));
    let text = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + since);
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use crate::http::response::clock::*;

    #[test]
    fn a_date_follows_the_clock() {
        assert_eq!(date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        let now = Clock::default().date();
        let now = httpdate::parse_http_date(now.to_str().unwrap()).unwrap();
        let age = SystemTime::now().duration_since(now).unwrap();
        assert!(age < Duration::from_secs(60), "{age:?}");
    }
}
