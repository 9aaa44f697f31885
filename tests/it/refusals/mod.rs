//! One matrix: a request of each verb that is refused for each reason leaves the directory as it was. Nothing of a
//! bound that is full is evicted for it, nothing stays staged, and nothing is counted.
//!
//! A verb joins by a row of [`verbs`], a reason by a row of [`rows`].

mod rows;
pub mod snapshot;
mod verbs;

use crate::support::prelude::*;
use crate::support::s3::hex;
use rows::{Refusal, refusals};
use sha2::{Digest as _, Sha256};
use snapshot::Snapshot;
use verbs::{PART, Request, SMALL, Verb, verbs};

/// What a request asks for.
#[derive(Clone, Copy)]
struct Ask<'a> {
    key: &'a str,
    from: Option<&'a str>,
    lines: &'a str,
    query: &'a str,
    depth: Option<&'a str>,
    len: Option<usize>,
    /// The path of an upload that has its first part.
    upload: &'a str,
}

/// A server that refuses.
struct World {
    name: &'static str,
    args: &'static str,
    /// Tests run with servers that take any host; this one takes only these.
    host: &'static str,
    /// Whether an upload can be begun.
    has_upload: bool,
    rows: &'static str,
}

/// The bound is full of 64 values of four blocks, and evicts; the quota has one value, and is full.
const BOUNDS: [&str; 5] = [
    "--max-size",
    "1MiB",
    "--evict-existing",
    "--bound",
    r#"prefix = "quota/", max-size = "16KiB", full = "refuse""#,
];
const VALUES: usize = 64;

const OPEN: World = World {
    name: "open",
    args: "",
    host: "*",
    has_upload: true,
    rows: rows::OPEN,
};

const OWNER: &str = "dst_owner-0123456789abcdef0123456789abcdef";
const GUEST: &str = "dst_guest-0123456789abcdef0123456789abcdef";

/// The owner may do everything, and the guest may look.
fn policy() -> String {
    let subject = |(name, token): (&str, &str)| {
        let digest = hex(&Sha256::digest(token));
        format!("[[subject]]\nname = \"{name}\"\ntoken = \"sha256:{digest}\"\n")
    };
    let subjects = [("owner", OWNER), ("guest", GUEST)].map(subject).concat();
    let all = r#""read", "write", "create", "list", "delete""#;
    let rule = |who, may| format!("[[rule]]\nwho = [\"{who}\"]\nprefix = \"\"\nmay = [{may}]\n");
    subjects + &rule("owner", all) + &rule("guest", r#""read", "list""#)
}

/// The server of a world, with its values, and what they are like.
struct Scene {
    // Dropped before the directory.
    immutable: Option<Immutable>,
    mounted: Option<Mounted>,
    server: TestServer,
    upload: String,
    before: Snapshot,
    counted: Vec<String>,
}

impl Scene {
    fn new(world: &World, way: &str, wrap: &dyn Fn(Launch) -> Launch) -> Self {
        let dir = if way.contains("disk") {
            DataDir::temporary()
        } else {
            DataDir::in_memory()
        };
        let own = words("val dir/a dir/b src/v src/w immutable/v quota/full");
        let rest = (own.len()..VALUES).map(|n| format!("cache/{n}"));
        let keys = own.iter().map(|&key| key.to_owned()).chain(rest);
        for (n, key) in (0..).zip(keys) {
            dir.place(&key, pattern(n, SMALL));
            // Those of the cache are the oldest.
            let minutes = if n < 7 { 1 } else { 10 };
            let then = SystemTime::now() - Duration::from_secs(60 * minutes);
            let times = fs::FileTimes::new().set_accessed(then).set_modified(then);
            let file = File::options().write(true).open(dir.file(&key));
            file.and_then(|file| file.set_times(times)).expect("times");
        }
        for n in 0..20 {
            fs::create_dir(dir.file(format!("empty-{n}"))).expect("a folder");
        }
        let at = dir.file("mounted");
        let tmpfs = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs"];
        let mounted = available("a mount in a folder", Mounted::by(&tmpfs, &at));
        let immutable = Immutable::new(dir.file("immutable"), "an immutable folder");
        let mut args = words(world.args);
        args.extend(words(way));
        // At the floor of the disk a bound that evicts goes on by itself.
        let bounds = if world.args.contains("--min-free") {
            &BOUNDS[3..]
        } else {
            &BOUNDS[..]
        };
        args.extend(bounds);
        let path = dir.write_private("access.toml", &policy());
        if world.args.contains("--audit-log") {
            args.extend(["--access", &path]);
        }
        let launch = Launch::new(&args).on(&dir);
        let server = wrap(launch.env("DATA_SERVER_ALLOWED_HOST", world.host)).start();
        let mut upload = "/-/uploads/none".to_owned();
        if world.has_upload {
            let lines = format!("Authorization: Bearer {OWNER}\r\n");
            let lines = if world.args.contains("--audit-log") {
                &*lines
            } else {
                ""
            };
            let mut raw = server.connect();
            upload = Resumable::create(&mut raw, "up", lines, &pattern(1, PART)).path;
        }
        let mut scene = Self {
            before: Snapshot::default(),
            counted: Vec::new(),
            upload,
            server,
            immutable,
            mounted,
        };
        scene.before = Snapshot::of(&scene.server.dir);
        scene.counted = scene.counts();
        scene
    }

    /// Whether this machine gives it no mount, or no immutable folder, that is named.
    fn lacks(&self, refusal: &Refusal) -> bool {
        let names = |name| {
            let keys = [refusal.key.as_deref(), refusal.from];
            keys.iter().flatten().any(|key| key.starts_with(name))
        };
        names("mounted") && self.mounted.is_none() || names("immutable") && self.immutable.is_none()
    }

    /// What bounds have counted; nothing where the server does not say it.
    fn counts(&self) -> Vec<String> {
        let scrape = self
            .server
            .connect()
            .ask("GET /-/metrics HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
        let text = String::from_utf8_lossy(&scrape.body);
        let of_bounds =
            words("data_server_bound_bytes data_server_bound_values data_server_removed_total");
        let lines = text
            .lines()
            .filter(|line| of_bounds.iter().any(|name| line.starts_with(name)));
        lines.map(str::to_owned).collect()
    }

    /// Asks, and says what is wrong.
    fn ask(&self, world: &World, verb: &Verb, refusal: &Refusal) -> Vec<String> {
        let is_folder = verb.is("Folder");
        let key = match refusal.key.as_deref() {
            Some("") if is_folder => String::new(),
            Some(key) if is_folder => format!("{key}/"),
            Some(key) => key.to_owned(),
            None => verb.key.to_owned(),
        };
        let mut request = verb.request(&Ask {
            key: &key,
            from: refusal.from,
            lines: &refusal.lines,
            query: refusal.query,
            depth: refusal.depth.as_deref(),
            len: refusal.len,
            upload: &self.upload,
        });
        refusal.spoil(&mut request);
        let mut faults = Vec::new();
        let host = if world.host == "*" { "t" } else { "b.example" };
        let answer = self.send(&request, host, refusal.spoilt == "cut");
        if let Some(answer) = answer.filter(|answer| !refusal.status.contains(&answer.status)) {
            let text = String::from_utf8_lossy(&answer.body);
            let text = text.lines().next().unwrap_or_default().to_owned();
            faults.push(format!("{} {text}", answer.status));
        }
        // A disk thread removes what was staged.
        let staging = self.server.dir.staging();
        let is_empty = || fs::read_dir(&staging).map_or(true, |mut found| found.next().is_none());
        if !within(Duration::from_secs(10), is_empty) {
            faults.push("something is staged".to_owned());
        }
        let since = Snapshot::of(&self.server.dir).since(&self.before);
        let gone = since.iter().filter(|how| how.ends_with(": gone")).count();
        if gone > 0 {
            faults.push(format!("{gone} files are gone"));
        }
        faults.extend(
            since
                .into_iter()
                .filter(|how| !how.ends_with(": gone"))
                .take(3),
        );
        // A count that goes on has other numbers each time.
        let is_as_before = || world.name == "counting" || self.counts() == self.counted;
        if faults.is_empty() && !within(Duration::from_secs(10), is_as_before) {
            faults.push(format!(
                "counted {:?}, before {:?}",
                self.counts(),
                self.counted
            ));
        }
        faults
    }

    /// Sends the request, or all but half of its body; the answer, if it is waited for.
    fn send(&self, request: &Request, host: &str, is_cut: bool) -> Option<Response> {
        let [head, body] = request.bytes(host);
        let mut raw = self.server.connect();
        if is_cut {
            let at_rest = self.server.in_flight();
            raw.send([&head, &body[..body.len() / 2]].concat());
            eventually("the server has it", || raw.is_taken());
            drop(raw);
            eventually("it is over", || self.server.in_flight() <= at_rest);
            return None;
        }
        // A refusal may come before all was sent.
        let _ = raw.offer([head, body].concat());
        loop {
            let mut answer = raw.head();
            if answer.status >= 200 {
                answer.body = match answer.header("transfer-encoding") {
                    Some(_) => chunks(&mut raw),
                    None if answer.status == 204 => Vec::new(),
                    None => raw.take(answer.length()),
                };
                return Some(answer);
            }
        }
    }
}

/// Each verb, refused for each reason of this world, by servers of this way.
fn hold(world: &World, way: &str, wrap: &dyn Fn(Launch) -> Launch) {
    let (mut faults, mut asked) = (Vec::new(), 0);
    let mut scene = Scene::new(world, way, wrap);
    let verbs = verbs();
    for refusal in &refusals(world.rows, &verbs) {
        for verb in verbs.iter().filter(|verb| refusal.is_of(verb)) {
            let is_append = verb.key.is_empty();
            if is_append && !world.has_upload || scene.lacks(refusal) {
                continue;
            }
            asked += 1;
            let told = scene.ask(world, verb, refusal);
            if !told.is_empty() {
                let what = format!("{}, {}", verb.name, refusal.why);
                faults.push(format!("{what}: {}", told.join("; ")));
                scene = Scene::new(world, way, wrap);
            }
        }
    }
    if world.name == "counting" {
        scene.server.proc().kill_tracer();
    }
    // What comes late is seen too.
    let since = Snapshot::of(&scene.server.dir).since(&scene.before);
    assert_eq!(since, [""; 0], "after the last one");
    let told = faults.join("\n");
    assert!(
        faults.is_empty(),
        "{}, {way}: {} of {asked} requests:\n{told}",
        world.name,
        faults.len()
    );
    assert!(asked >= verbs.len() / 2, "{asked} requests");
}

fn as_it_is(launch: Launch) -> Launch {
    launch
}

#[test]
fn nothing_changes_for_a_request_that_is_refused() {
    directory_only!("what lies in a directory");
    hold(&OPEN, "--durability os", &as_it_is);
}

#[test]
fn nothing_changes_through_the_journal_for_a_request_that_is_refused() {
    directory_only!("what lies in a directory");
    hold(&OPEN, "--durability disk", &as_it_is);
}

#[test]
fn nothing_changes_without_a_journal_for_a_request_that_is_refused() {
    directory_only!("what lies in a directory");
    hold(&OPEN, "--durability disk --journal off", &as_it_is);
}

#[test]
fn nothing_changes_for_who_has_no_right() {
    directory_only!("what lies in a directory");
    let world = World {
        name: "access",
        args: "--audit-log",
        rows: rows::NO_RIGHT,
        ..OPEN
    };
    hold(&world, "", &as_it_is);
}

#[test]
fn nothing_changes_for_what_options_refuse() {
    directory_only!("what lies in a directory");
    for (name, args, host, has_upload, rows) in [
        ("max-body", "--max-body 1000", "*", false, rows::TOO_LARGE),
        ("host", "", "a.example", false, rows::OTHER_HOST),
        ("read-only", "--read-only", "*", false, rows::READ_ONLY),
        ("floor", "--min-free 1000TB", "*", false, rows::FLOOR),
    ] {
        let world = World {
            name,
            args,
            host,
            has_upload,
            rows,
        };
        hold(&world, "", &as_it_is);
    }
}

/// strace holds up the thread that counts, which reads more folders than the start itself does.
#[test]
fn nothing_changes_while_values_are_counted() {
    directory_only!("what lies in a directory");
    let delay = words("-e trace=getdents64 -e inject=getdents64:delay_enter=60000000:when=16+");
    let trace = needed!(Trace::with(&delay, "refusals during a count"));
    let world = World {
        name: "counting",
        has_upload: false,
        rows: rows::COUNTING,
        ..OPEN
    };
    hold(&world, "", &|launch| trace.around(launch));
}
