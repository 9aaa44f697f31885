//! Each verb of each door that changes something, a row each: what it is to be refused for, and how it is asked for.

use super::Ask;
use crate::archives::tar;
use crate::support::form::{self, FOLDER, FORM, file};
use crate::support::prelude::*;

/// What a verb is, by which refusals choose:
///
/// - `Store`: it stores a value under the key that is asked for.
/// - `MakeFolder`: it makes a folder of this name, or moves or copies one to it.
/// - `Remove`: it removes the value or folder.
/// - `Move`: it has a source, and a Destination.
/// - `Body`: the request has the bytes of the value in its body.
/// - `InParts`: what arrives is kept for later: a body that breaks off may stay.
/// - `Later`: its name is looked at when its last part comes.
/// - `Folder`: its names end with a slash.
/// - `Conditional`: preconditions of the value at the target of the request hold for it.
/// - `Announced`: an announced length is known at the head.
/// - `Room`: it needs room of the disk.
/// - `State`: it is about the lock of a state, and a POST is refused without one.
/// - `Share`: it changes nothing of the directory, whatever becomes of it.
///
/// Behind it the key, or folder, that it names where a refusal does not choose another. A new verb joins by a row here
/// and an arm of [`Verb::request`].
const VERBS: &str = "
PUT of a small value ; Store Body Conditional Announced Room ; new/x
PUT of a large value ; Store Body Conditional Announced Room ; new/x
PUT in chunks ; Store Body Conditional Room ; new/x
PUT of a value that ends ; Store Body Conditional Announced Room ; new/x
PUT that may go on later ; Store Body InParts Conditional Announced Room ; new/x
the first part of an upload ; Store Body InParts Later Conditional Announced Room ; new/x
a part of an upload ; InParts Body
the last part of an upload ; InParts Body
POST of a form ; Store Body Form Announced Room ; new/x
PUT of an archive ; Store Body Archive Announced Room ; new/x
DELETE of a value ; Remove Conditional ; val
MOVE of a value ; Store Move Conditional ; new/x
COPY of a value ; Store Move Conditional Room ; new/x
MKCOL ; MakeFolder Folder Room ; src/x/
DELETE of a folder ; Remove Folder ; dir/
MOVE of a folder ; MakeFolder Folder Move ; new/
LOCK of a state ; State Body Room ; new/x
UNLOCK of a state ; State Body ; val
POST of a state ; State Body ; val
POST for a link to share ; Share ; val
COPY of a folder ; MakeFolder Folder Move Room ; new/
";

pub(super) struct Verb {
    pub(super) name: &'static str,
    pub(super) is: Vec<&'static str>,
    pub(super) key: &'static str,
}

/// Each verb.
pub(super) fn verbs() -> Vec<Verb> {
    let verb = |[name, is, key]: [&'static str; 3]| Verb {
        name,
        is: words(is),
        key,
    };
    table(VERBS).map(verb).collect()
}

impl Verb {
    pub(super) fn is(&self, what: &str) -> bool {
        self.is.contains(&what)
    }

    pub(super) fn request(&self, ask: &Ask<'_>) -> Request {
        match self.name {
            "PUT of a small value" => put(ask, SMALL, ""),
            "PUT of a large value" => put(ask, LARGE, ""),
            "PUT in chunks" => Request {
                is_chunked: true,
                ..put(ask, LARGE, "")
            },
            "PUT of a value that ends" => put(ask, SMALL, "X-Delete-After: 600\r\n"),
            "PUT that may go on later" => put(ask, LARGE, "Upload-Complete: ?1\r\n"),
            "the first part of an upload" => first_part(ask),
            "a part of an upload" => append(ask, false),
            "the last part of an upload" => append(ask, true),
            "POST of a form" => form(ask),
            "PUT of an archive" => unpack(ask),
            "DELETE of a value" => of_folder("DELETE", ask, ""),
            "MOVE of a value" => from_to("MOVE", "src/v", ask, ""),
            "COPY of a value" => from_to("COPY", "src/v", ask, ""),
            "MKCOL" => of_folder("MKCOL", ask, ""),
            "DELETE of a folder" => {
                of_folder("DELETE", ask, ask.depth.unwrap_or("Depth: infinity\r\n"))
            }
            "MOVE of a folder" => from_to("MOVE", "src/", ask, ask.depth.unwrap_or("")),
            "COPY of a folder" => from_to("COPY", "src/", ask, ask.depth.unwrap_or("")),
            "LOCK of a state" => of_state("LOCK", ask),
            "UNLOCK of a state" => of_state("UNLOCK", ask),
            "POST of a state" => of_state("POST", ask),
            "POST for a link to share" => {
                let target = format!("/{}?share=1h{}", ask.key, ask.query.replace('?', "&"));
                Request::new("POST", target, ask.lines.to_owned())
            }
            name => panic!("{name} is not asked for"),
        }
    }
}

/// A request as it is sent; the length of its body is added to its lines.
#[derive(Clone, Default)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) lines: String,
    pub(super) body: Option<Vec<u8>>,
    pub(super) is_chunked: bool,
}

impl Request {
    fn new(method: &str, target: String, lines: String) -> Self {
        Self {
            method: method.to_owned(),
            target,
            lines,
            ..Self::default()
        }
    }

    fn with(mut self, body: Vec<u8>) -> Self {
        self.body = Some(body);
        self
    }

    /// Its head, and its body.
    pub(super) fn bytes(&self, host: &str) -> [Vec<u8>; 2] {
        let (framing, body) = match &self.body {
            None => (String::new(), Vec::new()),
            Some(body) if self.is_chunked => (
                "Transfer-Encoding: chunked\r\n".to_owned(),
                in_chunks(body, 30_000),
            ),
            Some(body) => (format!("Content-Length: {}\r\n", body.len()), body.clone()),
        };
        let Self {
            method,
            target,
            lines,
            ..
        } = self;
        let head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{framing}{lines}\r\n");
        [head.into_bytes(), body]
    }
}

/// The values of this matrix take four blocks of the disk.
pub(super) const SMALL: usize = 16 << 10;

/// Written to a file of its own as it comes.
pub(super) const LARGE: usize = 512 << 10;

fn put(ask: &Ask<'_>, len: usize, lines: &str) -> Request {
    let lines = format!("{lines}{}", ask.lines);
    let request = Request::new("PUT", format!("/{}{}", ask.key, ask.query), lines);
    request.with(pattern(9, ask.len.unwrap_or(len)))
}

fn from_to(method: &str, from: &str, ask: &Ask<'_>, lines: &str) -> Request {
    let (from, to) = (ask.from.unwrap_or(from), ask.key);
    let lines = format!("Destination: /{to}\r\n{lines}{}", ask.lines);
    Request::new(method, format!("/{from}{}", ask.query), lines)
}

fn of_folder(method: &str, ask: &Ask<'_>, lines: &str) -> Request {
    let lines = format!("{lines}{}", ask.lines);
    Request::new(method, format!("/{}{}", ask.key, ask.query), lines)
}

fn of_state(method: &str, ask: &Ask<'_>) -> Request {
    let lines = format!("Content-Type: application/json\r\n{}", ask.lines);
    let target = format!("/{}?ID=1{}", ask.key, ask.query.replace('?', "&"));
    Request::new(method, target, lines).with(b"{\"ID\":\"1\"}".to_vec())
}

fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('/').unwrap_or(("", key))
}

fn form(ask: &Ask<'_>) -> Request {
    let (folder, name) = split(ask.key);
    let value = pattern(9, ask.len.unwrap_or(SMALL));
    let body = form::form(&[(FOLDER, folder.as_bytes()), (&file(name), &value)]);
    let target = format!("/-/upload{}", ask.query);
    Request::new("POST", target, format!("{FORM}{}", ask.lines)).with(body)
}

fn unpack(ask: &Ask<'_>) -> Request {
    let (folder, name) = split(ask.key);
    let value = pattern(9, ask.len.unwrap_or(SMALL));
    let slash = if folder.is_empty() { "" } else { "/" };
    let query = ask.query.replace('?', "&");
    let target = format!("/{folder}{slash}?archive=tar{query}");
    let body = tar([(name, &value[..])]);
    Request::new("PUT", target, ask.lines.to_owned()).with(body)
}

fn first_part(ask: &Ask<'_>) -> Request {
    let len = ask.len.unwrap_or(LARGE);
    let lines = format!("Upload-Complete: ?0\r\nUpload-Length: {len}\r\n");
    let len = Some(len / 2);
    put(&Ask { len, ..*ask }, PART, &lines)
}

/// The bytes that each part of an upload has.
pub(super) const PART: usize = 5_000;

fn append(ask: &Ask<'_>, is_last: bool) -> Request {
    let last = u8::from(is_last);
    let kind = format!(
        "Content-Type: application/partial-upload\r\nUpload-Offset: {PART}\r\nUpload-Complete: ?{last}\r\n"
    );
    let target = format!("{}{}", ask.upload, ask.query);
    Request::new("PATCH", target, kind + ask.lines).with(pattern(8, ask.len.unwrap_or(PART)))
}
