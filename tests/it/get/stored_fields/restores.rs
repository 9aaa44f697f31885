//! `rsync -a` and `tar` lose media types, other fields and digests. The commands in the documentation keep them, and a
//! server on the restored directory gives the same answers as the old one.

use crate::support::prelude::*;

const VALUES: [(&str, &str, usize); 3] = [
    ("page", "text/x-own; charset=utf-8", 100),
    ("large", "application/x-own", 700_000),
    ("name with spaces", "image/x-own", 0),
];

const FIELDS: [(&str, &str); 4] = [
    ("cache-control", "max-age=60"),
    ("content-disposition", "attachment; filename=\"a b\""),
    ("content-encoding", "x-own"),
    ("content-language", "de, en"),
];

fn target(key: &str) -> String {
    format!("/{}", key.replace(' ', "%20"))
}

/// What a client sees of a value, including its digest.
fn seen(server: &TestServer, key: &str) -> Response {
    let got = server.request("GET", &target(key), "Want-Repr-Digest: sha-256=1\r\n", b"");
    assert_eq!(got.status, 200, "{key}");
    got
}

/// Runs `commands` with the old directory as `$1`, the backup as `$2` and the new directory as `$3`, and checks that a
/// server on the new one gives the same answers.
fn assert_restores(commands: &str) {
    let mut server = TestServer::start(&[]);
    for (seed, (key, media_type, len)) in (0..).zip(VALUES) {
        let fields = FIELDS.map(|(name, field)| format!("{name}: {field}\r\n"));
        let lines = format!("Content-Type: {media_type}\r\n{}", fields.concat());
        let put = server.request("PUT", &target(key), &lines, &pattern(seed, len));
        assert_eq!(put.status, 200, "{key}");
    }
    let before = VALUES.map(|(key, ..)| seen(&server, key));

    let (backup, restored) = (DataDir::temporary(), DataDir::temporary());
    let output = Command::new("sh")
        .args(["-euc", commands, "sh"])
        .args([server.dir.path(), backup.path(), restored.path()])
        .output()
        .expect("sh");
    assert!(output.status.success(), "{commands}: {output:?}");
    server.stop();
    drop(server);

    let again = Launch::new(&[]).on(&restored).start();
    for ((key, media_type, _), before) in VALUES.into_iter().zip(before) {
        let after = seen(&again, key);
        assert_eq!(after.must("content-type"), media_type, "{key}: {commands}");
        for name in ["content-type", "etag", "last-modified", "repr-digest"] {
            let [after, before] = [&after, &before].map(|told| told.must(name));
            assert_eq!(after, before, "{name} of {key}: {commands}");
        }
        for (name, field) in FIELDS {
            assert_eq!(after.must(name), field, "{name} of {key}: {commands}");
        }
        assert!(after.body == before.body, "{key}: {commands}");
    }
    let mut keys: Vec<&str> = VALUES.iter().map(|(key, ..)| *key).collect();
    keys.sort_unstable();
    restored.assert_holds(&keys);
}

#[test]
fn a_restore_keeps_fields_versions_and_digests() {
    directory_only!("hands in the directory");
    for (program, commands) in [
        ("cp", r#"cp -a "$1/." "$2/"; cp -a "$2/." "$3/""#),
        (
            "rsync",
            r#"rsync -aX --exclude=/.data-server/staging/ "$1/" "$2/"; rsync -aX "$2/" "$3/""#,
        ),
        (
            "tar",
            r#"tar --create --format=pax --xattrs --directory "$1" --file "$2/backup.tar" .
               tar --extract --xattrs --xattrs-include='user.*' --directory "$3" --file "$2/backup.tar""#,
        ),
    ] {
        if Command::new(program).arg("--version").output().is_ok() {
            assert_restores(commands);
        } else {
            left_out(&format!("a restore by {program}"), "which is not installed");
        }
    }
}
