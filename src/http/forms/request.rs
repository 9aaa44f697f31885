//! A form with files as it arrives (RFC 7578; HTML, section 4.10.22): its head, its parts one after the other, the role of each,
//! and which may come when.
//!
//! A form has the fields `folder` and `replace`, both optional and each once, and then one or more files named `file`. What is
//! not understood is refused: a file that lands elsewhere than its sender meant is worse than none.
//!
//! multer finds where parts begin and end. It takes all bytes that it can get, and the head of a part may be of any length to
//! it. So it is given one frame of the body at a time, when it has found nothing in what it has, and few for a head: at most
//! two frames and [`MAX_PART_HEAD`] are in memory.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::Stream;
use hyper::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use hyper::http::request::Parts;
use multer::{Field, Multipart};

use crate::http::body::request::Received;
use crate::http::forms::{BadForm, MAX_FILES};
use crate::http::head::syntax::is_token;
use crate::http::refusal::rejection::Rejection;
use crate::http::ui;
use crate::http::values::conditional::Preconditions;
use crate::http::values::media;
use crate::store::{Key, MAX_LEN};

/// About the longest head of a part, in bytes.
const MAX_PART_HEAD: usize = 16 * 1024;

/// The longest delimiter (RFC 2046, section 5.1.1).
const MAX_BOUNDARY: usize = 70;

/// As much as may follow the last delimiter, in bytes.
const MAX_EPILOGUE: usize = 64 * 1024;

/// The longest text of a field, in bytes.
pub const MAX_TEXT: usize = MAX_LEN + 1;

/// The head of a form.
#[derive(Debug)]
pub struct FormRequest {
    pub boundary: String,
    /// They are decided for each file.
    pub preconditions: Option<Preconditions>,
    /// The answer is for a person, who goes on to the page of the folder.
    pub wants_page: bool,
}

impl FormRequest {
    pub fn of(head: &Parts) -> Result<Self, Rejection> {
        let media_type = head.headers.get(CONTENT_TYPE);
        let media_type = media_type.and_then(|value| value.to_str().ok());
        let boundary = media_type.and_then(|value| multer::parse_boundary(value).ok());
        let is_good = |boundary: &String| (1..=MAX_BOUNDARY).contains(&boundary.len());
        Ok(Self {
            boundary: boundary.filter(is_good).ok_or(Rejection::NoForm)?,
            preconditions: Preconditions::of(&head.headers).filter(Preconditions::are_of_writes),
            wants_page: ui::is_preferred(&head.headers),
        })
    }
}

/// A part of a form, without its data.
#[derive(Debug)]
pub struct Part {
    pub disposition: Disposition,
    pub media_type: Option<Box<str>>,
}

/// Where the bytes of a form come from.
pub trait Frames {
    /// The next ones, or `None` at the end.
    fn next_frame(&mut self) -> impl Future<Output = Result<Option<Bytes>, Rejection>>;
}

impl Frames for Received<'_> {
    async fn next_frame(&mut self) -> Result<Option<Bytes>, Rejection> {
        self.next().await
    }
}

/// A form as it arrives.
pub struct Form<'f, F> {
    body: &'f mut F,
    frame: NextFrame,
    parts: Multipart<'static>,
    /// The part whose data comes.
    part: Option<Field<'static>>,
}

impl<'f, F: Frames> Form<'f, F> {
    pub fn new(boundary: String, body: &'f mut F) -> Self {
        let frame = NextFrame::default();
        Self {
            body,
            parts: Multipart::new(frame.clone(), boundary),
            frame,
            part: None,
        }
    }

    /// The next part, once the data of the one before has been taken; `None` behind the last.
    pub async fn next(&mut self) -> Result<Option<Part>, Rejection> {
        self.part = None;
        let mut taken = 0;
        loop {
            let mut cx = Context::from_waker(Waker::noop());
            match self.parts.poll_next_field(&mut cx) {
                Poll::Ready(Ok(Some(field))) => {
                    let part = part(&field)?;
                    self.part = Some(field);
                    return Ok(Some(part));
                }
                Poll::Ready(Ok(None)) => return Ok(None),
                Poll::Ready(Err(_)) => return Err(BadForm::Malformed.into()),
                Poll::Pending if taken > MAX_PART_HEAD => return Err(BadForm::HeadTooLong.into()),
                Poll::Pending => taken += self.receive().await?,
            }
        }
    }

    /// The next bytes of the part, or `None` once its end has been seen.
    pub async fn data(&mut self) -> Result<Option<Bytes>, Rejection> {
        loop {
            let Some(part) = &mut self.part else {
                return Ok(None);
            };
            let mut cx = Context::from_waker(Waker::noop());
            match Pin::new(part).poll_next(&mut cx) {
                Poll::Ready(Some(Ok(data))) => return Ok(Some(data)),
                Poll::Ready(None) => return Ok(None),
                Poll::Ready(Some(Err(_))) => return Err(BadForm::Malformed.into()),
                Poll::Pending => self.receive().await?,
            };
        }
    }

    /// Receives what follows the last part, to the end of the body unless that is far.
    pub async fn end(&mut self) -> Result<(), Rejection> {
        let mut taken = 0;
        while taken <= MAX_EPILOGUE {
            let Some(data) = self.body.next_frame().await? else {
                break;
            };
            taken += data.len();
        }
        Ok(())
    }

    /// Gives multer the next frame of the body, or its end; how many bytes.
    async fn receive(&mut self) -> Result<usize, Rejection> {
        if self.frame.has_ended() {
            return Err(BadForm::Malformed.into());
        }
        let data = self.body.next_frame().await?;
        let len = data.as_ref().map_or(0, Bytes::len);
        self.frame.put(data);
        Ok(len)
    }
}

fn part(field: &Field<'_>) -> Result<Part, BadForm> {
    let headers = field.headers();
    let disposition = headers.get(CONTENT_DISPOSITION);
    let disposition = disposition.and_then(|value| Disposition::parse(value.as_bytes()));
    let media_type = headers.get(CONTENT_TYPE);
    let media_type = media_type.and_then(|value| media::check(value.as_bytes()));
    Ok(Part {
        disposition: disposition.ok_or(BadForm::Disposition)?,
        // Browsers say so of a file whose type they do not know.
        media_type: media_type
            .filter(|it| !it.eq_ignore_ascii_case("application/octet-stream"))
            .map(Into::into),
    })
}

/// The frame that multer is given next: the stream that it reads has nothing, one frame, or its end. After each change the
/// form polls again, so a waker that does nothing is enough.
#[derive(Clone, Default)]
struct NextFrame(Arc<Mutex<Given>>);

#[derive(Default)]
enum Given {
    #[default]
    Nothing,
    Frame(Bytes),
    End,
}

impl NextFrame {
    fn put(&self, data: Option<Bytes>) {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *given = data.map_or(Given::End, Given::Frame);
    }

    fn has_ended(&self) -> bool {
        let given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(*given, Given::End)
    }
}

impl Stream for NextFrame {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::take(&mut *given) {
            Given::Nothing => Poll::Pending,
            Given::Frame(data) => Poll::Ready(Some(Ok(data))),
            Given::End => {
                *given = Given::End;
                Poll::Ready(None)
            }
        }
    }
}

/// The Content-Disposition of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disposition {
    pub name: String,
    pub file_name: Option<String>,
}

impl Disposition {
    /// Of the value of a part's Content-Disposition.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?;
        let (kind, mut rest) = text.split_once(';')?;
        if !kind.trim_ascii().eq_ignore_ascii_case("form-data") {
            return None;
        }
        let (mut name, mut file_name) = (None, None);
        loop {
            let (parameter, value, behind) = parameter(rest)?;
            let slot = match &*parameter.to_ascii_lowercase() {
                "name" => &mut name,
                "filename" => &mut file_name,
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
            file_name,
        })
    }
}

/// The parameter at the front, its value, and what stands behind it.
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

/// The text up to the quote that ends it, and what stands behind that. Browsers write `"`, CR and LF as escapes of URLs, and
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

/// The role of a part.
#[derive(Debug, PartialEq, Eq)]
pub enum Role {
    /// The text of this field.
    Text(&'static str),
    /// The value of this key.
    File(Key<'static>),
}

/// The state of a form: the parts that have come so far.
#[derive(Debug, Default)]
pub struct FormState {
    folder: Option<String>,
    replace: Option<bool>,
    files: usize,
}

impl FormState {
    /// The folder that files go to, with the `/` at its end; that of the root is empty.
    pub fn folder(&self) -> &str {
        self.folder.as_deref().unwrap_or_default()
    }

    /// Whether files take the place of what is there.
    pub fn replaces(&self) -> bool {
        self.replace == Some(true)
    }

    /// The role of the next part.
    pub fn role(&mut self, part: Disposition) -> Result<Role, Rejection> {
        let (name, is_there) = match &*part.name {
            "folder" => ("folder", self.folder.is_some()),
            "replace" => ("replace", self.replace.is_some()),
            "file" => return self.file(part.file_name).map(Role::File),
            _ => return Err(BadForm::UnknownField(part.name).into()),
        };
        if is_there {
            return Err(BadForm::Twice(name).into());
        }
        if self.files > 0 {
            return Err(BadForm::Late(name).into());
        }
        Ok(Role::Text(name))
    }

    fn file(&mut self, name: Option<String>) -> Result<Key<'static>, Rejection> {
        let name = name.ok_or(BadForm::NoFileName)?;
        if name.is_empty() {
            return Err(BadForm::NoFileChosen.into());
        }
        self.files += 1;
        if self.files > MAX_FILES {
            return Err(BadForm::TooManyFiles.into());
        }
        Ok(Key::new(format!("{}{name}", self.folder()))?)
    }

    /// The text of the field `name` is this.
    pub fn set(&mut self, name: &'static str, text: Vec<u8>) -> Result<(), Rejection> {
        let text = String::from_utf8(text).map_err(|_| BadForm::Text(name))?;
        if name == "folder" {
            let is_open = !text.is_empty() && !text.ends_with('/');
            self.folder = Some(if is_open { text + "/" } else { text });
            return Ok(());
        }
        self.replace = Some(match &*text {
            "1" | "on" | "true" => true,
            "" | "0" | "off" | "false" => false,
            _ => return Err(BadForm::Replace.into()),
        });
        Ok(())
    }

    /// The form has ended.
    pub fn end(&self) -> Result<(), Rejection> {
        if self.files == 0 {
            return Err(BadForm::NoFile.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::http::forms::request::*;
    use crate::store::BadKey;

    fn parsed(value: &str) -> Option<(String, Option<String>)> {
        let part = Disposition::parse(value.as_bytes())?;
        Some((part.name, part.file_name))
    }

    #[test]
    fn a_part_is_named_as_browsers_and_other_clients_do() {
        let file = |name: &str| Some(("file".to_owned(), Some(name.to_owned())));
        for (value, name) in [
            ("form-data; name=\"file\"; filename=\"a b.txt\"", "a b.txt"),
            ("FORM-DATA;name=file;FileName=a.txt", "a.txt"),
            ("form-data ; filename = \"a\" ; name = \"file\" ", "a"),
            ("form-data; name=\"file\"; filename=\"\"", ""),
            (
                "form-data; name=\"file\"; filename=\"d/e;f=\\u{e9}.txt\"; size=\"1\"",
                "d/e;f=\u{e9}.txt",
            ),
            (
                "form-data; name=\"file\"; filename=\"%22a%0D%0A%25%zz%\"",
                "\"a\r\n%25%zz%",
            ),
            (
                "form-data; name=\"file\"; filename=\"a\\\"b\\c\\\\d\"",
                "a\"b\\c\\\\d",
            ),
        ] {
            assert_eq!(
                parsed(&value.replace("\\u{e9}", "\u{e9}")),
                file(name),
                "{value}"
            );
        }
        assert_eq!(
            parsed("form-data; name=\"folder\""),
            Some(("folder".into(), None))
        );
        for bad in [
            "",
            "form-data",
            "form-data; filename=\"a\"",
            "attachment; name=\"file\"",
            "form-data; name=\"file",
            "form-data; name=\"file\" x",
            "form-data; name",
            "form-data; name=a b",
            "form-data; name=\"a\"; name=\"b\"",
            "form-data; name=\"a\";",
            "form-data; name=\"file\"; filename=\"a\\\"",
        ] {
            assert_eq!(parsed(bad), None, "{bad}");
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
    fn files_go_to_the_folder_that_came_before_them() {
        for (folder, key) in [
            (None, "x"),
            (Some(""), "x"),
            (Some("a"), "a/x"),
            (Some("a/b/"), "a/b/x"),
        ] {
            let mut form = FormState::default();
            if let Some(folder) = folder {
                assert_eq!(form.role(part("folder", None)), Ok(Role::Text("folder")));
                form.set("folder", folder.into()).unwrap();
            }
            let role = form.role(part("file", Some("x"))).unwrap();
            assert_eq!(role, Role::File(Key::new(key).unwrap()));
            assert!(!form.replaces() && form.end().is_ok());
            let late = form.role(part("replace", None));
            assert_eq!(late, Err(BadForm::Late("replace").into()));
        }
        let mut form = FormState::default();
        form.set("folder", "a//".into()).unwrap();
        let key = form.role(part("file", Some("x")));
        assert_eq!(key, Err(BadKey::EmptySegment.into()));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let mut form = FormState::default();
        assert_eq!(form.end(), Err(BadForm::NoFile.into()));
        for (name, file_name, why) in [
            ("file", None, BadForm::NoFileName),
            ("file", Some(""), BadForm::NoFileChosen),
            ("x", Some("a"), BadForm::UnknownField("x".into())),
        ] {
            assert_eq!(form.role(part(name, file_name)), Err(why.into()));
        }
        for (text, replaces) in [
            ("on", true),
            ("1", true),
            ("true", true),
            ("", false),
            ("off", false),
        ] {
            assert_eq!(form.set("replace", text.into()), Ok(()));
            assert_eq!(form.replaces(), replaces);
        }
        assert_eq!(
            form.set("replace", "maybe".into()),
            Err(BadForm::Replace.into())
        );
        assert_eq!(
            form.set("folder", vec![0xff]),
            Err(BadForm::Text("folder").into())
        );
        let again = form.role(part("replace", None));
        assert_eq!(again, Err(BadForm::Twice("replace").into()));
        for at in 0..MAX_FILES {
            assert!(form.role(part("file", Some(&at.to_string()))).is_ok());
        }
        let more = form.role(part("file", Some("more")));
        assert_eq!(more, Err(BadForm::TooManyFiles.into()));
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
