//! The end of a value: the second since 1970 from which on it is absent, by the system's clock.
//!
//! It is one of the fields that are kept with a value, and with the date the only one whose meaning the store knows.
//! Pure, but for the clock.

use std::time::SystemTime;

/// The field with the end. Its name, and that of [`DELETE_AFTER`], are those that clients of Swift send.
pub const DELETE_AT: &str = "x-delete-at";

/// The field of a PUT with the seconds until the end; it is kept as [`DELETE_AT`].
pub const DELETE_AFTER: &str = "x-delete-after";

/// The last second of the year 9999.
const LATEST: u64 = 253_402_300_799;

/// The end in `text`, which has only digits, and is a time that a date can express.
pub fn parse_end(text: &[u8]) -> Option<u64> {
    let are_digits = text.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok().filter(|_| are_digits)?;
    text.parse().ok().filter(|end| *end <= LATEST)
}

/// The lines of the text of kept fields: their names and values.
pub fn kept_lines(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    text.split(|&b| b == b'\n').filter_map(|line| {
        let (name, value) = line.split_at(line.iter().position(|&b| b == b':')?);
        Some((name, value[1..].trim_ascii()))
    })
}

/// The value of the first of these lines with this `name`.
pub fn kept_value<'t>(text: &'t [u8], name: &str) -> Option<&'t [u8]> {
    let mut lines = kept_lines(text);
    let line = lines.find(|(named, _)| named.eq_ignore_ascii_case(name.as_bytes()));
    line.map(|(_, value)| value)
}

/// The end that the kept `fields` have.
pub fn end(fields: &[u8]) -> Option<u64> {
    parse_end(kept_value(fields, DELETE_AT)?)
}

/// The end of a value that is to last for `seconds` at least: at the next full second.
pub fn end_after(seconds: u64) -> Option<u64> {
    let end = (now() + 1).saturating_add(seconds);
    (end <= LATEST).then_some(end)
}

/// The system's clock, in full seconds since 1970.
pub fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_digits_in_the_first_line_of_its_name() {
        for (fields, expected) in [
            ("", None),
            ("cache-control: no-cache\n", None),
            ("x-delete-at: 17\n", Some(17)),
            (
                "cache-control: x\nX-Delete-At:17 \nx-delete-at: 18",
                Some(17),
            ),
            ("x-delete-at: 253402300799", Some(LATEST)),
            ("x-delete-at: 253402300800", None),
            ("x-delete-at: +17", None),
            ("x-delete-at: 1.5", None),
            ("x-delete-at:\nx-delete-at: 17", None),
            ("x-delete-after: 17", None),
        ] {
            assert_eq!(end(fields.as_bytes()), expected, "{fields:?}");
        }
    }

    #[test]
    fn what_is_to_last_some_seconds_lasts_so_long_and_a_second_more_at_most() {
        let before = SystemTime::now();
        let end = end_after(5).unwrap();
        let lasts = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(end);
        let lasts = lasts.duration_since(before).unwrap().as_secs_f64();
        assert!((5.0..6.5).contains(&lasts), "{lasts}");
        assert_eq!(end_after(u64::MAX), None);
    }
}
