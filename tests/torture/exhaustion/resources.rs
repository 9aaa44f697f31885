//! What runs out: descriptors, the size of files, the disk and its inodes.

use std::io::Write;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::{LARGE, Resourced, rounds};
use crate::scale::scaled;
use crate::support::prelude::*;

/// As often as the form asks for.
fn full(what: &str, dir: &DataDir, resource: &mut dyn Resourced) {
    rounds(what, dir, resource, scaled(3, 100));
}

#[track_caller]
fn assert_status(answer: &Response, status: u16, what: &str) {
    let body = String::from_utf8_lossy(&answer.body);
    assert_eq!(answer.status, status, "{what}: {body}");
}

/// Sets the soft limit of the server, or, with `None`, gives it the hard one again.
pub(crate) fn limit(server: &Proc, resource: Resource, soft: Option<u64>) {
    let id = i32::try_from(server.0).ok().and_then(Pid::from_raw);
    let maximum = match resource {
        Resource::Nofile => Some(server.nofile().1),
        _ => None,
    };
    let limits = Rlimit {
        current: soft.or(maximum),
        maximum,
    };
    prlimit(id, resource, limits).expect("a limit of our own child");
}

/// How long descriptors are out in some rounds: until accepting pauses as long as it ever does.
const LONG: Duration = Duration::from_millis(2_300);

#[derive(Default)]
struct Descriptors {
    rounds: u32,
    /// In the middle of a request: an idle connection is closed for a client that waits.
    busy: Option<Raw>,
    /// Who came while there were none.
    waiting: Option<Raw>,
}

impl Resourced for Descriptors {
    fn exhaust(&mut self, server: &TestServer) {
        server.store("cold", "value");
        let mut busy = server.connect();
        assert_eq!(busy.ask("GET /old HTTP/1.1\r\nHost: t\r\n\r\n").status, 200);
        busy.send("GET /cold HTTP/1.1\r\n");
        self.busy = Some(busy);
        limit(&server.proc(), Resource::Nofile, Some(3));
        let mut waiting = server.connect();
        waiting.send("GET /cold HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
        if self.rounds.is_multiple_of(10) {
            waiting.silent_for(LONG).expect("nobody is served");
        }
        self.rounds += 1;
        self.waiting = Some(waiting);
    }

    fn while_out(&mut self, _: &TestServer, _: &mut Client) {
        let mut busy = self.busy.take().expect("a connection");
        let listing = "GET / HTTP/1.1\r\nHost: t\r\n\r\n";
        let put = put_head("old", 3) + "new";
        busy.send(format!("Host: t\r\n\r\n{listing}{put}"));
        for what in ["GET", "the listing", "PUT"] {
            let answer = busy.answer();
            assert_status(&answer, 503, what);
            assert_eq!(answer.header("retry-after"), Some("1"), "{what}");
        }
    }

    fn relieve(&mut self, server: &TestServer) {
        limit(&server.proc(), Resource::Nofile, None);
        let mut waiting = self.waiting.take().expect("somebody waits");
        assert_eq!(waiting.answer().body, b"value", "who waited is served");
    }
}

#[test]
fn descriptors_run_out_and_come_back() {
    full(
        "descriptors exhausted",
        &DataDir::temporary(),
        &mut Descriptors::default(),
    );
}

struct FileSize;

impl Resourced for FileSize {
    fn exhaust(&mut self, server: &TestServer) {
        limit(&server.proc(), Resource::Fsize, Some(100_000));
    }

    fn while_out(&mut self, server: &TestServer, old: &mut Client) {
        assert_status(&old.put("old", pattern(9, LARGE)), 507, "beyond the limit");
        assert_status(
            &server.put("new", pattern(9, LARGE)),
            507,
            "beyond the limit, new",
        );
        assert_status(
            &server.put("new", pattern(9, 90_000)),
            200,
            "within the limit",
        );
    }

    fn relieve(&mut self, server: &TestServer) {
        limit(&server.proc(), Resource::Fsize, None);
    }
}

#[test]
fn the_size_of_files_runs_out_and_comes_back() {
    full("file size exhausted", &DataDir::temporary(), &mut FileSize);
}

/// Fills a file system by hand, with bytes or with names.
struct Disk {
    bytes: bool,
}

impl Resourced for Disk {
    fn exhaust(&mut self, server: &TestServer) {
        server.store("victim", "value");
        let dir = &server.dir;
        let full = (0..10_000).find_map(|n| {
            if self.bytes {
                let filler = File::options()
                    .create(true)
                    .append(true)
                    .open(dir.file("filler"));
                filler.and_then(|mut file| file.write_all(&[0; 4096])).err()
            } else {
                fs::write(dir.file(format!("filler-{n}")), "").err()
            }
        });
        assert!(full.is_some(), "the file system is not small");
    }

    fn while_out(&mut self, server: &TestServer, old: &mut Client) {
        assert_status(&old.put("old", pattern(9, LARGE)), 507, "a large PUT");
        assert_status(&server.put("new", "x"), 507, "a small PUT");
        assert_status(&server.get("old"), 200, "GET");
        assert_status(&server.ask("GET", ""), 200, "the listing");
        assert_status(&server.ask("DELETE", "victim"), 200, "DELETE");
    }

    fn relieve(&mut self, server: &TestServer) {
        for name in server.dir.names() {
            if name.starts_with(b"filler") {
                fs::remove_file(server.dir.file(name)).expect("room made by hand");
            }
        }
    }
}

fn on_tmpfs(what: &str, options: &str, disk: &mut Disk) {
    match Mount::tmpfs(options, what) {
        Some(mount) => full(what, &mount.dir(), disk),
        None => left_out(what, "mounting is not permitted here"),
    }
}

#[test]
fn the_disk_runs_out_and_comes_back() {
    on_tmpfs("disk exhausted", "size=4m", &mut Disk { bytes: true });
}

#[test]
fn inodes_run_out_and_come_back() {
    on_tmpfs(
        "inodes exhausted",
        "size=8m,nr_inodes=60",
        &mut Disk { bytes: false },
    );
}
