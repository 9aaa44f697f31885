//! Bodies that break off while they are sent: whoever reads one sees that it is not whole, by each version of HTTP, in
//! the clear and over TLS, and through nginx as it is, which asks by HTTP/1.0.

use super::program;
use crate::support::policy::{self, one_who_may, revise, write_policy};
use crate::support::prelude::*;

/// Longer than what kernels hold of a response that is not read.
const LONG: u64 = 64 << 20;

/// Longer than what can be compressed before somebody ends it.
const LONGEST: u64 = 4 << 30;

/// A body that is sent for so long that something can end it: what is asked for, and the length of the value that is in
/// it, which is a file of holes.
const BODIES: [(&str, &str, u64); 5] = [
    ("/?archive=tar&files=k", "", LONG),
    ("/?archive=zip&files=k", "", LONG),
    ("/k", "bytes=0-9,100-67108863", LONG),
    ("/k", "", LONG),
    // Its holes are compressed to a thousandth.
    ("/text.txt", "", LONGEST),
];

/// What ends a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Break {
    /// Another program cuts the file of the value.
    File,
    GracePeriod,
    /// The client may no longer read what is in an archive.
    Right,
}

/// Has `target` begin by this protocol, and break off. Returns whether the client takes what it got for whole.
fn looks_whole(protocol: Protocol, (target, range, len): (&str, &str, u64), how: Break) -> bool {
    let (authority, dir) = (Authority::new(), DataDir::in_memory());
    let is_archive = target.contains("archive");
    let key = if target == "/text.txt" {
        "text.txt"
    } else {
        "k"
    };
    let allowed = one_who_may("ann", &["read", "list"]);
    let access = write_policy(&dir, &allowed);
    let args = format!("--threads 1 --compress --grace-period 300ms --access {access}");
    let mut server = protocol.serve(&authority, Some(&dir), &words(&args));
    // The second one follows in an archive, and is never reached.
    for key in [key, "later"] {
        dir.place(key, "");
        dir.set_len(key, len);
    }
    let target = target.replace("files=k", "files=k&files=later");
    let token = format!("Bearer {}", policy::token("ann"));
    let mut fields = vec![("accept-encoding", "gzip"), ("authorization", &*token)];
    if !range.is_empty() {
        fields.push(("range", range));
    }
    let client = authority.client();
    let reading = protocol.get(server.addr, &client, &target, &fields);
    let mut reading = reading.expect("a response");
    assert!(
        [200, 206].contains(&reading.head.status),
        "{target}: {:?}",
        reading.head
    );
    assert_eq!(
        reading.head.header("content-length").is_none(),
        is_archive || len == LONGEST,
        "{target}: {:?}",
        reading.head
    );
    assert!(
        matches!(reading.next(), Ok(Some(_))),
        "{target}: its beginning"
    );
    match how {
        Break::File => dir.set_len(key, 0),
        Break::Right => drop(revise(&server, &one_who_may("ann", &["list"]))),
        Break::GracePeriod => {
            server.signal(Signal::TERM);
            assert!(server.exit().is_some());
        }
    }
    reading.rest().1
}

/// Over HTTP/1.0 half a tar and what was left of a compressed value looked whole: FIN ends a body without a length.
#[test]
fn what_breaks_off_looks_whole_by_no_protocol() {
    directory_only!("its values are files of holes");
    thread::scope(|scope| {
        for protocol in Protocol::ALL {
            scope.spawn(move || {
                for body in BODIES {
                    let is_archive = body.0.contains("archive");
                    let right = is_archive.then_some(Break::Right);
                    for how in [Break::File, Break::GracePeriod].into_iter().chain(right) {
                        let is_whole = looks_whole(protocol, body, how);
                        assert!(!is_whole, "{body:?} by {protocol:?}, {how:?}");
                    }
                }
            });
        }
    });
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

/// By its clients' HTTP/1.1, and by HTTP/1.0.
fn through_nginx(server: &TestServer) -> Option<Proxy> {
    Proxy::nginx("/", &format!("proxy_pass http://{};", server.addr))
}

#[test]
fn nginx_as_it_is_passes_on_that_an_archive_breaks_off() {
    directory_only!("rights of files");
    clear_only!("nginx speaks plain HTTP to it");
    let (_dir, server) = needed!(with_an_unreadable_value());
    let nginx = needed!(through_nginx(&server));
    let client = Authority::new().client();
    for protocol in Protocol::ALL {
        if protocol.is_tls || protocol.version == Version::Http2 {
            continue;
        }
        for format in ["tar", "zip"] {
            let whole = protocol.get(nginx.addr, &client, "/?archive=tar&files=k01", &[]);
            assert!(whole.expect("a response").rest().1, "{protocol:?}");
            let got = protocol.get(nginx.addr, &client, &format!("/?archive={format}"), &[]);
            let got = got.expect("a response");
            assert_eq!(got.head.status, 200);
            // To a client of HTTP/1.0 nginx itself says nothing.
            let is_whole = got.rest().1;
            assert!(!is_whole || protocol.version == Version::Http10, "{format}");
        }
    }
}

/// nginx asks for no coding of its own, and passes on that of its client.
#[test]
fn nginx_as_it_is_passes_on_that_a_compressed_value_breaks_off() {
    directory_only!("its value is a file of holes");
    clear_only!("nginx speaks plain HTTP to it");
    let server = TestServer::start(&["--compress", "--threads", "1"]);
    server.dir.place("text.txt", "");
    server.dir.set_len("text.txt", LONGEST);
    let nginx = needed!(through_nginx(&server));
    let protocol = Protocol::ALL[2];
    let fields = [("accept-encoding", "gzip")];
    let client = Authority::new().client();
    let reading = protocol.get(nginx.addr, &client, "/text.txt", &fields);
    let mut reading = reading.expect("a response");
    assert!(matches!(reading.next(), Ok(Some(_))), "its beginning");
    server.dir.set_len("text.txt", 0);
    assert!(!reading.rest().1);
}
