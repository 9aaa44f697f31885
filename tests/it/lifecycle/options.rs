//! The server accepted `--cors-origin https://a.b/` and `a.b`, which matched no page, and refused `--listen :8080`
//! without a hint; and it silently used a default directory that belonged to another user, or was a link, as any user
//! can create that name first in `/tmp`. Proves which values it accepts, and that its error messages say what to write.

use std::net::{IpAddr, Ipv6Addr};

use crate::support::prelude::*;

#[test]
fn origins_of_the_environment_are_checked_and_may_be_none() {
    let ended = Launch::new(&[]).env("DATA_SERVER_CORS_ORIGIN", "https://c.d,a.b/");
    assert!(ended.run().stderr.contains("write https://a.b"));
    // An empty variable names no origin, so responses do not vary by it.
    let server = Launch::new(&[]).env("DATA_SERVER_CORS_ORIGIN", "").start();
    server.store("k", "value");
    assert_eq!(server.get("k").header("vary"), None);
}

/// The status of a GET at this address of the loopback network and this port.
fn status(ip: IpAddr, port: u16, page: &str) -> u16 {
    let mut raw = Raw::connect(SocketAddr::from((ip, port)));
    ask(&mut raw, "GET", page, "", b"").status
}

#[test]
fn a_port_alone_is_all_addresses() {
    let launch = Launch::new(&["--admin", ":0", "--allow-anonymous"]).listen(":0");
    let server = launch.env("DATA_SERVER_ALLOWED_HOST", "").start();
    let (values, pages) = (server.addr, server.admin());
    assert!(values.ip().is_unspecified() && pages.ip().is_unspecified());
    let mut addresses: Vec<IpAddr> = vec![[127, 0, 0, 1].into(), [127, 9, 9, 9].into()];
    if TcpListener::bind("[::1]:0").is_ok() {
        assert!(values.is_ipv6() && pages.is_ipv6());
        addresses.push(Ipv6Addr::LOCALHOST.into());
    } else {
        left_out("a port alone over IPv6", "which this machine has not");
    }
    for ip in addresses {
        assert_eq!(status(ip, values.port(), "/"), 200, "{ip}");
        assert_eq!(status(ip, pages.port(), "/-/healthz"), 200, "{ip}");
    }
}

/// The server without `--dir`, with an empty `/tmp` of its own that `prepare` fills; `None` if that is not possible
/// here.
fn in_own_tmp(prepare: &str, args: &[&str]) -> Option<Launch> {
    let script =
        format!("mount -t tmpfs tmpfs /tmp && chmod 1777 /tmp && {prepare} && exec \"$@\"");
    let possible = Command::new("unshare")
        .args(["-m", "mount", "-t", "tmpfs", "tmpfs", "/tmp"])
        .status();
    let binary = binary();
    only_where!(
        possible.is_ok_and(|status| status.success()) && !binary.starts_with("/tmp"),
        "the default directory",
        "/tmp cannot be another for a test here",
        None
    );
    let own = words("--listen 127.0.0.1:0 --log-format json");
    let launch = Launch::new(&[args, &own].concat()).bare();
    Some(launch.through(&["unshare", "-m", "sh", "-c", &script, "sh"]))
}

const DEFAULT: &str = "/tmp/data-rs is for trying out, for /tmp is emptied at reboots: give a directory of your own, as in data-server ./values; data-server . serves the folder that you are in";

#[test]
fn a_foreign_or_linked_default_directory_is_refused_unless_it_is_named() {
    directory_only!("the options of a directory");
    for (prepare, what) in [
        (
            "mkdir /tmp/data-rs && chown 65534 /tmp/data-rs",
            "another user",
        ),
        (
            "mkdir /tmp/elsewhere && ln -s elsewhere /tmp/data-rs",
            "a link",
        ),
        ("ln -s elsewhere /tmp/data-rs", "a link"),
    ] {
        for args in [&[][..], &["--read-only"]] {
            let ended = needed!(in_own_tmp(prepare, args)).run();
            for part in ["/tmp/data-rs", what, "--dir"] {
                ended.says(1, part);
            }
        }
        let by_option = needed!(in_own_tmp(prepare, &["--dir", "/tmp/data-rs"]));
        let by_variable = needed!(in_own_tmp(prepare, &[]));
        let by_variable = by_variable.env("DATA_SERVER_DIR", "/tmp/data-rs");
        // Where the link leads nowhere, no directory is named.
        let is_there = !prepare.starts_with("ln");
        for launch in [by_option, by_variable].into_iter().filter(|_| is_there) {
            let server = launch.start();
            server.store("k", "value");
            assert_eq!(server.events(DEFAULT).len(), 0);
        }
    }
}

#[test]
fn an_own_default_directory_is_used_with_a_warning() {
    directory_only!("the options of a directory");
    for prepare in ["true", "mkdir /tmp/data-rs"] {
        let server = needed!(in_own_tmp(prepare, &[])).start();
        server.store("k", "value");
        assert_eq!(server.get("k").body, b"value");
        assert_eq!(server.event(DEFAULT).level, "WARN");
        assert_eq!(server.events(DEFAULT).len(), 1);
    }
}
