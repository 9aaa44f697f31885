//! What a client asks for while something fails: how it is prepared by hand, performed over a fresh connection, and
//! what its answer, or its lack of one, says about the value.

use rustix::fs::XattrFlags;

use super::matrix::{can_fail, first_path};
use super::verdict::statuses;
use crate::prelude::*;

/// The length of a value that is received into memory, and of one that is received into a file.
const SMALL: usize = 3_000;
const LARGE: usize = 300_000;

/// Of a value longer than this, the server sends regions of the file.
const SENT: usize = 2_500_000;

pub(super) const MEDIA_TYPE: &str = "text/x-torture";
pub(super) const CODING: &str = "x-torture";
const FLAT: &str = "value";
const FOLDERS: [&str; 2] = ["/a", "/a/b"];
const IN_FOLDERS: &str = "a/b/value";

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// A new name, or a name that exists; of so many bytes.
    Put {
        new: bool,
        len: usize,
    },
    /// Of a value that the server keeps, or of one that it has never seen.
    Get {
        hot: bool,
        len: usize,
    },
    /// A new name, in two requests: a resumable upload.
    Resume,
    Delete,
    List,
}

/// An operation on a server of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scene {
    pub(super) operation: Operation,
    /// Synced, or left to the operating system.
    pub(super) durable: bool,
}

impl Scene {
    /// Every operation, with the durability that makes a difference to it.
    pub(super) fn all() -> Vec<Self> {
        let puts = [(true, SMALL), (false, SMALL), (true, LARGE), (false, LARGE)];
        let puts = puts.map(|(new, len)| Operation::Put { new, len });
        let writes = puts
            .into_iter()
            .chain([Operation::Resume, Operation::Delete]);
        let gets = [(true, SMALL), (false, SMALL), (false, SENT)];
        let gets = gets.map(|(hot, len)| Operation::Get { hot, len });
        let reads = gets.into_iter().chain([Operation::List]);
        let scene = |durable| move |operation| Self { operation, durable };
        let both = writes.flat_map(|operation| [false, true].map(|it| scene(it)(operation)));
        both.chain(reads.map(scene(false))).collect()
    }

    /// A server for it. Without a cache, every file that stays open is a leak.
    pub(super) fn launch(self) -> Launch {
        let is_hot = matches!(self.operation, Operation::Get { hot: true, .. });
        let cache = if is_hot { "1MiB" } else { "0" };
        let durability = if self.durable { "disk" } else { "os" };
        let args = format!("--threads 1 --cache {cache} --durability {durability}");
        Launch::new(&words(&args))
    }
}

/// The whole answer that a client saw; none where the connection ended before.
pub(super) type Reply = Option<Response>;

/// What is there before, and what is asked to be there after.
#[derive(Debug)]
pub(super) struct State {
    pub(super) before: Option<Vec<u8>>,
    pub(super) wanted: Option<Vec<u8>>,
}

impl Operation {
    /// Puts the directory into the state before, by hand; `seed` makes the values differ from all others.
    pub(super) fn prepare(self, server: &TestServer, seed: u64) -> State {
        let dir = &server.dir;
        let old = |len| Some(pattern(2 * seed, len));
        let new = |len| Some(pattern(2 * seed + 1, len));
        let kept = dir.get(self.key());
        if matches!(self, Self::Get { hot: true, .. }) && kept.is_some() {
            let wanted = kept.clone();
            return State {
                before: kept,
                wanted,
            };
        }
        let (before, wanted) = match self {
            Self::Put { new: true, len } => (None, new(len)),
            Self::Resume => (None, new(LARGE)),
            Self::Put { len, .. } => (old(LARGE), new(len)),
            Self::Get { len, .. } => (old(len), old(len)),
            Self::List => (old(SMALL), old(SMALL)),
            Self::Delete => (old(LARGE), None),
        };
        dir.clear();
        if let Some(value) = &before {
            place(dir, self.key(), value);
        }
        State { before, wanted }
    }

    /// Asks for it over a connection of its own. Where there is no answer, what was begun has ended nonetheless.
    pub(super) fn perform(self, server: &TestServer, state: &State) -> Reply {
        self.perform_under(&[], server, state)
    }

    /// The same while calls fail with `errors` again and again, not once.
    pub(super) fn perform_under(
        self,
        errors: &[&str],
        server: &TestServer,
        state: &State,
    ) -> Reply {
        let reply = self.ask(server, state);
        if reply.is_none() {
            outlast(errors, server);
        }
        reply
    }

    fn ask(self, server: &TestServer, state: &State) -> Reply {
        let wanted = state.wanted.as_deref().unwrap_or_default();
        let key = self.key();
        match self {
            Self::Resume => resume(server, key, wanted),
            Self::Put { .. } => {
                let lines = format!("Content-Type: {MEDIA_TYPE}\r\nContent-Encoding: {CODING}\r\n");
                hear(server, "PUT", key, &lines, wanted)
            }
            Self::Get { .. } => hear(server, "GET", key, "", &[]),
            Self::Delete => hear(server, "DELETE", key, "", &[]),
            Self::List => hear(server, "GET", "", "Accept: text/plain\r\n", &[]),
        }
    }

    /// The key that it is about: half of them lie in folders, which a PUT makes and a DELETE removes.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Put { new, len } if new == (len == SMALL) => IN_FOLDERS,
            Self::Get { hot: true, .. } | Self::Resume | Self::Delete | Self::List => IN_FOLDERS,
            Self::Put { .. } | Self::Get { .. } => FLAT,
        }
    }

    /// Whether its value is too long for the journal: that is synced with its file.
    pub(super) fn is_large(self) -> bool {
        matches!(self, Self::Put { len, .. } if len > 64 << 10) || matches!(self, Self::Resume)
    }

    /// Whether it only reads.
    pub(super) fn is_read(self) -> bool {
        matches!(self, Self::Get { .. } | Self::List)
    }
}

/// The whole answer to a request on a connection of its own, with these header lines.
fn hear(server: &TestServer, method: &str, path: &str, lines: &str, body: &[u8]) -> Reply {
    let lines = format!("{lines}Connection: close\r\n");
    match Client::new(server.addr).hear(method, path, &lines, body) {
        Heard::Answer(answer) => Some(answer),
        _ => None,
    }
}

/// Uploads `value` in two requests; the response to the first that was not performed, or to the last.
fn resume(server: &TestServer, key: &str, value: &[u8]) -> Reply {
    let (first, rest) = value.split_at(value.len() / 2);
    let created = hear(server, "PUT", key, "Upload-Complete: ?0\r\n", first)?;
    if created.status != 201 {
        return Some(created);
    }
    let path = Resumable::of_key(&created, key).path;
    let lines = format!(
        "Content-Length: {}\r\nContent-Type: application/partial-upload\r\nUpload-Offset: {}\r\nUpload-Complete: ?1\r\n",
        rest.len(),
        first.len()
    );
    hear(server, "PATCH", &path[1..], &lines, rest)
}

/// Waits for all changes that were handed over: they are made also when no client waits for them any more, one after
/// the other, so that the answer to a later one comes after them. This is a DELETE of a key that is absent, which the
/// publisher alone answers: 404, or, where the publisher's own calls meet `errors` each time, what these are answered
/// with.
fn outlast(errors: &[&str], server: &TestServer) {
    eventually("changes are made", || {
        let reply = hear(server, "DELETE", "nothing", "", &[]);
        reply.is_some_and(|Response { status, .. }| {
            status == 404 || errors.iter().any(|error| statuses(error).contains(&status))
        })
    });
}

/// Places a value by hand, with a media type that a guess would not give, and in a coding.
fn place(dir: &DataDir, key: &str, value: &[u8]) {
    dir.place(key, value);
    let fields = format!("content-encoding: {CODING}\n");
    let attributes = [("mime_type", MEDIA_TYPE), ("data-server.fields", &fields)];
    for (name, value) in attributes {
        let (name, flags) = (format!("user.{name}"), XattrFlags::empty());
        let set = rustix::fs::setxattr(dir.file(key), name, value.as_bytes(), flags);
        set.expect("extended attributes, which the tests need");
    }
}

/// The value as it lies in the directory.
pub(super) fn on_disk(dir: &DataDir) -> Option<Vec<u8>> {
    [FLAT, IN_FOLDERS].iter().find_map(|key| dir.get(key))
}

/// Has the server keep the value, where the scene is about that.
pub(super) fn warm(server: &TestServer, operation: Operation) {
    if matches!(operation, Operation::Get { hot: true, .. }) {
        eventually("the value is kept", || {
            assert_eq!(server.get(operation.key()).status, 200);
            server.proc().has_open(&server.dir.file(operation.key()))
        });
    }
}

/// The calls that the server makes for `scene`: from a trace, so that a call added to the server is one added to the
/// tests.
pub(super) fn calls_of(scene: Scene, server: &TestServer) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for seed in 0..2 {
        let state = scene.operation.prepare(server, seed);
        warm(server, scene.operation);
        let tracer = Attached::to(server, &[]);
        scene.operation.perform(server, &state);
        let calls = tracer.detach().into_iter().filter(can_fail);
        names.extend(calls.map(|call| call.name));
    }
    names
}

/// Whether `call` is about this directory itself or a folder in it, not a file of it.
pub(super) fn is_of(call: &Call, dir: &Path) -> bool {
    let dir = dir.canonicalize().expect("the directory");
    let path = first_path(call).zip(dir.to_str());
    let path = path.and_then(|(path, dir)| path.strip_prefix(dir));
    path.is_some_and(|path| path.is_empty() || FOLDERS.contains(&path))
}
