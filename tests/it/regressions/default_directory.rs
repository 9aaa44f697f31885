//! The server silently used a default directory that belonged to another user, or was a link. Any user can create that name
//! first in `/tmp`.

use crate::support::prelude::*;

/// The server without `--dir`, with an empty `/tmp` of its own that `prepare` fills; `None` if that is not possible here.
fn in_own_tmp(prepare: &str, args: &[&str], named: Option<&str>) -> Option<Launch> {
    let script =
        format!("mount -t tmpfs tmpfs /tmp && chmod 1777 /tmp && {prepare} && exec \"$@\"");
    let possible = std::process::Command::new("unshare")
        .args(["-m", "mount", "-t", "tmpfs", "tmpfs", "/tmp"])
        .status();
    let binary = Path::new(env!("CARGO_BIN_EXE_data-server"));
    only_where!(
        possible.is_ok_and(|status| status.success()) && !binary.starts_with("/tmp"),
        "the default directory",
        "/tmp cannot be another for a test here",
        None
    );
    let args: Vec<&str> = args
        .iter()
        .copied()
        .chain(["--listen", "127.0.0.1:0", "--log-format", "json"])
        .collect();
    let launch = Launch::new(&args)
        .bare()
        .through(&["unshare", "-m", "sh", "-c", &script, "sh"]);
    Some(match named {
        Some(dir) => launch.env("DATA_SERVER_DIR", dir),
        None => launch,
    })
}

#[track_caller]
fn assert_not_taken(ended: &Ended, what: &str) {
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    for part in ["/tmp/data-rs", what, "--dir"] {
        let is_right = ended.stderr.contains(part);
        assert!(is_right, "no {part:?} in {}", ended.stderr);
    }
    assert_eq!(ended.stdout, "");
}

const FOREIGN: &str = "mkdir /tmp/data-rs && chown 65534 /tmp/data-rs";
const LINK: &str = "mkdir /tmp/elsewhere && ln -s elsewhere /tmp/data-rs";
const DANGLING: &str = "ln -s elsewhere /tmp/data-rs";

#[test]
fn a_foreign_or_linked_default_directory_is_refused() {
    directory_only!("the options of a directory");
    for args in [&[][..], &["--read-only"]] {
        for (prepare, what) in [
            (FOREIGN, "another user"),
            (LINK, "a link"),
            (DANGLING, "a link"),
        ] {
            let launch = needed!(in_own_tmp(prepare, args, None));
            assert_not_taken(&launch.run(), what);
        }
    }
}

#[test]
fn a_directory_named_by_an_option_is_accepted() {
    directory_only!("the options of a directory");
    for prepare in [FOREIGN, LINK] {
        for (args, named) in [
            (&["--dir", "/tmp/data-rs"][..], None),
            (&[], Some("/tmp/data-rs")),
        ] {
            let launch = needed!(in_own_tmp(prepare, args, named));
            let server = launch.start();
            server.store("k", "value");
            assert!(default_warnings(&server).is_empty());
        }
    }
}

const DEFAULT: &str = "/tmp/data-rs is for trying out, for /tmp is emptied at reboots: give a directory of your own, as in data-server ./values";

fn default_warnings(server: &TestServer) -> Vec<String> {
    let told = server.events(DEFAULT);
    told.into_iter().map(|event| event.level).collect()
}

#[test]
fn an_own_default_directory_is_used_with_a_warning() {
    directory_only!("the options of a directory");
    for prepare in ["true", "mkdir /tmp/data-rs"] {
        let launch = needed!(in_own_tmp(prepare, &[], None));
        let server = launch.start();
        server.store("k", "value");
        assert_eq!(server.get("k").body, b"value");
        server.event(DEFAULT);
        assert_eq!(default_warnings(&server), ["WARN"]);
    }
}
