//! What other kernels give: strace injects what they say of Landlock.

use super::possible;
use crate::support::prelude::*;

/// What a kernel says of Landlock, as strace takes it, and the start line that follows; and whether it is all that is
/// required.
const KERNELS: &str = "
    error=ENOSYS ; nothing is enforced by this kernel: it has no Landlock
    error=EOPNOTSUPP ; nothing is enforced by this kernel: it has Landlock, which is not enabled
    retval=1 ; nothing is enforced by this kernel: its Landlock has no renames
    retval=2 ; files, but truncate(2), not the network; Landlock ABI 2
    retval=3 ; files, not the network; Landlock ABI 3
    retval=4 ; files, network; Landlock ABI 4 ; and that is enough";

/// A server with these options on a kernel that says so.
fn under(says: &str, args: &[&str]) -> Launch {
    let inject = format!("inject=landlock_create_ruleset:{says}:when=1");
    let words = words("strace -D -o /dev/null -e trace=landlock_create_ruleset -e");
    let words = [words, vec![&inject]].concat();
    Launch::new(args).through(&words)
}

#[test]
fn each_kernel_gives_what_the_start_line_says() {
    let can_inject = can_trace() && possible().is_some();
    let what = "the sandbox of other kernels";
    only_where!(can_inject, what, "strace does not run here");
    for [says, line, enough] in table(KERNELS) {
        let is_enough = !enough.is_empty();
        let mut server = under(says, &["--sandbox", "auto"]).start();
        server.store("a/b", "value");
        assert_eq!(server.get("a/b").body, b"value", "{says}");
        server.stop();
        let log = server.log();
        let lines = log.iter().filter(|logged| logged.contains("sandbox: "));
        let lines: Vec<_> = lines.collect();
        assert_eq!(lines.len(), 1, "{says}: {log:#?}");
        assert!(lines[0].contains(line), "{says}: {lines:?}");

        match under(says, &["--sandbox", "require"]).start_or_end() {
            Ok(_) => assert!(is_enough, "{says}"),
            Err(ended) => {
                let is_right = !is_enough && ended.code == Some(1);
                assert!(is_right, "{says}: {}", ended.stderr);
                let starts_with = "data-server: --sandbox require: ";
                assert!(ended.stderr.starts_with(starts_with), "{}", ended.stderr);
                let is_right = ended.stderr.contains("Linux 6.7 or later");
                assert!(is_right, "{}", ended.stderr);
            }
        }
    }
}

#[test]
fn it_can_be_turned_off() {
    let mut server = Launch::new(&["--sandbox", "off"]).start();
    server.stop();
    let log = server.log();
    let lines = log.iter().filter(|line| line.contains("sandbox: "));
    let expected = "nothing is enforced, as --sandbox off says";
    let lines: Vec<_> = lines.collect();
    assert!(lines.len() == 1 && lines[0].contains(expected), "{lines:?}");
}
