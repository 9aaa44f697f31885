//! What runs out: descriptors, the size of files, the disk and its inodes.

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::{LARGE, Resourced, rounds};
use crate::prelude::*;

/// Sets the soft limit of the server, or, with `None`, gives it the hard one again.
pub(crate) fn limit(server: &Proc, resource: Resource, soft: Option<u64>) {
    let id = i32::try_from(server.0).ok().and_then(Pid::from_raw);
    let maximum = match resource {
        Resource::Nofile => Some(server.nofile().1),
        _ => None,
    };
    let current = soft.or(maximum);
    prlimit(id, resource, Rlimit { current, maximum }).expect("a limit of our own child");
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
        let mut waiting = server.begin("GET", "/cold", "Connection: close\r\n");
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
            let told = (answer.status, answer.header("retry-after"));
            assert_eq!(told, (503, Some("1")), "{what}: {answer:?}");
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
    let mut descriptors = Descriptors::default();
    let dir = DataDir::temporary();
    rounds("descriptors exhausted", &dir, &mut descriptors);
}

struct FileSize;

impl Resourced for FileSize {
    fn exhaust(&mut self, server: &TestServer) {
        limit(&server.proc(), Resource::Fsize, Some(100_000));
    }

    fn while_out(&mut self, server: &TestServer, old: &mut Client) {
        old.put("old", pattern(9, LARGE)).says(507, "");
        server.put("new", pattern(9, LARGE)).says(507, "");
        server.put("new", pattern(9, 90_000)).says(200, "");
    }

    fn relieve(&mut self, server: &TestServer) {
        limit(&server.proc(), Resource::Fsize, None);
    }
}

#[test]
fn the_size_of_files_runs_out_and_comes_back() {
    rounds("file size exhausted", &DataDir::temporary(), &mut FileSize);
}

/// Fills a file system by hand, with bytes or with names.
struct Disk {
    bytes: bool,
}

impl Resourced for Disk {
    fn exhaust(&mut self, server: &TestServer) {
        server.store("victim", "value");
        let dir = &server.dir;
        let bytes: &[u8] = if self.bytes { &[0; 4096] } else { &[] };
        let mut fillers = (0..10_000).map(|n| dir.file(format!("filler-{n}")));
        let full = fillers.find(|filler| fs::write(filler, bytes).is_err());
        assert!(full.is_some(), "the file system is not small");
    }

    fn while_out(&mut self, server: &TestServer, old: &mut Client) {
        old.put("old", pattern(9, LARGE)).says(507, "");
        server.put("new", "x").says(507, "");
        server.get("old").says(200, "");
        server.ask("GET", "").says(200, "");
        server.ask("DELETE", "victim").says(200, "");
    }

    fn relieve(&mut self, server: &TestServer) {
        let mut names = server.dir.names();
        names.retain(|name| name.starts_with(b"filler"));
        for name in names {
            fs::remove_file(server.dir.file(name)).expect("room made by hand");
        }
    }
}

fn on_tmpfs(what: &str, options: &str, bytes: bool) {
    let mount = needed!(Mount::tmpfs(options, what));
    rounds(what, &mount.dir(), &mut Disk { bytes });
}

#[test]
fn the_disk_runs_out_and_comes_back() {
    on_tmpfs("disk exhausted", "size=4m", true);
}

#[test]
fn inodes_run_out_and_come_back() {
    on_tmpfs("inodes exhausted", "size=8m,nr_inodes=60", false);
}
