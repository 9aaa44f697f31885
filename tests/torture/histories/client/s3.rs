//! What a client of S3 asks of the same folders: their values are objects of the bucket `h`. It makes and moves no
//! folder.

use super::{Client, Request, Stage};
use crate::prelude::*;
use crate::support::Client as Session;
use crate::support::history::{Asked, By, PLACES};

/// The text of the first element of this name.
pub(in crate::histories) fn element(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let value = rest.split('<').next().unwrap_or_default();
    Some(value.replace("&quot;", "\""))
}

/// The entity tag that an answer tells: in its head, or of what it has made in its body.
pub(super) fn tag_of(answer: &Response) -> String {
    let tag = answer.header("etag").map(str::to_owned);
    let tag = tag.or_else(|| element(&answer.text(), "ETag"));
    tag.unwrap_or_else(|| panic!("no entity tag: {answer:?}"))
}

/// Which places a listing of the bucket has.
pub(super) fn listed(stage: &Stage, answer: &Response) -> [bool; PLACES] {
    let text = answer.text();
    let keys = text.split("<Key>").skip(1);
    let keys: Vec<_> = keys.filter_map(|rest| rest.split('<').next()).collect();
    assert!(keys.is_sorted_by(|a, b| a < b), "out of order: {keys:?}");
    [0, 1, 2, 3].map(|place| {
        keys.iter()
            .any(|key| stage.key(place) == format!("h/{key}"))
    })
}

/// The request that asks for this: its method, its path and its body.
pub(super) fn wanted(asked: Asked, stage: &Stage) -> (&'static str, String, Vec<u8>) {
    match asked {
        Asked::List => ("GET", "h?list-type=2".to_owned(), Vec::new()),
        Asked::Copy([_, to], _) => ("PUT", stage.key(to), Vec::new()),
        asked => super::wanted(asked, stage),
    }
}

/// What completes an upload: its query, and its list of parts.
pub(super) struct Completion {
    pub(super) query: String,
    pub(super) body: Vec<u8>,
}

impl Client {
    /// A read or a change of one place, or a copy from one to another.
    pub(super) fn choose_of_s3(&mut self, stage: &Stage) -> Request {
        if stage.rules.registers {
            let mut request = self.choose_of_registers(stage);
            let is_put = matches!(request.asked, Asked::Put(..));
            request.by = if is_put { self.way() } else { By::S3 };
            return request;
        }
        let place = self.dice.usize(..PLACES);
        let kind = self.dice.u64(..20);
        let (mut by, none) = (By::S3, String::new());
        let (asked, lines) = match kind {
            0 if !stage.rules.is_cut => (Asked::List, none),
            0..=4 => (Asked::Get(place), none),
            5..=7 => {
                let (only, lines) = self.condition(place, "If-Match", "");
                (Asked::Delete(place, only), lines)
            }
            8..=10 if !stage.rules.is_cut => {
                let to = (place + 1 + self.dice.usize(..PLACES - 1)) % PLACES;
                let (from, of_from) = self.condition(place, "x-amz-copy-source-if-match", "");
                let (only, of_to) = self.condition(to, "If-Match", "If-None-Match: *\r\n");
                let source = format!("x-amz-copy-source: /{}\r\n", stage.key(place));
                let lines = [source, of_from, of_to].concat();
                (Asked::Copy([place, to], [from, only]), lines)
            }
            _ => {
                by = self.way();
                let (only, lines) = self.condition(place, "If-Match", "If-None-Match: *\r\n");
                (Asked::Put(place, stage.write(), only), lines)
            }
        };
        Request {
            by,
            ..Request::new((asked, lines))
        }
    }

    fn way(&mut self) -> By {
        if self.dice.bool() { By::S3 } else { By::Parts }
    }

    /// Sends a value in parts: two, the later one first at times, and at times one that is replaced. What completes
    /// them; `None` where the server ended meanwhile.
    pub(super) fn send_parts(
        &mut self,
        stage: &Stage,
        session: &mut Session,
        key: &str,
        value: &[u8],
    ) -> Option<Completion> {
        let mut ask = |method: &str, query: &str, body: &[u8]| {
            let length = format!("Content-Length: {}\r\n", body.len());
            let lines = if method == "POST" { &*length } else { "" };
            match session.hear(method, &format!("{key}?{query}"), lines, body) {
                Heard::Answer(answer) if answer.status == 200 => Some(answer),
                heard => {
                    assert!(stage.may_break(), "{method} {key}?{query}: {heard:?}");
                    None
                }
            }
        };
        let id = element(&ask("POST", "uploads", b"")?.text(), "UploadId").expect("an id");
        let (first, second) = value.split_at(self.dice.usize(1..value.len()));
        let mut order = vec![(1, first), (2, second)];
        if self.dice.bool() {
            order.reverse();
        }
        if self.dice.u64(..4) == 0 {
            order.insert(0, (2, &b"replaced"[..]));
        }
        let mut parts = BTreeMap::new();
        for (number, part) in order {
            let answer = ask("PUT", &format!("partNumber={number}&uploadId={id}"), part)?;
            parts.insert(number, tag_of(&answer));
        }
        let parts = parts.iter().map(|(number, tag)| {
            format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>")
        });
        let parts: String = parts.collect();
        let list = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
        Some(Completion {
            query: format!("?uploadId={id}"),
            body: list.into_bytes(),
        })
    }
}

/// Where a server listens for clients of S3.
pub(in crate::histories) fn door_of(server: &TestServer) -> SocketAddr {
    let listens = |line: &String| line.strip_prefix("listening on s3+http://")?.parse().ok();
    let mut found = None;
    eventually("it listens for clients of S3", || {
        found = server.stdout_so_far().iter().find_map(listens);
        found.is_some()
    });
    found.expect("an address")
}

/// Gives up all uploads in parts, of which the clients have gone; nothing is left of them.
pub(in crate::histories) fn end_uploads(server: &TestServer) {
    let session = &mut Session::new(door_of(server));
    let uploads = session.ask("GET", "h?uploads").text();
    for upload in uploads.split("<Upload>").skip(1) {
        let [key, id] = ["Key", "UploadId"].map(|name| element(upload, name).expect("text"));
        let ended = session.ask("DELETE", &format!("h/{key}?uploadId={id}"));
        assert_eq!(ended.status, 204, "{ended:?}");
    }
    let left = fs::read_dir(server.dir.own("parts")).expect("the parts");
    assert_eq!(left.count(), 0, "files of parts that nobody lists");
}
