//! Proves how a start fails: exit code, a reason on standard error, nothing on standard output.

use crate::support::prelude::*;

#[test]
fn wrong_usage_is_exit_code_2() {
    let wrong: [&[&str]; 15] = [
        &["--threads", "nope"],
        &["--threads", "0"],
        &["--no-such-option"],
        &["stray"],
        &["--max-body", "much"],
        &["--header-timeout", "10 parsecs"],
        &["--log-level", "loud"],
        &["--log-format", "xml"],
        &["--max-connections", "-1"],
        &["--max-connections", "0"],
        &["--max-connections-per-ip", "0"],
        &["--max-staged", "much"],
        &["--allowed-host", "http://a"],
        &["--grace-period"],
        &["--listen", "nowhere"],
    ];
    for args in wrong {
        let launch = Launch::new(args);
        let ended = if args[0].starts_with("--l") {
            launch.bare()
        } else {
            launch
        }
        .run();
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.stderr);
        assert_eq!(ended.stdout, "", "{args:?}");
        assert!(!ended.stderr.is_empty(), "{args:?} without a reason");
    }
}

#[test]
fn a_second_server_on_the_directory_is_exit_code_3() {
    directory_only!("one server of a directory");
    let mut first = TestServer::start(&[]);
    first.store("k", "value");
    let second = Launch::new(&[]).on(&first.dir).run();
    assert_eq!(second.code, Some(3), "{}", second.stderr);
    let is_right = second.stderr.contains(&first.proc().0.to_string());
    assert!(is_right, "no pid in {}", second.stderr);
    assert_eq!(second.stdout, "");
    assert_eq!(first.get("k").body, b"value", "the first serves on");
    first.stop();
    let body = Launch::new(&[]).on(&first.dir).start().get("k").body;
    assert_eq!(body, b"value", "the directory is free again");
}

#[test]
fn an_address_in_use_is_exit_code_4() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = taken.local_addr().expect("its address").to_string();
    let ended = Launch::new(&[]).listen(&addr).run();
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    let is_right = ended.stderr.contains(&addr);
    assert!(is_right, "no address in {}", ended.stderr);
    assert_eq!(ended.stdout, "");
}

#[test]
fn a_directory_that_is_a_file_is_exit_code_1() {
    directory_only!("hands in the directory");
    let dir = DataDir::temporary();
    dir.place("file", "not a directory");
    let ended = Launch::new(&[]).on(&DataDir::at(dir.file("file"))).run();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("file"), "no path in {}", ended.stderr);
    assert_eq!(dir.read("file"), b"not a directory");
}

#[test]
fn help_names_every_option() {
    let help = Launch::new(&["--help"]).run();
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    let options = "threads dir listen pin max-connections max-connections-per-ip max-staged max-body read-only allowed-host cors-origin discard compat header-timeout \
                   idle-timeout min-rate grace-period log-level log-format access-log";
    for option in options.split_whitespace() {
        let holds = help.stdout.contains(&format!("--{option}"));
        assert!(holds, "--{option} is not in the help");
    }
    let is_right = help.stdout.contains("DATA_SERVER_DIR");
    assert!(is_right, "the environment is not in the help");
    let version = Launch::new(&["--version"]).run();
    let expected = (Some(0), concat!("data-server ", env!("CARGO_PKG_VERSION")));
    assert_eq!((version.code, version.stdout.as_str()), expected);
}
