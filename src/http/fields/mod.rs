//! The fields that a value is sent with: those kept with it from its PUT, and the Cache-Control of answers with values
//! and listings.
//!
//! Pure. Four fields are always kept, with the end and the date of a value, and others where an operator names them.
//! Kept fields are text, a line `name: value` for each, so that an operator can read and set them. The text may have
//! been set by hand, so what is read back goes through the checks of what arrives with a PUT, and a line that fails
//! them counts as absent. The media type is kept beside them, by rules of its own ([`media`]).
//!
//! Cache-Control is `no-cache` unless the operator or the value says otherwise, and `private` for an authenticated
//! client. Without the field a cache may guess how long a value stays fresh (RFC 9111, section 4.2.2), and then serves
//! the old one after a replacement; with `no-cache` it keeps the value, and revalidates it before each use: a 304 costs
//! little.

pub mod media;
pub mod names;

use std::fmt::Display;
use std::time::SystemTime;

use crate::http::refusal::Refusal;
use crate::http::refusal::kind::{Flag, Kind};
use hyper::StatusCode;
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE,
    HeaderMap, HeaderName, HeaderValue, VARY,
};

use crate::access::Subject;
use crate::http::fields::media::has_suffix;
use crate::http::fields::names::refused;
use crate::http::head::syntax::{append_field, has_member, is_parameter, is_token, split};
use crate::store::{
    DATE, DELETE_AFTER, DELETE_AT, MAX_FIELDS, date_text, end_after, kept_value, now, parse_date,
    parse_end,
};

/// A field that is kept.
#[derive(Clone, Debug)]
struct KeptField {
    name: HeaderName,
    /// The longest value that is kept, in bytes.
    max: usize,
    /// A list, which several lines of a head make up (RFC 9110, section 5.3).
    is_list: bool,
    is_valid: fn(&str) -> bool,
}

/// The fields that are kept, in this order; all together are at most [`MAX_FIELDS`] bytes.
static FIELDS: [KeptField; 4] = [
    KeptField::list(CACHE_CONTROL, |text| {
        matches!(cache_control(text), Ok(Some(_)))
    }),
    KeptField {
        name: CONTENT_DISPOSITION,
        // A file name of 255 bytes, in percent-encoding and once more in ASCII.
        max: 1088,
        is_list: false,
        is_valid: is_disposition,
    },
    KeptField::list(CONTENT_ENCODING, |text| are_all(text, is_token)),
    KeptField::list(CONTENT_LANGUAGE, |text| are_all(text, is_language)),
];

/// The end of a value, which is kept beside them.
static END: KeptField = KeptField::number(DELETE_AT);

/// The seconds until the end, which is kept in their place.
static UNTIL_END: KeptField = KeptField::number(DELETE_AFTER);

/// The date of a value, which is kept beside them.
static DATED: KeptField = KeptField {
    name: HeaderName::from_static(DATE),
    max: 32,
    is_list: false,
    is_valid: |text| parse_date(text.as_bytes()).is_some(),
};

/// The end of the names of compressed SVG.
const SVGZ: &str = ".svgz";

/// The fields that are kept besides, by the names that an operator gives.
#[derive(Clone, Debug, Default)]
pub struct KeptFields {
    fields: Vec<KeptField>,
    /// The bytes of [`MAX_FIELDS`] that the store has for itself: in all, and beside each field.
    pub beside: (usize, usize),
}

impl KeptFields {
    /// Adds a field, unless it is one that no value may bring.
    pub fn add(&mut self, name: &str) -> Result<(), &'static str> {
        let name = HeaderName::try_from(name).map_err(|_| "no name of a field")?;
        if let Some(why) = refused(&name) {
            return Err(why);
        }
        if self.names().all(|known| *known != name) {
            self.fields.push(KeptField {
                name,
                max: MAX_FIELDS,
                is_list: false,
                is_valid: |text| text.bytes().all(|b| matches!(b, b' '..=b'~')),
            });
        }
        Ok(())
    }

    /// The names of the fields.
    pub fn names(&self) -> impl Iterator<Item = &HeaderName> {
        self.fields.iter().map(|field| &field.name)
    }
}

const BAD_FIELD: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "bad-field");
const CODED: &Kind =
    &Kind::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content-coding").flags(&[Flag::OfStore]);

const TOO_MANY_FIELDS: Refusal = Refusal::new(
    &Kind::new(StatusCode::BAD_REQUEST, "too-many-fields"),
    "the metadata to be kept with the value, names and values, is longer than 2048 bytes together",
);

/// The body is in a coding of the transfer, which is not the value's.
pub const AWS_CHUNKED: Refusal = Refusal::new(
    CODED,
    "the server does not decode aws-chunked: clients of AWS send the value as it is with request_checksum_calculation = when_required",
);

/// The fields kept with one value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredFields(pub Vec<(HeaderName, HeaderValue)>);

impl StoredFields {
    /// The fields of a PUT with these `headers`, with those that are `kept` besides. An empty field counts as absent.
    pub fn of(headers: &HeaderMap, kept: &KeptFields) -> Result<Self, Refusal> {
        let mut fields = Vec::new();
        for field in FIELDS.iter().chain(&kept.fields) {
            if let Some(value) = field.of(headers)? {
                fields.push((field.name.clone(), value));
            }
        }
        fields.extend(end(headers)?);
        let mut fields = Self(fields);
        if let Some(date) = date(headers)? {
            fields.set_date(date);
        }
        // The fields that are always kept fit together.
        if !kept.fields.is_empty() {
            let (all, each) = kept.beside;
            let room = MAX_FIELDS.saturating_sub(all + fields.0.len() * each);
            if fields.encode().is_some_and(|text| text.len() > room) {
                return Err(BAD_FIELD.because(format!(
                    "the fields to be kept with the value, names and values, are longer than {room} bytes together"
                )));
            }
        }
        Ok(fields)
    }

    /// Adds these fields, if all fit together.
    pub fn keep(
        &mut self,
        fields: impl Iterator<Item = (HeaderName, HeaderValue)>,
    ) -> Result<(), Refusal> {
        self.0.extend(fields);
        if self.encode().is_some_and(|text| text.len() > MAX_FIELDS) {
            return Err(TOO_MANY_FIELDS);
        }
        Ok(())
    }

    /// The text to keep with the value, where there is any.
    pub fn encode(&self) -> Option<Box<[u8]>> {
        let mut text = Vec::new();
        for (name, value) in &self.0 {
            append_field(&mut text, name.as_str(), value, "\n");
        }
        (!text.is_empty()).then(|| text.into())
    }

    /// Reads the text of [`StoredFields::encode`], or of an operator. The first line of a field counts, and none of a
    /// field that is no longer `kept`.
    pub fn decode(text: &[u8], kept: &KeptFields) -> Self {
        let kept = FIELDS
            .iter()
            .chain([&END, &DATED])
            .chain(&kept.fields)
            .filter_map(|field| {
                let value = kept_value(text, field.name.as_str())?;
                let value = field.check(value).ok()??;
                Some((field.name.clone(), value))
            });
        Self(kept.collect())
    }

    /// Gives the value this date.
    pub fn set_date(&mut self, date: SystemTime) {
        self.0.retain(|(name, _)| *name != DATED.name);
        let text = HeaderValue::try_from(date_text(date));
        self.0
            .extend(text.ok().map(|date| (DATED.name.clone(), date)));
    }

    /// True where the value has a date of its own.
    pub fn has_date(&self) -> bool {
        self.get(&DATED.name).is_some()
    }

    /// True where the value is stored in a content coding.
    pub fn has_coding(&self) -> bool {
        self.get(&CONTENT_ENCODING).is_some()
    }

    /// The fields of the value of `key`. A compressed SVG that was stored without a coding gets the coding of its name:
    /// browsers cannot read it otherwise.
    pub fn with_coding_of(mut self, key: &str) -> Self {
        if has_suffix(key, SVGZ) && !self.has_coding() {
            self.0
                .push((CONTENT_ENCODING, HeaderValue::from_static("gzip")));
        }
        self
    }

    /// False where the writer of the value wants it sent as it is (RFC 9111, section 5.2.2.6).
    pub fn may_transform(&self) -> bool {
        let text = self.get(&CACHE_CONTROL).and_then(|it| it.to_str().ok());
        let mut directives = text.and_then(directives).unwrap_or_default().into_iter();
        !directives.any(|it| it.eq_ignore_ascii_case("no-transform"))
    }

    fn get(&self, name: &HeaderName) -> Option<&HeaderValue> {
        let mut fields = self.0.iter();
        fields.find(|(it, _)| it == name).map(|(_, value)| value)
    }
}

impl KeptField {
    const fn list(name: HeaderName, is_valid: fn(&str) -> bool) -> Self {
        Self {
            name,
            max: 255,
            is_list: true,
            is_valid,
        }
    }

    /// A number of seconds.
    const fn number(name: &'static str) -> Self {
        Self {
            name: HeaderName::from_static(name),
            max: 20,
            is_list: false,
            is_valid: |text| parse_end(text.as_bytes()).is_some(),
        }
    }

    fn bad(&self, why: impl Display) -> Refusal {
        BAD_FIELD.because(format!("bad {}: {why}", self.name))
    }

    /// The value of this field in `headers`, if there is one to keep.
    fn of(&self, headers: &HeaderMap) -> Result<Option<HeaderValue>, Refusal> {
        let lines = headers.get_all(&self.name).iter();
        let lines: Vec<&[u8]> = lines.map(HeaderValue::as_bytes).collect();
        match lines.len() {
            0 => Ok(None),
            2.. if !self.is_list => Err(self.bad("it may stand in a request once")),
            _ => self.check(lines.join(&b", "[..]).trim_ascii()),
        }
    }

    /// `value` as it is kept and sent again; `None` for one that says nothing.
    fn check(&self, value: &[u8]) -> Result<Option<HeaderValue>, Refusal> {
        if value.len() > self.max {
            return Err(self.bad(format_args!("it is longer than {} bytes", self.max)));
        }
        let syntax = || self.bad("its value does not have the syntax of the field");
        // No control characters but the tab: no value ends its line.
        let header = HeaderValue::from_bytes(value).map_err(|_| syntax())?;
        let text = std::str::from_utf8(value).map_err(|_| syntax())?;
        let is_encoding = self.name == CONTENT_ENCODING;
        if text.is_empty() || (is_encoding && are_all(text, is_identity)) {
            return Ok(None);
        }
        if !(self.is_valid)(text) {
            return Err(syntax());
        }
        if is_encoding && has_member(value, "aws-chunked") {
            return Err(AWS_CHUNKED);
        }
        Ok(Some(header))
    }
}

/// The end of the value of a PUT with these `headers`, as it is kept. As in Swift, X-Delete-After counts if there are
/// both, and a time that is over is refused.
pub fn end(headers: &HeaderMap) -> Result<Option<(HeaderName, HeaderValue)>, Refusal> {
    let number = |value: &HeaderValue| value.to_str().ok()?.parse().ok();
    let (field, end) = if let Some(after) = UNTIL_END.of(headers)? {
        let after = number(&after).filter(|&after| after > 0);
        (&UNTIL_END, after.and_then(end_after))
    } else if let Some(at) = END.of(headers)? {
        (&END, number(&at).filter(|&at| at > now()))
    } else {
        return Ok(None);
    };
    let end =
        end.ok_or_else(|| field.bad("a value ends in the future, and before the year 10000"))?;
    Ok(Some((END.name.clone(), end.into())))
}

/// The date of the value of a request with these headers, as it is kept.
pub fn date(headers: &HeaderMap) -> Result<Option<SystemTime>, Refusal> {
    let why =
        "a date is seconds since 1970, such as 981173106 or 981173106.5, before the year 2262";
    let date = DATED.of(headers).map_err(|_| DATED.bad(why))?;
    Ok(date.and_then(|date| parse_date(date.as_bytes())))
}

/// True for the coding that changes nothing (RFC 9110, section 8.4.1).
fn is_identity(coding: &str) -> bool {
    coding.eq_ignore_ascii_case("identity")
}

/// True where all members of the list `text` are good.
fn are_all(text: &str, is_member: impl Fn(&str) -> bool) -> bool {
    text.split(',').all(|member| is_member(member.trim_ascii()))
}

/// True for text in the form that all language tags have (RFC 5646, section 2.1).
fn is_language(tag: &str) -> bool {
    let is_subtag =
        |tag: &str| (1..=8).contains(&tag.len()) && tag.bytes().all(|b| b.is_ascii_alphanumeric());
    tag.starts_with(|c: char| c.is_ascii_alphabetic()) && tag.split('-').all(is_subtag)
}

/// True for a disposition type, alone or with parameters (RFC 6266, section 4.1). The parameters are not checked:
/// clients understand more than the RFC allows, for example a file name in UTF-8 without quotes.
fn is_disposition(text: &str) -> bool {
    let kind = text.split(';').next().unwrap_or_default();
    is_token(kind.trim_ascii_end())
}

/// The Cache-Control unless the operator says otherwise.
pub const DEFAULT_CACHE_CONTROL: &str = "no-cache";

/// The text is no value of Cache-Control.
#[derive(Debug, thiserror::Error)]
#[error(
    "no value of Cache-Control; give directives such as no-cache, or 'public, max-age=60', or '' to send none"
)]
pub struct BadCacheControl;

/// The Cache-Control that an operator wrote as `text`; an empty one sends none.
pub fn cache_control(text: &str) -> Result<Option<HeaderValue>, BadCacheControl> {
    match text.trim_matches(' ') {
        "" => Ok(None),
        // Copied into each answer: a static value has no reference count that reactors would share.
        DEFAULT_CACHE_CONTROL => Ok(Some(HeaderValue::from_static(DEFAULT_CACHE_CONTROL))),
        text => {
            let is_plain = text.bytes().all(|b| matches!(b, b' '..=b'~'));
            let value = HeaderValue::try_from(text).ok();
            let value = value.filter(|_| is_plain && directives(text).is_some());
            value.map(Some).ok_or(BadCacheControl)
        }
    }
}

/// The members of `#cache-directive` (RFC 9111, section 5.2), as a sender writes it: without empty ones.
fn directives(text: &str) -> Option<Vec<&str>> {
    let is_directive = |it: &&str| is_token(it) || is_parameter(it);
    split(text, ',')
        .map(|it| is_directive(&it).then_some(it))
        .collect()
}

/// `given`, restricted to one client (RFC 9111, section 5.2.2.7): without the directives that let a shared cache keep
/// the answer.
fn private(given: Option<&HeaderValue>) -> HeaderValue {
    let text = given.and_then(|given| given.to_str().ok());
    if text == Some(DEFAULT_CACHE_CONTROL) {
        return HeaderValue::from_static("private, no-cache");
    }
    let for_all = ["public", "s-maxage", "private"];
    let is_for_one = |directive: &&str| {
        let name = directive.split('=').next().unwrap_or_default();
        !for_all.iter().any(|it| name.eq_ignore_ascii_case(it))
    };
    let given = text.and_then(directives).unwrap_or_default();
    let kept = given.into_iter().filter(is_for_one);
    let private: Vec<&str> = ["private"].into_iter().chain(kept).collect();
    HeaderValue::try_from(private.join(", ")).unwrap_or(HeaderValue::from_static("private"))
}

/// Keeps an answer for the authenticated client out of shared caches (RFC 9111, section 3.5). A value's own headers
/// have Vary already.
pub fn mark_private(headers: &mut HeaderMap, subject: Option<&Subject>, is_value: bool) {
    let Some(subject) = subject else { return };
    if !is_value {
        headers.append(VARY, AUTHORIZATION.into());
    }
    if !subject.is_anonymous {
        let private = private(headers.get(CACHE_CONTROL));
        headers.insert(CACHE_CONTROL, private);
    }
}

#[cfg(test)]
mod tests {
    use crate::http::fields::*;
    use proptest::prelude::*;

    fn decode(text: impl AsRef<[u8]>) -> StoredFields {
        StoredFields::decode(text.as_ref(), &KeptFields::default())
    }

    /// The fields that a PUT with these lines, one each, keeps, as text.
    fn kept(lines: &[(&'static str, &str)]) -> Result<String, Refusal> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            headers.append(*name, value);
        }
        let fields = StoredFields::of(&headers, &KeptFields::default())?;
        let text = fields.encode().unwrap_or_default();
        assert_eq!(decode(&text), fields);
        Ok(String::from_utf8(text.into()).unwrap())
    }

    #[test]
    fn fields_are_kept_as_sent() {
        for line in r#"cache-control: public, max-age=60
            cache-control: private="x-a, x-b"
            content-disposition: inline
            content-disposition: attachment; filename="a b.txt"
            content-disposition: attachment ; filename=a b.txt
            content-disposition: attachment; filename*=UTF-8''na%C3%AFve.txt
            content-disposition: Attachment; filename="naïve"
            content-encoding: gzip
            content-encoding: GZIP,br
            content-encoding: x-own
            content-encoding: gzip, identity
            content-language: de
            content-language: de-CH-1996, en
            content-language: i-klingon
            x-delete-at: 253402300799
            x-oc-mtime: 981173106.25"#
            .lines()
        {
            let line = line.trim_start();
            let expected = Ok(format!("{line}\n"));
            assert_eq!(kept(&[line.split_once(": ").unwrap()]), expected);
        }
    }

    #[test]
    fn several_lines_of_a_list_are_one_value() {
        let lines = [
            ("content-encoding", "gzip"),
            ("content-language", "de"),
            ("content-encoding", "br"),
        ];
        let expected = "content-encoding: gzip, br\ncontent-language: de\n";
        assert_eq!(kept(&lines).unwrap(), expected);
        let twice = [("content-disposition", "inline"); 2];
        let why = kept(&twice).unwrap_err().to_string();
        assert_eq!(
            why,
            "bad content-disposition: it may stand in a request once"
        );
    }

    #[test]
    fn what_says_nothing_is_not_kept() {
        for (name, value) in [
            ("cache-control", ""),
            ("content-disposition", " "),
            ("content-encoding", ""),
            ("content-encoding", "identity"),
            ("content-encoding", "Identity, identity"),
            ("x-other", "value"),
        ] {
            assert_eq!(kept(&[(name, value)]).unwrap(), "", "{name}: {value}");
        }
    }

    #[test]
    fn what_clients_would_misread_is_refused() {
        for line in r#"cache-control: max-age: 60
            cache-control: no-cache,
            content-disposition: ; filename=a
            content-disposition: filename=a
            content-disposition: "attachment"
            content-encoding: gzip br
            content-encoding: gzip,,br
            content-encoding: gzip;q=1
            content-encoding: gzïp
            content-language: *
            content-language: de_CH
            content-language: 1996
            content-language: abcdefghi
            content-language: de-"#
            .lines()
        {
            let (name, value) = line.trim_start().split_once(": ").unwrap();
            let why = kept(&[(name, value)]).unwrap_err().to_string();
            let expected = format!("bad {name}: its value does not have the syntax of the field");
            assert_eq!(why, expected, "{line}");
        }
        for value in ["aws-chunked", "gzip, AWS-Chunked", "aws-chunked,gzip"] {
            let why = kept(&[("content-encoding", value)]);
            assert_eq!(why, Err(AWS_CHUNKED), "{value}");
        }
    }

    #[test]
    fn the_longest_values_fit_in_the_attribute_and_longer_ones_are_refused() {
        let mut headers = HeaderMap::new();
        for field in &FIELDS {
            // A list of short members, which each of the fields takes.
            let value = if field.is_list {
                format!("{}a", "a,".repeat(field.max / 2))
            } else {
                format!("a;{}", "b".repeat(field.max - 2))
            };
            assert_eq!(value.len(), field.max);
            let longer = HeaderValue::try_from(format!("{value}b")).unwrap();
            headers.insert(&field.name, longer);
            let why = field.bad(format_args!("it is longer than {} bytes", field.max));
            assert_eq!(StoredFields::of(&headers, &KeptFields::default()), Err(why));
            headers.insert(&field.name, HeaderValue::try_from(value).unwrap());
        }
        let fields = StoredFields::of(&headers, &KeptFields::default()).unwrap();
        let text = fields.encode().unwrap();
        assert!(text.len() <= MAX_FIELDS, "{}", text.len());
        assert_eq!(decode(&text).0.len(), FIELDS.len());
    }

    #[test]
    fn what_an_operator_wrote_is_checked() {
        let both = "content-encoding: br\ncontent-language: de\n";
        for (text, expected) in [
            ("Content-Encoding:gzip", "content-encoding: gzip\n"),
            ("content-language: de\r\n\ncontent-encoding:  br  \n", both),
            (
                "content-encoding: br\ncontent-language: de\ncontent-language: en",
                both,
            ),
            ("content-language: de\rx-evil: 1", ""),
            (
                "content-disposition: inline\nx-evil: 1",
                "content-disposition: inline\n",
            ),
            ("content-type: text/html\nset-cookie: a=b", ""),
            ("content-length: 1\ntransfer-encoding: chunked", ""),
            ("content-encoding: aws-chunked", ""),
            ("content-encoding", ""),
            (":", ""),
            ("", ""),
        ] {
            let read = decode(text).encode().unwrap_or_default();
            assert_eq!(String::from_utf8_lossy(&read), expected, "{text:?}");
        }
    }

    fn value() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            "[a-z]{1,8}([,;=\" -][a-z0-9]{1,8}){0,6}".prop_map(String::into_bytes),
            "[ -~\t\u{e9}]{0,40}".prop_map(String::into_bytes),
            proptest::collection::vec(any::<u8>(), 0..40),
        ]
    }

    proptest! {
        #[test]
        fn what_is_kept_is_read_the_same_again(lines in proptest::collection::vec((0..FIELDS.len(), value()), 0..6)) {
            let mut headers = HeaderMap::new();
            for (field, value) in lines {
                if let Ok(value) = HeaderValue::from_bytes(&value) {
                    headers.append(&FIELDS[field].name, value);
                }
            }
            if let Ok(fields) = StoredFields::of(&headers, &KeptFields::default()) {
                let text = fields.encode();
                prop_assert_eq!(text.is_none(), fields.0.is_empty());
                let text = text.unwrap_or_default();
                prop_assert!(text.len() <= MAX_FIELDS);
                prop_assert_eq!(decode(&text), fields);
            }
        }

        #[test]
        fn no_text_makes_other_fields_or_lines(
            lines in proptest::collection::vec((0..FIELDS.len(), "[:\t ]{0,2}", value()), 0..6),
            end in "\r?\n|\r|\0|",
        ) {
            let mut text = Vec::new();
            for (field, colon, value) in lines {
                for part in [FIELDS[field].name.as_str().as_bytes(), colon.as_bytes(), &value, end.as_bytes()] {
                    text.extend_from_slice(part);
                }
            }
            let fields = decode(&text);
            for (name, value) in fields.0.clone() {
                prop_assert!(FIELDS.iter().any(|field| field.name == name));
                prop_assert!(!value.as_bytes().iter().any(|b| b"\r\n\0".contains(b)));
            }
            // Each field that is read could have been sent.
            let headers: HeaderMap = fields.0.clone().into_iter().collect();
            prop_assert_eq!(StoredFields::of(&headers, &KeptFields::default()), Ok(fields));
        }
    }

    #[test]
    fn what_is_for_one_client_is_kept_for_no_other() {
        let listed = "Public,S-MaxAge=3 , no-cache=\"a, b\"";
        for (given, expected) in [
            ("no-cache", "private, no-cache"),
            ("public, max-age=60", "private, max-age=60"),
            (listed, "private, no-cache=\"a, b\""),
            ("private", "private"),
            ("private=\"x\", no-store", "private, no-store"),
            ("not, = valid", "private"),
        ] {
            let given = HeaderValue::from_static(given);
            assert_eq!(private(Some(&given)), expected, "{given:?}");
        }
        assert_eq!(private(None), "private");
    }

    #[test]
    fn directives_are_sent_as_given() {
        for good in [
            DEFAULT_CACHE_CONTROL,
            "no-store",
            "public,max-age=60 , immutable",
            "private=\"x-a, x-b\", stale-while-revalidate=30",
            "community=\"a\\\"b\"",
        ] {
            let field = cache_control(good).unwrap();
            assert_eq!(field.unwrap(), good);
        }
        assert_eq!(cache_control(" no-cache ").unwrap().unwrap(), "no-cache");
        // An empty value sends none.
        assert_eq!(cache_control("").unwrap(), None);
        assert_eq!(cache_control("  ").unwrap(), None);
    }

    #[test]
    fn what_caches_would_misread_is_refused() {
        for bad in "Cache-Control: no-cache|max-age: 60|max-age 60|max-age=|max-age =60|max-age=60; public|\
            no-cache,|,no-cache|no-cache,,public|=60|private=\"x|private=\"x\"y|no-cache\r\nx-a: b|\
            no-cache\tpublic|no-c\u{e4}che|\"no-cache\"".split('|') {
            assert!(cache_control(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_taken_is_one_field(text in "[ -~\r\n\t\u{e9}]{0,30}") {
            if let Ok(Some(field)) = cache_control(&text) {
                prop_assert_eq!(field.to_str().unwrap(), text.trim_matches(' '));
            }
        }

        #[test]
        fn well_formed_directives_are_taken(text in "[a-z-]{1,8}(=([a-z0-9]{1,5}|\"[a-z, ]{0,5}\"))?( ?, ?[a-z-]{1,8}(=[0-9]{1,5})?){0,3}") {
            prop_assert!(cache_control(&text).is_ok());
        }
    }
}
