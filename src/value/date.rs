//! The date of a value: the time of its bytes for people, such as that at which a camera took a picture.
//!
//! It is one of the fields that are kept with a value, and told only where it is not the time of the version: that is
//! later, as the value was stored, moved or copied since. Pure.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::end::kept_value;

/// The field with the date. Its name is the one that clients of ownCloud and Nextcloud send.
pub const DATE: &str = "x-oc-mtime";

/// The last full second of dates: those to the nanosecond have 64 bits.
const LATEST: u64 = 9_223_372_035;

/// The date in `text`: the seconds since 1970, as digits, and maybe a fraction of them.
pub fn parse_date(text: &[u8]) -> Option<SystemTime> {
    let text = std::str::from_utf8(text).ok()?;
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !are_digits(seconds) || !are_digits(fraction) {
        return None;
    }
    let seconds = seconds.parse().ok().filter(|&it| it <= LATEST)?;
    let nanos = format!("{fraction:0<9.9}").parse().ok()?;
    Some(UNIX_EPOCH + Duration::new(seconds, nanos))
}

/// The text of `date`, as [`parse_date`] reads it.
pub fn date_text(date: SystemTime) -> String {
    let since = date.duration_since(UNIX_EPOCH).unwrap_or_default();
    let text = format!("{}.{:09}", since.as_secs(), since.subsec_nanos());
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The date that the kept `fields` have.
pub fn date(fields: &[u8]) -> Option<SystemTime> {
    parse_date(kept_value(fields, DATE)?)
}

/// The kept `fields` with what `date` says in place of their date.
pub fn with_date(fields: &[u8], date: Option<SystemTime>) -> Box<[u8]> {
    let other = fields.split_inclusive(|&b| b == b'\n');
    let other = other.filter(|line| kept_value(line, DATE).is_none());
    let mut text = other.collect::<Vec<_>>().concat();
    if let Some(date) = date {
        if text.last().is_some_and(|&b| b != b'\n') {
            text.push(b'\n');
        }
        text.extend_from_slice(format!("{DATE}: {}\n", date_text(date)).as_bytes());
    }
    text.into()
}

/// The kept `fields` with a date: with this one, unless they have one.
pub fn dated(fields: &[u8], otherwise: SystemTime) -> Box<[u8]> {
    with_date(fields, Some(date(fields).unwrap_or(otherwise)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_date_is_seconds_with_a_fraction() {
        let at = |seconds, nanos| Some(UNIX_EPOCH + Duration::new(seconds, nanos));
        for (text, expected) in [
            ("0", at(0, 0)),
            ("981173106", at(981_173_106, 0)),
            ("981173106.5", at(981_173_106, 500_000_000)),
            ("981173106.000000001", at(981_173_106, 1)),
            ("981173106.0000000019", at(981_173_106, 1)),
            ("9223372035.999999999", at(LATEST, 999_999_999)),
            ("9223372036", None),
            ("-1", None),
            ("+1", None),
            ("1.", None),
            (".5", None),
            ("1e9", None),
            ("1,5", None),
            ("1.5.5", None),
            ("", None),
            ("Thu, 01 Jan 1970 00:00:00 GMT", None),
        ] {
            assert_eq!(parse_date(text.as_bytes()), expected, "{text:?}");
        }
        assert_eq!(date_text(UNIX_EPOCH + Duration::from_millis(1500)), "1.5");
        assert_eq!(date_text(UNIX_EPOCH + Duration::from_secs(100)), "100");
    }

    #[test]
    fn fields_have_one_date_or_none() {
        for (others, fields) in [
            ("", ""),
            ("a: b\n", "a: b"),
            ("a: b\n", "a: b\nX-OC-Mtime: 2\n"),
            ("a: b\n", "x-oc-mtime: 2\na: b\nx-oc-mtime: soon\n"),
        ] {
            let fields = fields.as_bytes();
            let new = UNIX_EPOCH + Duration::from_millis(7500);
            let expected = format!("{others}x-oc-mtime: 7.5\n");
            assert_eq!(*with_date(fields, Some(new)), *expected.as_bytes());
            let kept = date(fields).unwrap_or(new);
            assert_eq!(dated(fields, new), with_date(fields, Some(kept)));
            let none = with_date(fields, None);
            assert_eq!(*none.trim_ascii_end(), *others.trim_ascii_end().as_bytes());
        }
    }

    proptest! {
        #[test]
        fn the_text_of_a_date_is_that_date(seconds in 0..=LATEST, nanos in 0..1_000_000_000_u32) {
            let date = UNIX_EPOCH + Duration::new(seconds, nanos);
            prop_assert_eq!(parse_date(date_text(date).as_bytes()), Some(date));
        }
    }
}
