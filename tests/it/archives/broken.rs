//! Bodies that are made while they are sent, and break off: whoever reads one sees that it is not whole, by each
//! version of HTTP and through nginx as it is, which asks by HTTP/1.0.

use super::program;
use crate::support::prelude::*;

/// What a client of HTTP/1 in the clear reads until the end, and whether that is an end in order.
fn read_all(
    addr: SocketAddr,
    target: &str,
    version: &str,
    mut meanwhile: impl FnMut(),
) -> (Vec<u8>, bool) {
    let mut socket = TcpStream::connect(addr).expect("a connection");
    let lines = "Host: t\r\nConnection: close\r\nAccept-Encoding: gzip";
    write!(socket, "GET {target} HTTP/{version}\r\n{lines}\r\n\r\n").expect("a request");
    let (mut all, mut piece) = (Vec::new(), vec![0; 16 << 10]);
    loop {
        match socket.read(&mut piece) {
            Ok(0) => return (all, true),
            Ok(len) => all.extend_from_slice(&piece[..len]),
            Err(_) => return (all, false),
        }
        meanwhile();
    }
}

/// Whether a client of this version takes what it got for whole.
fn looks_whole((all, is_in_order): &(Vec<u8>, bool), version: &str) -> bool {
    match version {
        "1.0" => *is_in_order,
        _ => all.ends_with(b"\r\n0\r\n\r\n"),
    }
}

/// Forty values, of which one cannot be read; each is as long as blocks are, so that the tar is cut between two
/// members.
fn with_an_unreadable_value() -> Option<(DataDir, TestServer)> {
    let dir = DataDir::in_memory();
    for n in 0..40 {
        dir.place(&format!("k{n:02}"), pattern(n, 51_200));
    }
    chmod(dir.file("k30"), 0);
    let server = served_by_nobody(&dir, "values without permission")?;
    Some((dir, server))
}

#[test]
fn an_archive_with_a_value_that_cannot_be_read_is_seen_to_be_cut() {
    directory_only!("rights of files");
    clear_only!("its clients read sockets");
    let (_dir, server) = needed!(with_an_unreadable_value());
    for format in ["tar", "zip"] {
        let target = format!("/?archive={format}");
        for version in ["1.0", "1.1"] {
            let got = read_all(server.addr, &target, version, || {});
            assert!(got.0.starts_with(b"HTTP/1."), "{format} {version}");
            assert!(!looks_whole(&got, version), "{format} {version}");
        }
        let whole = read_all(server.addr, "/?archive=tar&files=k01", "1.0", || {});
        assert!(looks_whole(&whole, "1.0"), "{} bytes", whole.0.len());
    }
}

/// GNU tar takes an end between two members for the end, and a pipe shows its exit code alone.
#[test]
fn a_tar_that_breaks_off_says_so_to_programs_that_read_it() {
    directory_only!("rights of files");
    clear_only!("its client is another program");
    let (_dir, server) = needed!(with_an_unreadable_value());
    let place = TempDir::new().expect("a directory");
    let out = place.path().join("out.tar");
    let out = out.to_str().expect("text");
    let url = format!("http://{}/?archive=tar", server.addr);
    let got = needed!(program("curl"))
        .args(["-s", "-o", out, &url])
        .output()
        .expect("it runs");
    assert_eq!(got.status.code(), Some(18), "curl");
    let told = needed!(program("tar"))
        .args(["-tf", out])
        .output()
        .expect("it runs");
    assert_eq!(told.status.code(), Some(2), "GNU tar: {told:?}");
    let names = String::from_utf8(told.stdout).expect("names");
    assert_eq!(names.lines().count(), 30, "{names}");
}

#[test]
fn nginx_as_it_is_passes_on_that_an_archive_breaks_off() {
    directory_only!("rights of files");
    clear_only!("nginx speaks plain HTTP to it");
    let (_dir, server) = needed!(with_an_unreadable_value());
    let nginx = needed!(Proxy::nginx(
        "/",
        &format!("proxy_pass http://{};", server.addr)
    ));
    for format in ["tar", "zip"] {
        let got = read_all(nginx.addr, &format!("/?archive={format}"), "1.1", || {});
        assert!(got.0.starts_with(b"HTTP/1.1 200"), "{format}");
        assert!(!looks_whole(&got, "1.1"), "{format}");
    }
}

/// The grace period of a stop ends while each of these is sent.
#[test]
fn the_end_of_the_grace_period_is_seen_in_each_body_that_is_made_while_it_is_sent() {
    directory_only!("its values are files of holes");
    clear_only!("its clients read sockets");
    for target in ["/?archive=tar", "/?archive=zip", "/text.txt"] {
        for version in ["1.0", "1.1"] {
            let args = "--threads 1 --compress --grace-period 300ms";
            let mut server = TestServer::start(&words(args));
            // Larger than what kernels hold, and not to be compressed.
            server.dir.place("text.txt", pattern(1, 64 << 20));
            let mut stopped = false;
            let got = read_all(server.addr, target, version, || {
                if !std::mem::replace(&mut stopped, true) {
                    server.signal(Signal::TERM);
                    assert!(server.exit().is_some());
                }
            });
            assert!(got.0.starts_with(b"HTTP/1."), "{target} {version}");
            assert!(!looks_whole(&got, version), "{target} by {version}");
        }
    }
}
