//! Requests that are wrong in themselves: names, bodies and fields.

use super::rows::{Refusal, Spoil, refusal};
use super::verbs::{
    Is::{Archive, Body, Conditional, Folder, Form, InParts, MakeFolder, Move, Share, Store},
    LARGE,
};

pub(super) const MALFORMED: &[Refusal] = &[
    Refusal {
        key: Some("a//b"),
        ..refusal("an empty segment", &[], &[Share, Form], &[400])
    },
    Refusal {
        key: Some("a/%2E%2E/b"),
        ..refusal("two dots", &[], &[Share, Form], &[400])
    },
    Refusal {
        key: Some(".data-server/x"),
        ..refusal("the server's own", &[], &[Share], &[400])
    },
    Refusal {
        key: Some("-/x"),
        ..refusal("the server's pages", &[Store], &[], &[400, 404, 405])
    },
    Refusal {
        key: Some(LONG),
        ..refusal("a long name", &[], &[Share, Archive], &[400, 414])
    },
    Refusal {
        query: "?what=1",
        ..refusal("a query", &[Folder], &[], &[400])
    },
    Refusal {
        spoil: Spoil::With(|request| request.body = Some(b"x".to_vec())),
        ..refusal("a body", &[MakeFolder], &[Move], &[415])
    },
    Refusal {
        spoil: Spoil::With(|request| request.body = Some(vec![b'x'; LARGE])),
        ..refusal(
            "nothing of the kind",
            &[Store, Body],
            &[Conditional],
            &[400],
        )
    },
    Refusal {
        spoil: Spoil::With(|request| {
            let body = request.body.as_mut().expect("a body");
            body.truncate(body.len() / 2);
        }),
        ..refusal("half of it", &[Store, Body], &[Conditional], &[400])
    },
];

const LONG: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

pub(super) const OF_FIELDS: &[Refusal] = &[
    Refusal {
        lines: "X-Delete-After: soon\r\n",
        ..refusal(
            "an end that is none",
            &[Store, Body, Conditional],
            &[],
            &[400],
        )
    },
    Refusal {
        lines: "Content-Range: bytes 0-1/2\r\n",
        ..refusal("a part", &[Store, Body, Conditional], &[], &[400])
    },
    Refusal {
        lines: "Content-Digest: sha-256=:AAAA:\r\n",
        ..refusal(
            "a digest that is none",
            &[Store, Body, Conditional],
            &[],
            &[400],
        )
    },
    Refusal {
        lines: "Content-Digest: sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:\r\n",
        ..refusal(
            "another digest",
            &[Store, Body, Conditional],
            &[InParts],
            &[400],
        )
    },
    Refusal {
        lines: "Repr-Digest: sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:\r\n",
        ..refusal(
            "another digest",
            &[Store, Body, Conditional],
            &[InParts],
            &[400],
        )
    },
    Refusal {
        lines: "Content-Encoding: gzip\r\n",
        ..refusal("a coding of an archive", &[Archive], &[], &[415])
    },
    Refusal {
        lines: "Expect: nonsense\r\n",
        ..refusal("an expectation", &[Body], &[], &[417])
    },
    Refusal {
        lines: "If: (<urn:x>)\r\n",
        ..refusal("a lock", &[Store], &[], &[501])
    },
    Refusal {
        lines: "Sec-Fetch-Site: cross-site\r\n",
        ..refusal("a page of another site", &[], &[], &[403])
    },
    Refusal {
        lines: "Overwrite: X\r\n",
        ..refusal("Overwrite", &[Move], &[], &[400])
    },
    Refusal {
        lines: "Destination: /other\r\n",
        ..refusal("two destinations", &[Move], &[], &[400])
    },
    Refusal {
        spoil: Spoil::With(|request| {
            request.lines = request
                .lines
                .replace("Upload-Offset: 5000", "Upload-Offset: 0");
        }),
        ..refusal("another offset", &[InParts], &[Store], &[409])
    },
    Refusal {
        spoil: Spoil::With(|request| {
            request.lines = request.lines.replace("partial-upload", "x");
        }),
        ..refusal("no part of an upload", &[InParts], &[Store], &[415])
    },
];
