//! Why requests are refused, a row each: of which verbs, what is asked for, and the statuses of it.

use super::verbs::{LARGE, Request, Verb};
use crate::support::prelude::*;

/// What is refused where everything may be done: verbs that are all of these and none of those behind `!`; what they
/// ask for in place of their own, which parts of [`Refusal`] say, a fault by which the request is spoilt, or a field;
/// one of these statuses, or none where the client does not wait for it; and why.
pub(super) const OPEN: &str = "
Store !Later ; key=dir ; 409 ; a folder has the name
Store !Later ; key=val/x ; 409 ; a value is above
MakeFolder ; key=val/x ; 409 507 ; a value is above
Store !Later ; key=mounted ; 409 ; a mount has the name
Remove Folder ; key=mounted ; 409 ; a mount has the name
Store !Later ; key=immutable/x ; 403 ; the folder is immutable
Store !Later ; key=immutable/v ; 403 412 ; the folder of the value is immutable
MakeFolder ; key=immutable/x ; 403 409 507 ; the folder is immutable
Remove !Folder ; key=immutable/v ; 403 ; the folder is immutable
Remove Folder ; key=immutable ; 403 409 ; the folder is immutable
Move !Folder !Room ; from=immutable/v | key=src/x ; 403 ; its folder is immutable
MakeFolder !Room ; key=dir ; 409 412 ; the folder is there
MakeFolder !Move ; key=dir ; 405 ; the folder is there
MakeFolder ; key=val ; 405 409 412 507 ; a value has the name
Move Store ; key=src/v ; 403 ; it is the source
Move Folder ; key=src/below ; 403 ; it is in the source
Move Store ; key=new/ ; 400 ; a folder for a value

Conditional ; If-Match: \"x\" ; 412 ; If-Match
Conditional Store ; If-Match: \"x\" | key=val ; 412 ; If-Match
Conditional Body ; If-None-Match: * | key=val ; 412 ; If-None-Match
Conditional ; If-Unmodified-Since: Thu, 01 Jan 1970 00:00:01 GMT | key=val ; 412 ; If-Unmodified-Since
Form ; key=val ; 412 ; there is such a value
Move Store ; Destination-If-Match: \"x\" ; 412 ; Destination-If-Match
Move Store ; Destination-If-None-Match: * | key=val ; 412 ; Destination-If-None-Match
Move Store ; Overwrite: F | key=val ; 412 ; Overwrite: F
Move Folder !Room ; Overwrite: F | key=dir ; 412 ; Overwrite: F
Folder ; If-Match: * ; 400 ; a condition of a folder
Move Folder ; depth=Depth: 0 ; 400 ; Depth
Folder !MakeFolder ; depth=Depth: 1 ; 400 409 ; Depth
Folder Remove ; depth= ; 409 ; no Depth

Remove ; key=none ; 404 ; it is missing
Move Store ; from=none ; 404 ; its source is missing
Move Folder ; from=none/ ; 404 ; its source is missing
Folder ; key= ; 400 403 404 405 409 412 ; the root
MakeFolder !Move ; key=no/parent/x ; 409 507 ; no parent
InParts !Store ; another upload ; 404 ; there is no such upload
Store Body !InParts ; another method ; 400 405 ; a method that is none

!Share !Form ; key=a//b ; 400 ; an empty segment
!Share !Form ; key=a/%2E%2E/b ; 400 ; two dots
!Share ; key=.data-server/x ; 400 ; the server's own
Store ; key=-/x ; 400 404 405 ; the server's pages
!Share !Archive ; key=LONG ; 400 414 ; a long name
Folder ; query=?what=1 ; 400 ; a query
MakeFolder !Move ; a body ; 415 ; a body
Store Body !Conditional ; another body ; 400 ; nothing of the kind
Store Body !Conditional ; half a body ; 400 ; half of it

State ; another body ; 409 413 ; no lock
State ; If: (<urn:x>) ; 501 ; a lock of WebDAV
State Room ; key=immutable/x ; 403 409 ; the folder is immutable
State Room ; key=quota/x ; 507 409 ; the quota is full
State ; cut ; ; its client leaves

Store Body Conditional ; X-Delete-After: soon ; 400 ; an end that is none
Store Body Conditional ; Content-Range: bytes 0-1/2 ; 400 ; a part
Store Body Conditional ; Content-Digest: sha-256=:AAAA: ; 400 ; a digest that is none
Store Body Conditional !InParts ; Content-Digest: sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=: ; 400 ; another
Store Body Conditional !InParts ; Repr-Digest: sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=: ; 400 ; another
Archive ; Content-Encoding: gzip ; 415 ; a coding of an archive
Body ; Expect: nonsense ; 417 ; an expectation
Store ; If: (<urn:x>) ; 501 ; a lock
 ; Sec-Fetch-Site: cross-site ; 403 ; a page of another site
Move ; Overwrite: X ; 400 ; Overwrite
Move ; Destination: /other ; 400 ; two destinations
InParts !Store ; another offset ; 409 ; another offset
InParts !Store ; another type ; 415 ; no part of an upload

Store ; key=quota/x ; 507 ; the quota is full
MakeFolder ; key=quota/x ; 409 507 ; the quota is full
Store Body ; len=2097152 ; 507 ; more than the bound
Store Body !InParts ; cut ; ; its client leaves
Conditional Body !InParts ; cut | key=val ; ; its client leaves
";

pub(super) const NO_RIGHT: &str = "
 ; ; 401 403 ; nobody
 ; Authorization: Bearer dst_guest-0123456789abcdef0123456789abcdef ; 403 404 ; who may read alone
 ; Authorization: Bearer dst_nobody-0123456789abcdef0123456789abcdef ; 401 429 ; a token of nobody
";

pub(super) const TOO_LARGE: &str = "
Store Body ; ; 413 ; --max-body
Conditional Body ; key=val ; 413 ; --max-body
";

pub(super) const OTHER_HOST: &str = " ; ; 421 ; Host";
pub(super) const READ_ONLY: &str = "!Share !InParts ; ; 403 405 ; --read-only";
pub(super) const FLOOR: &str = "Room ; ; 507 ; --min-free";
pub(super) const COUNTING: &str = "
Store !Later ; ; 503 ; a count
State Room ; ; 503 ; a count
";

#[derive(Default)]
pub(super) struct Refusal {
    of: Vec<&'static str>,
    not: Vec<&'static str>,
    pub(super) why: &'static str,
    /// The key or folder, without its slash.
    pub(super) key: Option<String>,
    pub(super) from: Option<&'static str>,
    pub(super) lines: String,
    pub(super) query: &'static str,
    pub(super) depth: Option<String>,
    /// The length of the value.
    pub(super) len: Option<usize>,
    /// How a request that is right is spoilt.
    pub(super) spoilt: &'static str,
    pub(super) status: Vec<u16>,
}

/// The refusals of these rows, whose words each name what some verb is.
pub(super) fn refusals(rows: &'static str, verbs: &[Verb]) -> Vec<Refusal> {
    let refusal = |[of, asked, status, why]: [&'static str; 4]| {
        let (not, of): (Vec<_>, Vec<_>) = words(of).into_iter().partition(|is| is.starts_with('!'));
        let not: Vec<_> = not.iter().map(|is| &is[1..]).collect();
        let is_known = |is: &&str| verbs.iter().any(|verb| verb.is(is));
        assert!(of.iter().chain(&not).all(is_known), "{why}: {of:?} {not:?}");
        let status = words(status).into_iter().map(|it| it.parse().unwrap());
        let mut refusal = Refusal {
            of,
            not,
            why,
            status: status.collect(),
            ..Refusal::default()
        };
        asked.split(" | ").for_each(|what| refusal.ask(what));
        refusal
    };
    table(rows).map(refusal).collect()
}

impl Refusal {
    fn ask(&mut self, what: &'static str) {
        let line = |text: &str| format!("{text}\r\n");
        match what.split_once('=') {
            _ if what.contains(": ") && !what.starts_with("depth=") => self.lines = line(what),
            Some(("key", key)) => self.key = Some(key.replace("LONG", &"x".repeat(300))),
            Some(("from", from)) => self.from = Some(from),
            Some(("query", query)) => self.query = query,
            Some(("depth", "")) => self.depth = Some(String::new()),
            Some(("depth", depth)) => self.depth = Some(line(depth)),
            Some(("len", len)) => self.len = Some(len.parse().unwrap()),
            _ => self.spoilt = what,
        }
    }

    pub(super) fn is_of(&self, verb: &Verb) -> bool {
        let is_append = verb.key.is_empty();
        self.of.iter().all(|it| verb.is(it))
            && !self.not.iter().any(|it| verb.is(it))
            && !(is_append && self.key.is_some())
    }

    /// Spoils a request; one that is cut has half of its body sent.
    pub(super) fn spoil(&self, request: &mut Request) {
        let replace = |lines: &mut String, from, to| *lines = lines.replace(from, to);
        match self.spoilt {
            "" | "cut" => {}
            "another upload" => request.target.push('x'),
            "another method" => "PATCH".clone_into(&mut request.method),
            "a body" => request.body = Some(b"x".to_vec()),
            "another body" => request.body = Some(vec![b'x'; LARGE]),
            "half a body" => {
                let body = request.body.as_mut().expect("a body");
                body.truncate(body.len() / 2);
            }
            "another offset" => replace(&mut request.lines, "Offset: 5000", "Offset: 0"),
            "another type" => replace(&mut request.lines, "partial-upload", "x"),
            spoilt => panic!("{spoilt} spoils nothing"),
        }
    }
}
