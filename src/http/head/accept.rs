//! The preference of a client among the types and codings that there are (RFC 9110, sections 12.4.2, 12.5.1 and
//! 12.5.3).
//!
//! Pure. Members of a list that are malformed, or ask for a parameter that nothing here has, count as not sent, and a
//! list of only such members as no list: no request is refused for a malformed preference. Offers are in the server's
//! own order of preference, which decides among offers of equal rank.

use std::cmp::Reverse;

use hyper::header::{ACCEPT, ACCEPT_ENCODING, HeaderMap, HeaderName};

use crate::http::head::syntax::{is_token, split};

/// A weight in thousandths: 0 refuses.
type QValue = u16;

/// The media type to answer with, as its place in `offers`; `None` where the client takes none of them, and the caller
/// may as well send the first (section 12.5.1).
///
/// Offers are plain `type/subtype`. Of two of equal weight, the one that is named goes before the one that a wildcard
/// covers.
pub fn media_type(headers: &HeaderMap, offers: &[&str]) -> Option<usize> {
    let ranges = media_ranges(headers, is_harmless);
    if ranges.is_empty() {
        return (!offers.is_empty()).then_some(0);
    }
    let ranked = offers.iter().enumerate().filter_map(|(place, offer)| {
        let (precision, weight) = weight_of_type(&ranges, offer)?;
        (weight > 0).then_some((weight, precision, Reverse(place)))
    });
    ranked.max().map(|(_, _, Reverse(place))| place)
}

/// True if problems are sent as `application/problem+json` rather than as a line of text: Accept names that type, and
/// ranks it at least as high as `text/plain`.
pub fn prefers_problem(headers: &HeaderMap) -> bool {
    let ranges = media_ranges(headers, is_harmless);
    let text = weight_of_type(&ranges, "text/plain").map_or(0, |(_, weight)| weight);
    let problem = weight_of_name(&ranges, "application/problem+json");
    problem > 0 && problem >= text
}

/// True if metrics are sent as `OpenMetrics`: Accept names that type, in a version that is written here, and ranks it
/// at least as high as `text/plain`.
pub fn prefers_open_metrics(headers: &HeaderMap) -> bool {
    let is_spoken = |key: &str, value: &str| match key.to_ascii_lowercase().as_str() {
        "version" => matches!(value.trim_matches('"'), "1.0.0" | "0.0.1" | "0.0.4"),
        // The escaping of names with odd characters; there are none.
        "escaping" => true,
        _ => is_harmless(key, value),
    };
    let ranges = media_ranges(headers, is_spoken);
    let open = weight_of_name(&ranges, "application/openmetrics-text");
    open > 0 && open >= weight_of_name(&ranges, "text/plain")
}

/// True where the client prefers gzip to no coding.
pub fn takes_gzip(headers: &HeaderMap) -> bool {
    !codings(headers, &["gzip"]).is_empty()
}

/// The content codings that the client prefers to none, as their places in `offers`, the best first.
///
/// A client gets no coding that does not ask for one, that ranks `identity` higher, or that refuses all codings and
/// `identity`: a value that it may not decode is better than none (section 12.5.3 leaves the choice).
pub fn codings(headers: &HeaderMap, offers: &[&str]) -> Vec<usize> {
    let members: Vec<_> = members(headers, &ACCEPT_ENCODING, is_harmless).collect();
    let weight_of = |names: &[&str]| {
        let is_named =
            |m: &&Preference<'_>| names.iter().any(|name| m.name.eq_ignore_ascii_case(name));
        members.iter().filter(is_named).map(|m| m.weight).max()
    };
    let weight_of = |names: &[&str]| weight_of(names).or_else(|| weight_of(&["*"])).unwrap_or(0);
    // Where it is not named, identity is acceptable, but not preferred.
    let identity = weight_of(&["identity"]);
    let ranked = offers.iter().enumerate().map(|(place, offer)| {
        // Section 8.4.1.3: `x-gzip` is gzip.
        let alias = if *offer == "gzip" { "x-gzip" } else { offer };
        (weight_of(&[offer, alias]), place)
    });
    let mut taken: Vec<_> = ranked
        .filter(|(weight, _)| *weight > 0 && *weight >= identity)
        .collect();
    taken.sort_by_key(|(weight, place)| (Reverse(*weight), *place));
    taken.into_iter().map(|(_, place)| place).collect()
}

/// The precision of a media range; the most precise one decides (section 12.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Precision {
    Anything,
    Kind,
    Named,
}

/// The precision with which this media range names `offer`, if it does.
fn precision(range: &str, offer: &str) -> Option<Precision> {
    let (kind, subtype) = range.split_once('/')?;
    let (offered_kind, offered_subtype) = offer.split_once('/')?;
    match (kind, subtype) {
        ("*", _) => Some(Precision::Anything),
        _ if !kind.eq_ignore_ascii_case(offered_kind) => None,
        (_, "*") => Some(Precision::Kind),
        _ => subtype
            .eq_ignore_ascii_case(offered_subtype)
            .then_some(Precision::Named),
    }
}

fn media_ranges(
    headers: &HeaderMap,
    is_harmless: impl Fn(&str, &str) -> bool,
) -> Vec<Preference<'_>> {
    let is_range =
        |(kind, subtype)| is_token(kind) && is_token(subtype) && (kind != "*" || subtype == "*");
    members(headers, &ACCEPT, is_harmless)
        .filter(|member| member.name.split_once('/').is_some_and(is_range))
        .collect()
}

/// The weight of a type, by the most precise range.
fn weight_of_type(ranges: &[Preference<'_>], offer: &str) -> Option<(Precision, QValue)> {
    ranges
        .iter()
        .filter_map(|range| Some((precision(range.name, offer)?, range.weight)))
        .max()
}

/// The weight of a type that is named, else 0.
fn weight_of_name(ranges: &[Preference<'_>], offer: &str) -> QValue {
    match weight_of_type(ranges, offer) {
        Some((Precision::Named, weight)) => weight,
        _ => 0,
    }
}

/// A member of a list of preferences: its name without parameters, and its weight.
struct Preference<'a> {
    name: &'a str,
    weight: QValue,
}

/// The well-formed members of all lines of a field.
fn members<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
    is_harmless: impl Fn(&str, &str) -> bool,
) -> impl Iterator<Item = Preference<'a>> {
    let lines = headers.get_all(name).into_iter();
    lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| split(line, ','))
        .filter_map(move |member| Preference::parse(member, &is_harmless))
}

impl<'a> Preference<'a> {
    /// `None` for what is malformed, or has a parameter that makes a difference.
    fn parse(member: &'a str, is_harmless: impl Fn(&str, &str) -> bool) -> Option<Self> {
        let mut parts = split(member, ';');
        let name = parts.next().filter(|name| !name.is_empty())?;
        for parameter in parts.filter(|part| !part.is_empty()) {
            let (key, value) = parameter.split_once('=')?;
            if key.eq_ignore_ascii_case("q") {
                // Extensions after the weight (section 12.5.1) are obsolete, and ignored.
                return weight(value).map(|weight| Self { name, weight });
            }
            if !is_harmless(key, value) {
                return None;
            }
        }
        Some(Self { name, weight: 1000 })
    }
}

/// True for a parameter with which a range still means a type without parameters: all text here is UTF-8, and other
/// parameters ask for something that is not offered.
fn is_harmless(key: &str, value: &str) -> bool {
    key.eq_ignore_ascii_case("charset") && value.trim_matches('"').eq_ignore_ascii_case("utf-8")
}

/// `qvalue` of section 12.4.2, in thousandths.
fn weight(text: &str) -> Option<QValue> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(3);
    let thousandths = digits.fold(0, |sum, digit| sum * 10 + QValue::from(digit - b'0'));
    match (whole, thousandths) {
        ("0", _) => Some(thousandths),
        ("1", 0) => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::http::head::accept::*;
    use data_server_testing::table;
    use proptest::prelude::*;

    fn headers(name: &HeaderName, lines: &[&str]) -> HeaderMap {
        let pairs = lines
            .iter()
            .map(|line| (name.clone(), line.parse().unwrap()));
        pairs.collect()
    }

    fn choose<'a>(accept: &str, offers: &[&'a str]) -> Option<&'a str> {
        media_type(&headers(&ACCEPT, &[accept]), offers).map(|place| offers[place])
    }

    fn is_coded(accept: &str) -> bool {
        takes_gzip(&headers(&ACCEPT_ENCODING, &[accept]))
    }

    #[test]
    fn a_listing_comes_in_the_form_that_the_client_reads() {
        let offers = ["application/json", "text/plain", "text/html"];
        for [expected, accept] in table(
            "
            json ; */*
            json
            plain ; text/plain
            plain ; TEXT/Plain
            plain ; text/plain; charset=utf-8
            plain ; text/plain;charset=\"UTF-8\";q=0.5
            plain ; text/*
            plain ; text/plain, */*
            html ; text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8
            json ; application/json, text/plain, */*
            json ; text/plain, application/json
            html ; text/plain;q=0.5, text/html;q=0.7
            plain ; */*, application/json;q=0
            plain ; text/*;q=0.3, text/html;q=0.1, application/*;q=0.2
            none ; image/png
            none ; */*;q=0
            none ; text/plain;q=0
            plain ; text/plain;q=0.001",
        ) {
            let chosen = choose(accept, &offers).and_then(|kind| kind.rsplit('/').next());
            assert_eq!(chosen.unwrap_or("none"), expected, "{accept}");
        }
        assert_eq!(media_type(&HeaderMap::new(), &offers), Some(0));
        assert_eq!(media_type(&HeaderMap::new(), &[]), None);
        let lines = headers(&ACCEPT, &["text/html;q=0.2", "text/plain;q=0.4"]);
        assert_eq!(media_type(&lines, &offers), Some(1));
    }

    #[test]
    fn the_table_of_12_5_1() {
        let accept = "text/*;q=0.3, text/plain;q=0.7, text/plain;format=flowed, text/plain;format=fixed;q=0.4, \
                      */*;q=0.5";
        let headers = headers(&ACCEPT, &[accept]);
        let ranges = media_ranges(&headers, is_harmless);
        for (offer, weight) in [("text/plain", 700), ("text/html", 300), ("image/jpeg", 500)] {
            let found = weight_of_type(&ranges, offer).map(|(_, weight)| weight);
            assert_eq!(found, Some(weight), "{offer}");
        }
    }

    #[test]
    fn malformed_wishes_count_as_not_sent() {
        for [accept] in table(
            "
            text
            text/
            /plain
            */plain
            text/plain;q=2
            text/plain;q=
            text/plain;q=0.1234
            text/plain;q=-1
            text/plain;q
            text/plain;version=1
            text/plain;version=utf-8
            text/plain;charset=iso-8859-1
            te xt/plain
            text/plain;a=\"b, text/plain
            ,,",
        ) {
            let chosen = |accept: &str| choose(accept, &["a/b", "text/plain"]);
            assert_eq!(chosen(accept), Some("a/b"), "{accept}");
            let more = format!("text/plain;q=0.1,{accept}");
            assert_eq!(chosen(&more), Some("text/plain"), "{more}");
        }
        let quoted = "a/b;q=0.1;x=\"\\\", text/plain\", c/d;q=0.2";
        assert_eq!(choose(quoted, &["a/b", "text/plain", "c/d"]), Some("c/d"));
    }

    #[test]
    fn a_problem_is_told_as_json_where_that_is_named() {
        let prefers = |accept: &str| prefers_problem(&headers(&ACCEPT, &[accept]));
        for accept in [
            "application/problem+json",
            "application/problem+json, */*",
            "application/problem+json, text/plain",
            "application/json, Application/Problem+JSON;q=0.9",
            "application/problem+json;q=0.001",
        ] {
            assert!(prefers(accept), "{accept}");
        }
        for accept in
            "application/problem+json;q=0.5, text/plain|application/problem+json;q=0.5, */*|\
            application/problem+json;q=0|application/json|application/*|*/*|text/html, */*;q=0.8|"
                .split('|')
        {
            assert!(!prefers(accept), "{accept}");
        }
        assert!(!prefers_problem(&HeaderMap::new()));
    }

    #[test]
    fn a_coding_is_used_on_request_only() {
        // The star means identity too.
        let taken = "gzip|GZip|x-gzip|gzip, deflate, br, zstd|gzip;q=1.0, zstd;q=0.8|gzip;q=0.001|*|*, zstd;q=0|\
            *;q=0.5, gzip;q=1.0|identity;q=0.5, gzip;q=0.5|gzip;q=1.0, identity; q=0.5, *;q=0|gzip;q=0, gzip";
        for accept in taken.split('|') {
            assert!(is_coded(accept), "{accept}");
        }
        let not = "|gzip;q=0|gzip;q=0.000, zstd;q=0|compress, br|*, gzip;q=0|*;q=0|identity|identity;q=0, br|\
            identity;q=0.5, gzip;q=0.4|identity;q=0.5, *;q=0.4|gzip;q=0.2, *;q=0.4|gzip;q=x, br ; q=0.1";
        for accept in not.split('|') {
            assert!(!is_coded(accept), "{accept}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
        let lines = headers(&ACCEPT_ENCODING, &["br", "gzip;q=0.5"]);
        assert!(takes_gzip(&lines));
    }

    #[test]
    fn weights_have_up_to_three_digits() {
        let good = "0=0 0.=0 1=1000 1.=1000 1.000=1000 0.5=500 0.05=50 0.005=5 0.999=999";
        for (text, expected) in good.split(' ').filter_map(|it| it.split_once('=')) {
            assert_eq!(weight(text), expected.parse().ok(), "{text}");
        }
        for text in "1.001|0.0005|2||.5|00.5|+0.5|0,5|0.5x".split('|') {
            assert_eq!(weight(text), None, "{text}");
        }
    }

    const OFFERS: [&str; 4] = ["a/x", "a/y", "b/x", "b/y"];

    /// The best weight of an offer by trying each rank of precision in turn, as section 12.5.1 describes it.
    fn slow_weight(options: &[(String, QValue)], offer: &str) -> Option<(usize, QValue)> {
        let kind = offer.split('/').next().unwrap();
        let names = ["*/*".to_owned(), format!("{kind}/*"), offer.to_owned()];
        for (precision, name) in names.iter().enumerate().rev() {
            let weights = options.iter().filter(|(range, _)| range == name);
            if let Some(weight) = weights.map(|(_, weight)| *weight).max() {
                return Some((precision, weight));
            }
        }
        None
    }

    fn options() -> impl Strategy<Value = Vec<(String, QValue)>> {
        let range = prop_oneof![
            Just("*/*".to_owned()),
            "[abc]/\\*".prop_map(String::from),
            "[abc]/[xyz]".prop_map(String::from),
        ];
        let weight = prop_oneof![Just(0), Just(1000), 0..=1000_u16];
        proptest::collection::vec((range, weight), 1..6)
    }

    proptest! {
        #[test]
        fn the_choice_is_that_of_the_slow_model(options in options()) {
            let members: Vec<_> = options
                .iter()
                .map(|(range, w)| format!("{range} ;q={}.{:03}", w / 1000, w % 1000))
                .collect();
            let mut expected: Option<(QValue, usize, usize)> = None;
            for (place, offer) in OFFERS.iter().enumerate() {
                if let Some((precision, weight)) = slow_weight(&options, offer)
                    && weight > 0
                    && expected.is_none_or(|(w, p, _)| (weight, precision) > (w, p))
                {
                    expected = Some((weight, precision, place));
                }
            }
            let chosen = choose(&members.join(", "), &OFFERS);
            prop_assert_eq!(chosen, expected.map(|(_, _, place)| OFFERS[place]));
        }

        #[test]
        fn what_is_chosen_is_never_refused(accept in "([a-z*]{1,4}(;q=(0|1|0\\.[0-9]))?[ ,]{0,3}){0,5}") {
            let is_named = accept.contains('*') || accept.contains("gzip");
            prop_assert!(is_named || !is_coded(&accept));
        }

        #[test]
        fn nothing_panics(accept in "[ -~\t]{0,60}") {
            let accept = accept.trim();
            choose(accept, &OFFERS);
            is_coded(accept);
        }
    }
}
