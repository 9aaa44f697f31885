//! Forms with files (RFC 7578; HTML, section 4.10.22): the head of one, its parts and the role of each, and why one is
//! not understood.
//!
//! A form has the fields `folder` and `replace`, both optional and each once, and then one or more files named `file`.
//! What is not understood is refused: a file that lands elsewhere than its sender meant is worse than none. Pure;
//! [`perform`] receives a form.

pub mod perform;

use std::fmt::Display;
use std::time::SystemTime;

use crate::http::refusal::Refusal;
use crate::http::refusal::kind::Kind;
use hyper::StatusCode;
use hyper::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderMap, HeaderName};
use hyper::http::request::Parts;
use percent_encoding::percent_decode_str;
use serde::Serialize;

use crate::http::fields::{date, end, media};
use crate::http::head::syntax::{has_bad_escape, is_token};
use crate::http::values::conditional::preconditions_of_write;
use crate::http::values::digest_fields::{REPR_DIGEST, are_announced};
use crate::store::{
    BadKey, DELETE_AFTER, DELETE_AT, Digests, Key, MAX_LEN, Preconditions, Published,
};

/// The longest delimiter (RFC 2046, section 5.1.1).
const MAX_BOUNDARY: usize = 70;

/// The longest text of a field, in bytes.
const MAX_TEXT: usize = MAX_LEN + 1;

/// The most files of one form: the answer names them all.
const MAX_FILES: usize = 1000;

const BAD_FORM: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "bad-form");
pub const NO_FORM: Refusal = Refusal::new(
    &Kind::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "no-form"),
    "an upload is a form: multipart/form-data, with a boundary of at most 70 bytes",
);

const MALFORMED: &str = "a part is malformed, or the form ends before its last delimiter";
const DIGEST: &str =
    "the server checks no digest of a form: store each file with PUT to have it checked";
const END: &str = "the files of a form have no end: store each file with PUT to give it one";

/// The refusal of a form that is not understood.
fn bad_form(why: impl Display) -> Refusal {
    BAD_FORM.because(format!("bad form: {why}"))
}

fn bad_text(name: &str) -> Refusal {
    bad_form(format_args!("the field {name} is too long, or not UTF-8"))
}

/// The head of a form.
#[derive(Debug)]
pub struct FormRequest {
    pub boundary: String,
    /// Decided for each file.
    pub preconditions: Option<Preconditions>,
    /// The client is a person's browser, which is led to the page of the folder.
    pub wants_page: bool,
}

impl FormRequest {
    /// The form of a request with this `head`; `None` where that is of no form.
    pub fn of(head: &Parts, wants_page: bool) -> Result<Option<Self>, Refusal> {
        check_digests(&head.headers)?;
        if are_announced(&head.headers) {
            return Err(bad_form(DIGEST));
        }
        if end(&head.headers) != Ok(None) {
            return Err(bad_form(END));
        }
        let media_type = head.headers.get(CONTENT_TYPE);
        let media_type = media_type.and_then(|value| value.to_str().ok());
        let boundary = media_type.and_then(|value| multer::parse_boundary(value).ok());
        let is_good = |boundary: &String| (1..=MAX_BOUNDARY).contains(&boundary.len());
        Ok(boundary.filter(is_good).map(|boundary| Self {
            boundary,
            preconditions: preconditions_of_write(&head.headers),
            wants_page,
        }))
    }
}

/// Refuses digests in the fields of a form, or in its trailers.
pub fn check_digests(fields: &HeaderMap) -> Result<(), Refusal> {
    let is_none = Digests::of(fields) == Ok(Digests::default());
    is_none.then_some(()).ok_or_else(|| bad_form(DIGEST))
}

/// A part of a form, without its data.
#[derive(Debug)]
pub struct FormPart {
    pub disposition: Disposition,
    pub media_type: Option<Box<str>>,
    /// The date of a file, which browsers do not send.
    pub date: Option<SystemTime>,
}

impl FormPart {
    /// The part with these `headers`. Fields that are not of its content are ignored (RFC 7578, section 4.8).
    fn of(headers: &HeaderMap) -> Result<Self, Refusal> {
        for (name, value) in headers {
            check_header(name, value.as_bytes())?;
        }
        let disposition = headers.get(CONTENT_DISPOSITION);
        let disposition = disposition.and_then(|value| Disposition::parse(value.as_bytes()));
        let media_type = headers.get(CONTENT_TYPE);
        let media_type = media_type.and_then(|value| media::check(value.as_bytes()));
        Ok(Self {
            date: date(headers)?,
            disposition: disposition.ok_or_else(|| {
                bad_form("a part needs a Content-Disposition of form-data with a name, in UTF-8")
            })?,
            // Browsers say so of a file whose type they do not know.
            media_type: media_type
                .filter(|it| !it.eq_ignore_ascii_case(media::UNKNOWN))
                .map(Into::into),
        })
    }
}

/// Refuses a header that says something else of the content than its name and its type.
fn check_header(name: &HeaderName, value: &[u8]) -> Result<(), Refusal> {
    let is_one_of = |codings: &[&str]| {
        let is_value = |coding: &&str| value.trim_ascii().eq_ignore_ascii_case(coding.as_bytes());
        codings.iter().any(is_value)
    };
    match name.as_str() {
        "content-disposition" | "content-type" | "content-length" => Ok(()),
        // The coding of a part for transports that do not take all bytes (RFC 2045, section 6).
        "content-transfer-encoding" if is_one_of(&["7bit", "8bit", "binary"]) => Ok(()),
        "content-encoding" if is_one_of(&["identity"]) => Ok(()),
        "content-transfer-encoding" | "content-encoding" => Err(bad_form(format_args!(
            "the server does not decode {name} of a part: send its bytes as they are"
        ))),
        DELETE_AFTER | DELETE_AT => Err(bad_form(END)),
        other if other == REPR_DIGEST || other.starts_with("content-") => Err(bad_form(
            format_args!("the server does not know {name} of a part"),
        )),
        _ => Ok(()),
    }
}

/// The Content-Disposition of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disposition {
    pub name: String,
    pub file_name: Option<String>,
}

impl Disposition {
    pub fn parse(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?;
        let (kind, mut rest) = text.split_once(';')?;
        if !kind.trim_ascii().eq_ignore_ascii_case("form-data") {
            return None;
        }
        let (mut name, mut file_name, mut extended) = (None, None, None);
        loop {
            let (parameter, value, behind) = parameter(rest)?;
            let slot = match &*parameter.to_ascii_lowercase() {
                "name" => &mut name,
                "filename" => &mut file_name,
                "filename*" => &mut extended,
                // Not the name that its client means.
                "name*" => return None,
                _ => &mut None,
            };
            if slot.replace(value).is_some() {
                return None;
            }
            match behind.trim_ascii_start() {
                "" => break,
                behind => rest = behind.strip_prefix(';')?,
            }
        }
        Some(Self {
            name: name?,
            // RFC 6266, section 4.3: of both, this is the right one.
            file_name: match extended {
                Some(extended) => Some(decoded(&extended)?),
                None => file_name,
            },
        })
    }
}

/// True where the text of a field of this type is UTF-8.
fn is_utf8(media_type: Option<&str>) -> bool {
    let lower = media_type.unwrap_or_default().to_ascii_lowercase();
    let (_, charset) = lower.split_once("charset=").unwrap_or_default();
    ["", "utf-8", "us-ascii"].contains(&charset.trim_matches('"'))
}

/// A name in UTF-8 with percent-encoding (RFC 8187, section 3.2), which some clients send though forms have none.
fn decoded(extended: &str) -> Option<String> {
    let (charset, rest) = extended.split_once('\'')?;
    let (_, name) = rest.split_once('\'')?;
    if !charset.eq_ignore_ascii_case("utf-8") || has_bad_escape(name) {
        return None;
    }
    let name = percent_decode_str(name).decode_utf8().ok()?;
    Some(name.into_owned())
}

/// The first parameter, its value, and the rest of the text.
fn parameter(text: &str) -> Option<(&str, String, &str)> {
    let (name, value) = text.split_once('=')?;
    let name = name.trim_ascii();
    let value = value.trim_ascii_start();
    let (value, behind) = if let Some(quoted) = value.strip_prefix('"') {
        unquoted(quoted)?
    } else {
        let end = value.find([';', ' ', '\t']).unwrap_or(value.len());
        let (value, behind) = value.split_at(end);
        (is_token(value).then(|| value.to_owned())?, behind)
    };
    is_token(name).then_some((name, value, behind))
}

/// The text up to the closing quote, and the rest behind that. Browsers write `"`, CR and LF as escapes of URLs, and
/// nothing else so, not even `%`; other clients write `\"`.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut rest) = (String::new(), text);
    loop {
        let at = rest.find(['"', '\\', '%'])?;
        let (plain, behind) = rest.split_at(at);
        value.push_str(plain);
        let escapes = [("\\\"", '"'), ("%22", '"'), ("%0D", '\r'), ("%0A", '\n')];
        let escape = escapes
            .iter()
            .find(|(escape, _)| behind.starts_with(escape));
        rest = match escape {
            Some((escape, c)) => {
                value.push(*c);
                &behind[escape.len()..]
            }
            None if behind.starts_with('"') => return Some((value, &behind[1..])),
            None => {
                value.push_str(&behind[..1]);
                &behind[1..]
            }
        };
    }
}

/// A file of a form that was stored.
#[derive(Debug)]
pub struct StoredFile {
    pub key: Key<'static>,
    /// `None` where it was received and dropped.
    pub published: Option<Published>,
}

/// The role of a part.
#[derive(Debug, PartialEq, Eq)]
pub enum Role {
    /// The text of this field.
    Text(&'static str),
    /// The value of the key that the file's name makes.
    File(String),
}

/// The state of a form: the parts that have come so far.
#[derive(Debug, Default)]
pub struct FormState {
    folder: Option<String>,
    replace: Option<bool>,
    files: usize,
}

impl FormState {
    /// The folder of the files, with the `/` at its end; empty for the root.
    pub fn folder(&self) -> &str {
        self.folder.as_deref().unwrap_or_default()
    }

    /// True where files replace the values that are there.
    pub fn replaces(&self) -> bool {
        self.replace == Some(true)
    }

    /// The role of the next part.
    pub fn role(&mut self, part: Disposition, media_type: Option<&str>) -> Result<Role, Refusal> {
        let (name, is_there) = match &*part.name {
            "folder" => ("folder", self.folder.is_some()),
            "replace" => ("replace", self.replace.is_some()),
            "file" => return self.file(part.file_name).map(Role::File),
            _ => {
                return Err(bad_form(format_args!(
                    "there is no field of the name {:?}, but folder, replace and file",
                    part.name
                )));
            }
        };
        if is_there {
            return Err(bad_form(format_args!("the field {name} comes twice")));
        }
        if self.files > 0 {
            return Err(bad_form(format_args!(
                "the field {name} comes after a file; it belongs before the first"
            )));
        }
        if !is_utf8(media_type) {
            return Err(bad_text(name));
        }
        Ok(Role::Text(name))
    }

    fn file(&mut self, name: Option<String>) -> Result<String, Refusal> {
        let name = name.ok_or_else(|| bad_form("a file needs a file name"))?;
        if name.is_empty() {
            return Err(bad_form("no file was chosen"));
        }
        self.files += 1;
        if self.files > MAX_FILES {
            return Err(bad_form(format_args!(
                "there are more than {MAX_FILES} files in the form"
            )));
        }
        Ok(name)
    }

    /// The key of a file of this name.
    pub fn key(&self, name: &str) -> Result<Key<'static>, BadKey> {
        Key::new(format!("{}{name}", self.folder()))
    }

    /// Sets the field `name` to this text.
    pub fn set(&mut self, name: &'static str, text: Vec<u8>) -> Result<(), Refusal> {
        let text = String::from_utf8(text).map_err(|_| bad_text(name))?;
        if name == "folder" {
            let is_open = !text.is_empty() && !text.ends_with('/');
            self.folder = Some(if is_open { text + "/" } else { text });
            return Ok(());
        }
        self.replace = Some(match &*text {
            "1" | "on" | "true" => true,
            "" | "0" | "off" | "false" => false,
            _ => {
                return Err(bad_form(
                    "the field replace is not one of 1, on, true, 0, off, false",
                ));
            }
        });
        Ok(())
    }

    /// Refuses a form that has ended without a file.
    pub fn end(&self) -> Result<(), Refusal> {
        let has_file = (self.files > 0).then_some(());
        has_file.ok_or_else(|| bad_form("there is no file in the form"))
    }
}

#[derive(Serialize)]
struct JsonFile<'a> {
    key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<&'a str>,
}

/// The stored files, for a program.
fn json(files: &[StoredFile]) -> Vec<u8> {
    let files = files.iter().map(|StoredFile { key, published }| JsonFile {
        key: key.as_str(),
        etag: published.as_ref().map(|published| &*published.etag),
    });
    let files: Vec<_> = files.collect();
    let mut json = serde_json::to_vec(&files).unwrap_or_default();
    json.push(b'\n');
    json
}

#[cfg(test)]
mod tests {
    use data_server_testing::table;
    use proptest::prelude::*;

    use crate::http::forms::*;

    fn parsed(value: &str) -> Option<(String, Option<String>)> {
        let part = Disposition::parse(value.as_bytes())?;
        Some((part.name, part.file_name))
    }

    #[test]
    fn a_part_is_named_as_browsers_and_other_clients_do() {
        for [value, name] in table(
            r#"
            form-data; name="file"; filename="a b.txt" ; a b.txt
            FORM-DATA;name=file;FileName=a.txt ; a.txt
            form-data; name="file"; filename="" ;
            form-data; name="file"; filename="d/e;f=é.txt"; size="1" ; d/e;f=é.txt
            form-data; name="file"; filename="%22a%0D%0A%25%zz%" ; "aRN%25%zz%
            form-data; name="file"; filename="_.txt"; filename*=UTF-8''na%C3%AFve.txt ; naïve.txt
            form-data; name="file"; filename="a\"b\c\\d" ; a"b\c\\d"#,
        ) {
            let file = ("file".to_owned(), Some(name.replace("RN", "\r\n")));
            assert_eq!(parsed(value), Some(file), "{value}");
        }
        let spaced = parsed("form-data ; filename = \"a\" ; name = \"file\" ");
        assert_eq!(spaced, Some(("file".into(), Some("a".into()))));
        let folder = parsed("form-data; name=\"folder\"");
        assert_eq!(folder, Some(("folder".into(), None)));
        for bad in r#"
            form-data
            form-data; filename="a"
            attachment; name="file"
            form-data; name="file
            form-data; name="file" x
            form-data; name
            form-data; name=a b
            form-data; name="a"; name="b"
            form-data; name="a";
            form-data; name*=utf-8''file; filename="a"
            form-data; name="file"; filename*=iso-8859-1''na%EFve.txt
            form-data; name="file"; filename*=utf-8''na%EFve.txt
            form-data; name="file"; filename*=a.txt
            form-data; name="file"; filename="a\""#
            .lines()
        {
            assert_eq!(parsed(bad.trim()), None, "{bad}");
        }
        assert_eq!(Disposition::parse(b"form-data; name=\"\xff\""), None);
    }

    fn part(name: &str, file_name: Option<&str>) -> Disposition {
        Disposition {
            name: name.into(),
            file_name: file_name.map(Into::into),
        }
    }

    #[test]
    fn what_a_part_says_of_its_content_is_understood_or_refused() {
        for [why, line] in table(
            "
             ; content-type: text/plain
             ; content-length: 7
             ; content-transfer-encoding: Binary
             ; content-transfer-encoding: 7bit
             ; content-encoding: identity
             ; x-own: 1
            Coding ; content-transfer-encoding: base64
            Coding ; content-transfer-encoding: quoted-printable
            Coding ; content-encoding: gzip
            UnknownHeader ; content-language: de
            UnknownHeader ; content-digest: sha-256=:AAAA:
            UnknownHeader ; repr-digest: sha-256=:AAAA:",
        ) {
            let (name, value) = line.split_once(": ").unwrap();
            let disposition = "form-data; name=\"file\"; filename=\"a\"";
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_DISPOSITION, disposition.parse().unwrap());
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
            let found = FormPart::of(&headers).map(drop);
            let expected = match why {
                "" => Ok(()),
                "Coding" => Err(bad_form(format!(
                    "the server does not decode {name} of a part: send its bytes as they are"
                ))),
                _ => Err(bad_form(format!(
                    "the server does not know {name} of a part"
                ))),
            };
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn the_text_of_a_field_is_utf_8() {
        for (media_type, is_right) in [
            (None, true),
            (Some("text/plain"), true),
            (Some("text/plain; charset=UTF-8"), true),
            (Some("text/plain; charset=\"us-ascii\""), true),
            (Some("text/plain; charset=ISO-8859-1"), false),
        ] {
            let role = FormState::default().role(part("folder", None), media_type);
            assert_eq!(role.is_ok(), is_right, "{media_type:?}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let mut form = FormState::default();
        assert_eq!(form.end(), Err(bad_form("there is no file in the form")));
        for (name, file_name, why) in [
            ("file", None, "a file needs a file name"),
            ("file", Some(""), "no file was chosen"),
            (
                "x",
                Some("a"),
                "there is no field of the name \"x\", but folder, replace and file",
            ),
        ] {
            assert_eq!(form.role(part(name, file_name), None), Err(bad_form(why)));
        }
        for text in ["on", "1", "true", "", "off"] {
            let replaces = !matches!(text, "" | "off");
            assert_eq!(form.set("replace", text.into()), Ok(()));
            assert_eq!(form.replaces(), replaces);
        }
        let why = "the field replace is not one of 1, on, true, 0, off, false";
        assert_eq!(form.set("replace", "maybe".into()), Err(bad_form(why)));
        assert_eq!(form.set("folder", vec![0xff]), Err(bad_text("folder")));
        let again = form.role(part("replace", None), None);
        assert_eq!(again, Err(bad_form("the field replace comes twice")));
        for at in 0..MAX_FILES {
            assert!(form.role(part("file", Some(&at.to_string())), None).is_ok());
        }
        let more = form.role(part("file", Some("more")), None);
        assert_eq!(
            more,
            Err(bad_form("there are more than 1000 files in the form"))
        );
    }

    proptest! {
        #[test]
        fn a_name_is_read_as_a_browser_writes_it(name in "[^\\\\\\r\\n\"]*", file_name in any::<String>()) {
            prop_assume!(!["%22", "%0A", "%0D"].iter().any(|it| name.contains(it) || file_name.contains(it)));
            prop_assume!(!file_name.contains("\\\"") && !file_name.ends_with('\\'));
            let written = file_name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A");
            let value = format!("form-data; name=\"{name}\"; filename=\"{written}\"");
            prop_assert_eq!(parsed(&value), Some((name, Some(file_name))));
        }

        #[test]
        fn no_bytes_panic(value in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = Disposition::parse(&value);
            let _ = Disposition::parse(&[b"form-data; name=\"", &value[..]].concat());
        }
    }
}
