//! Why requests are refused, a row each: of which verbs, what is asked for, and the statuses of it.

use super::malformed::{MALFORMED, OF_FIELDS};
use super::verbs::{Is, Request, Verb};

/// How a request that is right is spoilt.
#[derive(Clone, Copy)]
pub(super) enum Spoil {
    Nothing,
    /// The client leaves half way through the body.
    Cut,
    With(fn(&mut Request)),
}

pub(super) struct Refusal {
    pub(super) why: &'static str,
    /// Verbs that are all of these.
    pub(super) of: &'static [Is],
    /// And none of these.
    pub(super) not: &'static [Is],
    /// The key or folder, without its slash.
    pub(super) key: Option<&'static str>,
    pub(super) from: Option<&'static str>,
    pub(super) lines: &'static str,
    pub(super) query: &'static str,
    pub(super) depth: Option<&'static str>,
    /// The length of the value.
    pub(super) len: Option<usize>,
    pub(super) spoil: Spoil,
    /// One of these; none where the client does not wait for it.
    pub(super) status: &'static [u16],
}

impl Refusal {
    pub(super) fn is_of(&self, verb: &Verb) -> bool {
        let not_of_appends = [Is::Store, MakeFolder, Is::Remove, Is::Share];
        let names_no_key = verb.is_any(&[Is::InParts]) && !verb.is_any(&not_of_appends);
        verb.is_all(self.of) && !verb.is_any(self.not) && !(names_no_key && self.key.is_some())
    }
}

const ANY: Refusal = Refusal {
    why: "",
    of: &[],
    not: &[],
    key: None,
    from: None,
    lines: "",
    query: "",
    depth: None,
    len: None,
    spoil: Spoil::Nothing,
    status: &[],
};

/// A refusal of verbs that are all `of` and none of `not`, which is one of these statuses.
pub(super) const fn refusal(
    why: &'static str,
    of: &'static [Is],
    not: &'static [Is],
    status: &'static [u16],
) -> Refusal {
    Refusal {
        why,
        of,
        not,
        status,
        ..ANY
    }
}

/// What is refused where everything may be done.
pub(super) const OPEN: &[&[Refusal]] = &[NAMES, CONDITIONS, MISSING, MALFORMED, OF_FIELDS, ROOM];

use Is::{
    Body, Conditional, Folder, Form, InParts, Later, MakeFolder, Move, Remove, Room, Share, Store,
};

const NAMES: &[Refusal] = &[
    Refusal {
        key: Some("dir"),
        ..refusal("a folder has the name", &[Store], &[Later], &[409])
    },
    Refusal {
        key: Some("val/x"),
        ..refusal("a value is above", &[Store], &[Later], &[409])
    },
    Refusal {
        key: Some("val/x"),
        ..refusal("a value is above", &[MakeFolder], &[], &[409, 507])
    },
    Refusal {
        key: Some("mounted"),
        ..refusal("a mount has the name", &[Store], &[Later], &[409])
    },
    Refusal {
        key: Some("mounted"),
        ..refusal("a mount has the name", &[Remove, Folder], &[], &[409])
    },
    Refusal {
        key: Some("immutable/x"),
        ..refusal("the folder is immutable", &[Store], &[Later], &[403])
    },
    Refusal {
        key: Some("immutable/x"),
        ..refusal(
            "the folder is immutable",
            &[MakeFolder],
            &[],
            &[403, 409, 507],
        )
    },
    Refusal {
        key: Some("immutable/v"),
        ..refusal("the folder is immutable", &[Remove], &[Folder], &[403])
    },
    Refusal {
        key: Some("immutable"),
        ..refusal(
            "the folder is immutable",
            &[Remove, Folder],
            &[],
            &[403, 409],
        )
    },
    Refusal {
        from: Some("immutable/v"),
        key: Some("src/x"),
        ..refusal("its folder is immutable", &[Move], &[Folder, Room], &[403])
    },
    Refusal {
        key: Some("dir"),
        ..refusal("the folder is there", &[MakeFolder], &[Room], &[409, 412])
    },
    Refusal {
        key: Some("dir"),
        ..refusal("the folder is there", &[MakeFolder], &[Move], &[405])
    },
    Refusal {
        key: Some("val"),
        ..refusal(
            "a value has the name",
            &[MakeFolder],
            &[],
            &[405, 409, 412, 507],
        )
    },
    Refusal {
        key: Some("src/v"),
        ..refusal("it is the source", &[Move, Store], &[], &[403])
    },
    Refusal {
        key: Some("src/below"),
        ..refusal("it is in the source", &[Move, Folder], &[], &[403])
    },
    Refusal {
        key: Some("new/"),
        ..refusal("a folder for a value", &[Move, Store], &[], &[400])
    },
];

const CONDITIONS: &[Refusal] = &[
    Refusal {
        lines: "If-Match: \"x\"\r\n",
        ..refusal("If-Match", &[Conditional], &[], &[412])
    },
    Refusal {
        lines: "If-Match: \"x\"\r\n",
        key: Some("val"),
        ..refusal("If-Match", &[Conditional, Store], &[], &[412])
    },
    Refusal {
        lines: "If-None-Match: *\r\n",
        key: Some("val"),
        ..refusal("If-None-Match", &[Conditional, Body], &[], &[412])
    },
    Refusal {
        lines: "If-Unmodified-Since: Thu, 01 Jan 1970 00:00:01 GMT\r\n",
        key: Some("val"),
        ..refusal("If-Unmodified-Since", &[Conditional], &[], &[412])
    },
    Refusal {
        key: Some("val"),
        ..refusal("there is such a value", &[Form], &[], &[412])
    },
    Refusal {
        lines: "Destination-If-Match: \"x\"\r\n",
        ..refusal("Destination-If-Match", &[Move, Store], &[], &[412])
    },
    Refusal {
        lines: "Destination-If-None-Match: *\r\n",
        key: Some("val"),
        ..refusal("Destination-If-None-Match", &[Move, Store], &[], &[412])
    },
    Refusal {
        lines: "Overwrite: F\r\n",
        key: Some("val"),
        ..refusal("Overwrite: F", &[Move, Store], &[], &[412])
    },
    Refusal {
        lines: "Overwrite: F\r\n",
        key: Some("dir"),
        ..refusal("Overwrite: F", &[Move, Folder], &[Room], &[412])
    },
    Refusal {
        lines: "If-Match: *\r\n",
        ..refusal("a condition of a folder", &[Folder], &[], &[400])
    },
    Refusal {
        depth: Some("Depth: 0\r\n"),
        ..refusal("Depth", &[Move, Folder], &[], &[400])
    },
    Refusal {
        depth: Some("Depth: 1\r\n"),
        ..refusal("Depth", &[Folder], &[MakeFolder], &[400, 409])
    },
    Refusal {
        depth: Some(""),
        ..refusal("no Depth", &[Folder, Remove], &[], &[409])
    },
];

const MISSING: &[Refusal] = &[
    Refusal {
        key: Some("none"),
        ..refusal("it is missing", &[Remove], &[], &[404])
    },
    Refusal {
        from: Some("none"),
        ..refusal("its source is missing", &[Move, Store], &[], &[404])
    },
    Refusal {
        from: Some("none/"),
        ..refusal("its source is missing", &[Move, Folder], &[], &[404])
    },
    Refusal {
        key: Some(""),
        ..refusal("the root", &[Folder], &[], &[400, 403, 404, 405, 409, 412])
    },
    Refusal {
        key: Some("no/parent/x"),
        ..refusal("no parent", &[MakeFolder], &[Move], &[409, 507])
    },
    Refusal {
        spoil: Spoil::With(|request| request.target.push('x')),
        ..refusal("there is no such upload", &[InParts], &[Store], &[404])
    },
    Refusal {
        spoil: Spoil::With(|request| "PATCH".clone_into(&mut request.method)),
        ..refusal(
            "a method that is none",
            &[Store, Body],
            &[InParts],
            &[400, 405],
        )
    },
];

const ROOM: &[Refusal] = &[
    Refusal {
        key: Some("quota/x"),
        ..refusal("the quota is full", &[Store], &[], &[507])
    },
    Refusal {
        key: Some("quota/x"),
        ..refusal("the quota is full", &[MakeFolder], &[], &[409, 507])
    },
    Refusal {
        len: Some(2 << 20),
        ..refusal("more than the bound", &[Store, Body], &[], &[507])
    },
    Refusal {
        spoil: Spoil::Cut,
        ..refusal("its client leaves", &[Store, Body], &[InParts], &[])
    },
    Refusal {
        spoil: Spoil::Cut,
        key: Some("val"),
        ..refusal("its client leaves", &[Conditional, Body], &[InParts], &[])
    },
];

pub(super) const NO_RIGHT: &[&[Refusal]] = &[&[
    refusal("nobody", &[], &[], &[401, 403]),
    Refusal {
        lines: super::OF_GUEST,
        ..refusal("who may read alone", &[], &[], &[403, 404])
    },
    Refusal {
        lines: "Authorization: Bearer dst_nobody-0123456789abcdef0123456789abcdef\r\n",
        ..refusal("a token of nobody", &[], &[], &[401, 429])
    },
]];

pub(super) const TOO_LARGE: &[&[Refusal]] = &[&[
    refusal("--max-body", &[Store, Body], &[], &[413]),
    Refusal {
        key: Some("val"),
        ..refusal("--max-body", &[Conditional, Body], &[], &[413])
    },
]];

pub(super) const OTHER_HOST: &[&[Refusal]] = &[&[refusal("Host", &[], &[], &[421])]];

pub(super) const READ_ONLY: &[&[Refusal]] =
    &[&[refusal("--read-only", &[], &[Share, InParts], &[403, 405])]];

pub(super) const FLOOR: &[&[Refusal]] = &[&[refusal("--min-free", &[Room], &[], &[507])]];

pub(super) const COUNTING: &[&[Refusal]] = &[&[refusal("a count", &[Store], &[Later], &[503])]];
