//! Each verb of each door that changes something, a row each: how it is asked for, and what it is to be refused for.

use super::Ask;
use crate::archives::tar;
use crate::support::prelude::*;

/// What a verb is, by which refusals choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Is {
    /// It stores a value under the key that is asked for.
    Store,
    /// It makes a folder of this name, or moves or copies one to it.
    MakeFolder,
    /// It removes the value or folder.
    Remove,
    /// It has a source, and a Destination.
    Move,
    /// The request has the bytes of the value in its body.
    Body,
    /// What arrives is kept for later: a body that breaks off may stay.
    InParts,
    /// Its name is looked at when its last part comes.
    Later,
    Form,
    Archive,
    /// Its names end with a slash.
    Folder,
    /// Preconditions of the value at the target of the request hold for it.
    Conditional,
    /// An announced length is known at the head.
    Announced,
    /// It needs room of the disk.
    Room,
    /// It changes nothing of the directory, whatever becomes of it.
    Share,
}

pub(super) struct Verb {
    pub(super) name: &'static str,
    pub(super) is: &'static [Is],
    /// The key, or folder, that it names where a refusal does not choose another.
    pub(super) key: &'static str,
    pub(super) request: fn(&Ask<'_>) -> Request,
}

impl Verb {
    pub(super) fn is_all(&self, all: &[Is]) -> bool {
        all.iter().all(|is| self.is.contains(is))
    }

    pub(super) fn is_any(&self, any: &[Is]) -> bool {
        any.iter().any(|is| self.is.contains(is))
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

fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('/').unwrap_or(("", key))
}

fn form(ask: &Ask<'_>) -> Request {
    const BOUNDARY: &str = "----of-a-form";
    let (folder, name) = split(ask.key);
    let part = |head: &str, data: &[u8]| {
        let head = format!("--{BOUNDARY}\r\nContent-Disposition: form-data; {head}\r\n\r\n");
        [head.as_bytes(), data, b"\r\n"].concat()
    };
    let body = [
        part("name=\"folder\"", folder.as_bytes()),
        part(
            &format!("name=\"file\"; filename=\"{name}\""),
            &pattern(9, ask.len.unwrap_or(SMALL)),
        ),
        format!("--{BOUNDARY}--\r\n").into_bytes(),
    ];
    let kind = format!("Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n");
    let target = format!("/-/upload{}", ask.query);
    Request::new("POST", target, kind + ask.lines).with(body.concat())
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

/// Each verb. A new one joins by a row.
pub(super) const VERBS: &[Verb] = {
    use Is::{
        Announced, Archive, Body, Conditional, Folder, Form, InParts, Later, MakeFolder, Move,
        Remove, Room, Share, Store,
    };
    &[
        Verb {
            name: "PUT of a small value",
            is: &[Store, Body, Conditional, Announced, Room],
            key: "new/x",
            request: |ask| put(ask, SMALL, ""),
        },
        Verb {
            name: "PUT of a large value",
            is: &[Store, Body, Conditional, Announced, Room],
            key: "new/x",
            request: |ask| put(ask, LARGE, ""),
        },
        Verb {
            name: "PUT in chunks",
            is: &[Store, Body, Conditional, Room],
            key: "new/x",
            request: |ask| Request {
                is_chunked: true,
                ..put(ask, LARGE, "")
            },
        },
        Verb {
            name: "PUT of a value that ends",
            is: &[Store, Body, Conditional, Announced, Room],
            key: "new/x",
            request: |ask| put(ask, SMALL, "X-Delete-After: 600\r\n"),
        },
        Verb {
            name: "PUT that may go on later",
            is: &[Store, Body, InParts, Conditional, Announced, Room],
            key: "new/x",
            request: |ask| put(ask, LARGE, "Upload-Complete: ?1\r\n"),
        },
        Verb {
            name: "the first part of an upload",
            is: &[Store, Body, InParts, Later, Conditional, Announced, Room],
            key: "new/x",
            request: |ask| {
                let len = ask.len.unwrap_or(LARGE);
                let lines = format!("Upload-Complete: ?0\r\nUpload-Length: {len}\r\n");
                put(
                    &Ask {
                        len: Some(len / 2),
                        ..*ask
                    },
                    PART,
                    &lines,
                )
            },
        },
        Verb {
            name: "a part of an upload",
            is: &[InParts, Body],
            key: "",
            request: |ask| append(ask, false),
        },
        Verb {
            name: "the last part of an upload",
            is: &[InParts, Body],
            key: "",
            request: |ask| append(ask, true),
        },
        Verb {
            name: "POST of a form",
            is: &[Store, Body, Form, Announced, Room],
            key: "new/x",
            request: form,
        },
        Verb {
            name: "PUT of an archive",
            is: &[Store, Body, Archive, Announced, Room],
            key: "new/x",
            request: unpack,
        },
        Verb {
            name: "DELETE of a value",
            is: &[Remove, Conditional],
            key: "val",
            request: |ask| of_folder("DELETE", ask, ""),
        },
        Verb {
            name: "MOVE of a value",
            is: &[Store, Move, Conditional],
            key: "new/x",
            request: |ask| from_to("MOVE", "src/v", ask, ""),
        },
        Verb {
            name: "COPY of a value",
            is: &[Store, Move, Conditional, Room],
            key: "new/x",
            request: |ask| from_to("COPY", "src/v", ask, ""),
        },
        Verb {
            name: "MKCOL",
            is: &[MakeFolder, Folder, Room],
            key: "src/x/",
            request: |ask| of_folder("MKCOL", ask, ""),
        },
        Verb {
            name: "DELETE of a folder",
            is: &[Remove, Folder],
            key: "dir/",
            request: |ask| of_folder("DELETE", ask, ask.depth.unwrap_or("Depth: infinity\r\n")),
        },
        Verb {
            name: "MOVE of a folder",
            is: &[MakeFolder, Folder, Move],
            key: "new/",
            request: |ask| from_to("MOVE", "src/", ask, ask.depth.unwrap_or("")),
        },
        Verb {
            name: "POST for a link to share",
            is: &[Share],
            key: "val",
            request: |ask| {
                let query = ask.query.replace('?', "&");
                let target = format!("/{}?share=1h{query}", ask.key);
                Request::new("POST", target, ask.lines.to_owned())
            },
        },
        Verb {
            name: "COPY of a folder",
            is: &[MakeFolder, Folder, Move, Room],
            key: "new/",
            request: |ask| from_to("COPY", "src/", ask, ask.depth.unwrap_or("")),
        },
    ]
};
