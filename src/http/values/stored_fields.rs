//! The fields of a PUT that are kept with its value and sent with it again: Cache-Control, Content-Disposition,
//! Content-Encoding and Content-Language. Content-Type has rules of its own (`media`).
//!
//! Pure. They are kept as text, a line `name: value` for each, so that an operator can read and set them. The text may have
//! been set by hand, so what is read back goes through the checks of what arrives with a PUT, and a line that fails them
//! counts as absent.

use hyper::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, HeaderMap, HeaderName,
    HeaderValue,
};

use crate::http::head::syntax::{has_member, is_token};
use crate::http::values::cache_control::cache_control;

/// A field that is kept.
struct Field {
    name: HeaderName,
    /// The longest value that is kept, in bytes.
    max: usize,
    /// Whether the value is a list, which several lines of a head make up (RFC 9110, section 5.3).
    is_list: bool,
    is_valid: fn(&str) -> bool,
}

/// In the order in which they are kept. All of them together are at most [`crate::store::MAX_FIELDS`] bytes.
static FIELDS: [Field; 4] = [
    Field {
        name: CACHE_CONTROL,
        max: 255,
        is_list: true,
        is_valid: |text| matches!(cache_control(text), Ok(Some(_))),
    },
    Field {
        name: CONTENT_DISPOSITION,
        // A file name of 255 bytes, in percent-encoding and once more in ASCII.
        max: 1088,
        is_list: false,
        is_valid: is_disposition,
    },
    Field {
        name: CONTENT_ENCODING,
        max: 255,
        is_list: true,
        is_valid: |text| are_all(text, is_token),
    },
    Field {
        name: CONTENT_LANGUAGE,
        max: 255,
        is_list: true,
        is_valid: |text| are_all(text, is_language),
    },
];

/// Why the fields of a PUT cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadField {
    #[error("bad {0}: its value does not have the syntax of the field")]
    Syntax(HeaderName),
    #[error("bad {0}: it is longer than {1} bytes")]
    TooLong(HeaderName, usize),
    #[error("bad {0}: it may stand in a request once")]
    Repeated(HeaderName),
    /// A coding that frames the body for its way alone.
    #[error(
        "the server does not decode aws-chunked: clients of AWS send the value as it is with request_checksum_calculation = when_required"
    )]
    Framing,
}

/// The fields of one value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredFields(Vec<(HeaderName, HeaderValue)>);

impl StoredFields {
    /// Those of a PUT with these `headers`. An empty field counts as absent.
    pub fn of(headers: &HeaderMap) -> Result<Self, BadField> {
        let mut kept = Vec::new();
        for field in &FIELDS {
            if let Some(value) = field.of(headers)? {
                kept.push((field.name.clone(), value));
            }
        }
        Ok(Self(kept))
    }

    /// The text to be kept with the value; `None` if there is nothing to keep.
    pub fn encode(&self) -> Option<Box<[u8]>> {
        let mut text = Vec::new();
        for (name, value) in &self.0 {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\n"] {
                text.extend_from_slice(part);
            }
        }
        (!text.is_empty()).then(|| text.into())
    }

    /// The fields that [`StoredFields::encode`] wrote, or an operator. The first line of a field counts.
    pub fn decode(text: &[u8]) -> Self {
        let kept = FIELDS.iter().filter_map(|field| {
            let value = text.split(|&b| b == b'\n').find_map(|line| {
                let end = line.iter().position(|&b| b == b':')?;
                let is_named = line[..end].eq_ignore_ascii_case(field.name.as_str().as_bytes());
                is_named.then(|| line[end + 1..].trim_ascii())
            })?;
            let value = field.check(value).ok()??;
            Some((field.name.clone(), value))
        });
        Self(kept.collect())
    }

    /// Whether the value is stored in a content coding.
    pub fn has_coding(&self) -> bool {
        self.0.iter().any(|(name, _)| *name == CONTENT_ENCODING)
    }
}

impl IntoIterator for StoredFields {
    type Item = (HeaderName, HeaderValue);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Field {
    /// The value of this field in `headers`, if there is one to keep.
    fn of(&self, headers: &HeaderMap) -> Result<Option<HeaderValue>, BadField> {
        let mut lines = headers.get_all(&self.name).iter();
        let Some(first) = lines.next() else {
            return Ok(None);
        };
        let mut value = first.as_bytes().to_vec();
        for line in lines {
            if !self.is_list {
                return Err(BadField::Repeated(self.name.clone()));
            }
            value.extend_from_slice(b", ");
            value.extend_from_slice(line.as_bytes());
        }
        self.check(value.trim_ascii())
    }

    /// `value` as it is sent with the value again; `None` for one that says nothing.
    fn check(&self, value: &[u8]) -> Result<Option<HeaderValue>, BadField> {
        if value.len() > self.max {
            return Err(BadField::TooLong(self.name.clone(), self.max));
        }
        let syntax = || BadField::Syntax(self.name.clone());
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
            return Err(BadField::Framing);
        }
        Ok(Some(header))
    }
}

/// RFC 9110, section 8.4.1: the coding of what has none.
fn is_identity(coding: &str) -> bool {
    coding.eq_ignore_ascii_case("identity")
}

/// Whether `text` is a list of such members.
fn are_all(text: &str, is_member: impl Fn(&str) -> bool) -> bool {
    text.split(',').all(|member| is_member(member.trim_ascii()))
}

/// A language tag as far as every one has this form (RFC 5646, section 2.1).
fn is_language(tag: &str) -> bool {
    let is_subtag =
        |tag: &str| (1..=8).contains(&tag.len()) && tag.bytes().all(|b| b.is_ascii_alphanumeric());
    tag.starts_with(|c: char| c.is_ascii_alphabetic()) && tag.split('-').all(is_subtag)
}

/// A disposition type, and parameters if there are any (RFC 6266, section 4.1). The parameters are left to the client, which
/// understands more than the RFC allows, for example a file name in UTF-8 without quotes.
fn is_disposition(text: &str) -> bool {
    let kind = text.split(';').next().unwrap_or_default();
    is_token(kind.trim_ascii_end())
}

#[cfg(test)]
mod tests {
    use crate::http::values::stored_fields::*;
    use crate::store::MAX_FIELDS;
    use proptest::prelude::*;

    /// What is kept of a PUT with these lines, one field each, as text.
    fn kept(lines: &[(&'static str, &str)]) -> Result<String, BadField> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            headers.append(*name, value);
        }
        let fields = StoredFields::of(&headers)?;
        let text = fields.encode().unwrap_or_default();
        assert_eq!(StoredFields::decode(&text), fields);
        Ok(String::from_utf8(text.into()).unwrap())
    }

    #[test]
    fn fields_are_kept_as_sent() {
        for (name, value) in [
            ("cache-control", "public, max-age=60"),
            ("cache-control", "private=\"x-a, x-b\""),
            ("content-disposition", "inline"),
            ("content-disposition", "attachment; filename=\"a b.txt\""),
            ("content-disposition", "attachment ; filename=a b.txt"),
            (
                "content-disposition",
                "attachment; filename*=UTF-8''na%C3%AFve.txt",
            ),
            ("content-disposition", "Attachment; filename=\"na\u{ef}ve\""),
            ("content-encoding", "gzip"),
            ("content-encoding", "GZIP,br"),
            ("content-encoding", "x-own"),
            ("content-encoding", "gzip, identity"),
            ("content-language", "de"),
            ("content-language", "de-CH-1996, en"),
            ("content-language", "i-klingon"),
        ] {
            let expected = format!("{name}: {value}\n");
            assert_eq!(kept(&[(name, value)]), Ok(expected));
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
        assert_eq!(
            kept(&twice),
            Err(BadField::Repeated(CONTENT_DISPOSITION.clone()))
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
        for (name, value) in [
            ("cache-control", "max-age: 60"),
            ("cache-control", "no-cache,"),
            ("content-disposition", "; filename=a"),
            ("content-disposition", "filename=a"),
            ("content-disposition", "\"attachment\""),
            ("content-encoding", "gzip br"),
            ("content-encoding", "gzip,,br"),
            ("content-encoding", "gzip;q=1"),
            ("content-encoding", "gz\u{ef}p"),
            ("content-language", "*"),
            ("content-language", "de_CH"),
            ("content-language", "1996"),
            ("content-language", "abcdefghi"),
            ("content-language", "de-"),
        ] {
            let why = kept(&[(name, value)]);
            assert!(matches!(why, Err(BadField::Syntax(_))), "{name}: {value}");
        }
        for value in ["aws-chunked", "gzip, AWS-Chunked", "aws-chunked,gzip"] {
            let why = kept(&[("content-encoding", value)]);
            assert_eq!(why, Err(BadField::Framing), "{value}");
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
            let why = BadField::TooLong(field.name.clone(), field.max);
            assert_eq!(StoredFields::of(&headers), Err(why));
            headers.insert(&field.name, HeaderValue::try_from(value).unwrap());
        }
        let text = StoredFields::of(&headers).unwrap().encode().unwrap();
        assert!(text.len() <= MAX_FIELDS, "{}", text.len());
        assert_eq!(StoredFields::decode(&text).0.len(), FIELDS.len());
    }

    #[test]
    fn what_an_operator_wrote_is_checked() {
        for (text, expected) in [
            ("Content-Encoding:gzip", "content-encoding: gzip\n"),
            (
                "content-language: de\r\n\ncontent-encoding:  br  \n",
                "content-encoding: br\ncontent-language: de\n",
            ),
            (
                "content-language: de\ncontent-language: en",
                "content-language: de\n",
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
            let fields = StoredFields::decode(text.as_bytes());
            let read = fields.encode().unwrap_or_default();
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
            if let Ok(fields) = StoredFields::of(&headers) {
                let text = fields.encode();
                prop_assert_eq!(text.is_none(), fields.0.is_empty());
                let text = text.unwrap_or_default();
                prop_assert!(text.len() <= MAX_FIELDS);
                prop_assert_eq!(StoredFields::decode(&text), fields);
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
            let fields = StoredFields::decode(&text);
            for (name, value) in fields.clone() {
                prop_assert!(FIELDS.iter().any(|field| field.name == name));
                prop_assert!(!value.as_bytes().iter().any(|b| b"\r\n\0".contains(b)));
            }
            // What is read could have been sent.
            let headers: HeaderMap = fields.clone().into_iter().collect();
            prop_assert_eq!(StoredFields::of(&headers), Ok(fields));
        }
    }
}
