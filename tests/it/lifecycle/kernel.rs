//! Proves the behaviour on other kernels, on other file systems and as another user: strace injects the results of some
//! system calls, setpriv drops the rights of root. A test that cannot run here says that it is left out.

use crate::put::file_systems;
use crate::support::prelude::*;

/// Which threads strace traces; it counts the calls of each thread separately.
#[derive(Clone, Copy, PartialEq)]
enum Threads {
    /// The main thread.
    Main,
    All,
}

/// A wrapper under which these calls fail, or `None` without strace.
fn failing(calls: &str, error: &str, threads: Threads) -> Option<Vec<String>> {
    let what = format!("{calls} failing with {error}");
    only_where!(can_trace(), &what, "strace does not run here", None);
    let (names, when) = calls.split_once(':').unwrap_or((calls, "when=1+"));
    let inject = format!("inject={names}:error={error}:{when}");
    let trace = format!("trace={names}");
    let mut words = words("strace -D -o /dev/null");
    words.extend(["-e", &trace, "-e", &inject]);
    words.extend((threads == Threads::All).then_some("-f"));
    Some(words.into_iter().map(str::to_owned).collect())
}

fn under(wrapper: &[String]) -> Launch {
    let words: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    Launch::new(&[]).through(&words)
}

#[test]
fn without_openat2_the_server_refuses_to_start_and_says_so() {
    directory_only!("system calls on files");
    let strace = needed!(failing("openat2", "ENOSYS", Threads::All));
    under(&strace).run().says(1, "openat2");
}

/// Small and large values, new and replaced, whole and cut off: the contract is the same for every way to publish.
#[track_caller]
fn assert_contract(server: &TestServer) {
    file_systems::assert_contract(server);
    for (key, size) in [("empty", 0), ("small", 100), ("large", 700_000)] {
        server.store(key, pattern(1, size));
        let meta = fs::metadata(server.dir.file(key)).expect("the file");
        let mode = meta.permissions().mode();
        assert_eq!(mode & 0o7133, 0, "/{key} has mode {mode:o}");
    }
    let mut half = server.connect();
    half.send(put_head("large", 700_000));
    half.send(pattern(5, 600_000));
    eventually("the upload reaches the disk", || server.proc().staged() > 0);
    half.reset();
    eventually("the upload is forgotten", || server.proc().staged() == 0);
    let is_right = server.get("large").body == pattern(1, 700_000);
    assert!(is_right, "the old value");
    let comes = || fs::read_dir(server.dir.staging()).is_ok_and(|dir| dir.count() == 0);
    eventually("nothing is staged", comes);
    server.dir.assert_holds(&["empty", "small", "large"]);
    for key in ["empty", "small", "large"] {
        assert_eq!(server.ask("DELETE", key).status, 200);
    }
    server.dir.assert_holds(&[]);
}

#[test]
fn a_file_system_without_unnamed_files_has_the_same_contract() {
    directory_only!("system calls on files");
    // After the directories, lock and clock, which take seven, an unnamed file is tried for each way to link it.
    let strace = needed!(failing("openat2:when=8..9", "EOPNOTSUPP", Threads::Main));
    let mut server = under(&strace).start();
    assert_contract(&server);

    let mut half = server.begin("PUT", "/k", "Transfer-Encoding: chunked\r\n");
    half.send(chunked([&pattern(1, 600_000)[..]]));
    let dir = server.dir.clone();
    let staged = || fs::read_dir(dir.staging()).expect("staging").count();
    let comes = || staged() == 1;
    eventually("a named file is staged, or this tests nothing", comes);
    server.kill();
    assert_eq!(staged(), 1, "litter of the killed server");
    let again = Launch::new(&[]).on(&server.dir).start();
    again.dir.assert_holds(&[]);
}

#[test]
fn a_kernel_that_links_only_through_proc_has_the_same_contract() {
    directory_only!("system calls on files");
    let strace = needed!(failing("linkat:when=1", "ENOENT", Threads::Main));
    assert_contract(&under(&strace).start());
}

#[test]
fn an_unprivileged_user_has_the_same_contract() {
    directory_only!("the file system");
    let dir = DataDir::temporary();
    let server = needed!(served_by_nobody(&dir, "a server without rights"));
    assert_contract(&server);

    server.dir.place("secret", "of root");
    chmod(dir.file("secret"), 0o600);
    let got = server.get("secret");
    assert_eq!(got.status, 403, "{got:?}");
    server.store("secret", "replaced");
    assert_eq!(server.get("secret").body, b"replaced");
}
