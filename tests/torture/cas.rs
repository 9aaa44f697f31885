//! Power is cut while several clients swap the values of each key: with `--durability disk` no acknowledged swap is lost, and of two
//! swaps of one version one is acknowledged.
//!
//! Each value names the one that it took the place of. After a cut the chain of a key, from the value that it has back to the one that
//! it had before, must have every change that was acknowledged; one without an answer may be in it or not, one that was refused
//! may not.

use std::collections::HashSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use rustix::process::Signal;

use crate::disk::{Disk, Image, Kind};
use crate::random::{Random, seed};
use crate::scale::{available, counted, left_out, scaled};
use crate::support::{
    Attached, Client, Done, Heard, Launch, TestServer, can_trace, eventually, pattern,
};

/// Flat ones, one in a folder that is shared, and one in folders of its own, which are there exactly as long as the key.
const KEYS: [&str; 4] = ["a", "b", "shared/c", "own/deep/d"];

/// Clients of each key.
const CLIENTS: usize = 5;

/// Acknowledged changes before a cut, at least.
const ENOUGH: usize = 100;

/// One value of one key.
type Id = u64;

/// What a key has, or that it has nothing.
type State = Option<Id>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Acknowledged,
    Refused,
    /// It may have been made.
    Unknown,
}

/// A swap, a create or a removal, each by a condition.
#[derive(Clone, Copy, Debug)]
struct Change {
    from: State,
    to: State,
    outcome: Outcome,
}

/// What was asked of a key since it was looked at.
#[derive(Debug)]
struct Chain {
    key: &'static str,
    start: State,
    changes: Mutex<Vec<Change>>,
}

/// What cannot be, if promises are kept.
#[derive(Debug, PartialEq, Eq)]
enum Broken {
    /// Both were acknowledged.
    TwoOfOne(State),
    /// It was acknowledged, and is not in the chain.
    Lost(Id),
    /// The key has what an acknowledged change took away.
    Undone(Id),
    /// The key has what was refused, or never written.
    Strange(Id),
}

/// Whether `found` can follow from `start` by all acknowledged `changes` and some without an answer.
fn judge(start: State, changes: &[Change], found: State) -> Result<(), Broken> {
    let acknowledged = || {
        changes
            .iter()
            .filter(|c| c.outcome == Outcome::Acknowledged)
    };
    let mut consumed = HashSet::new();
    for from in acknowledged().filter_map(|change| change.from) {
        if !consumed.insert(from) {
            return Err(Broken::TwoOfOne(Some(from)));
        }
    }
    if let Some(found) = found {
        if consumed.contains(&found) {
            return Err(Broken::Undone(found));
        }
        no_other_took(start, changes, found, &consumed)?;
    }
    for id in acknowledged().filter_map(|change| change.to).chain(start) {
        if !leads_to(id, found, changes, &consumed) {
            return Err(Broken::Lost(id));
        }
    }
    Ok(())
}

/// Back from `found` over changes without an answer: none of them took the place of what an acknowledged one did.
fn no_other_took(
    start: State,
    changes: &[Change],
    found: Id,
    consumed: &HashSet<Id>,
) -> Result<(), Broken> {
    let mut at = found;
    while Some(at) != start {
        let made = changes.iter().find(|change| change.to == Some(at));
        let made = made.filter(|change| change.outcome != Outcome::Refused);
        let made = made.ok_or(Broken::Strange(at))?;
        if made.outcome == Outcome::Acknowledged {
            return Ok(());
        }
        match made.from {
            Some(from) if consumed.contains(&from) => return Err(Broken::TwoOfOne(Some(from))),
            Some(from) => at = from,
            None => return Ok(()),
        }
    }
    Ok(())
}

/// Whether what stood as `id` was taken by an acknowledged change, or is `found`, or leads there by changes without an answer.
fn leads_to(id: Id, found: State, changes: &[Change], consumed: &HashSet<Id>) -> bool {
    if found == Some(id) || consumed.contains(&id) {
        return true;
    }
    let unknown = changes
        .iter()
        .filter(|c| c.outcome == Outcome::Unknown && c.from == Some(id));
    unknown.into_iter().any(|change| match change.to {
        None => true,
        Some(to) => leads_to(to, found, changes, consumed),
    })
}

/// The value: it names itself and the one before it.
fn value(id: Id, from: State) -> Vec<u8> {
    // One in eight is too long for the journal, some only just.
    let len = match id % 16 {
        0 => 300_000,
        8 => 65_537,
        1 => 60_000,
        _ => 100,
    };
    let mut value = format!("{id} {}\n", from.unwrap_or(0)).into_bytes();
    value.extend(pattern(id, len));
    value
}

/// Which value it is, if it is whole.
fn identify(body: &[u8]) -> Option<Id> {
    let line = body.split(|&byte| byte == b'\n').next()?;
    let (id, from) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    let (id, from) = (id.parse().ok()?, from.parse().ok()?);
    (body == value(id, Some(from))).then_some(id)
}

/// What is counted over all cuts.
#[derive(Default)]
struct Report {
    cuts: usize,
    acknowledged: usize,
    refused: usize,
    unknown: usize,
    broken: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cuts,
            acknowledged,
            refused,
            unknown,
            broken,
        } = self;
        write!(
            f,
            "{cuts} cuts, {acknowledged} acknowledged swaps, {refused} refused, {unknown} without an answer, {} broken {broken:?}",
            broken.len()
        )
    }
}

/// Clients at work.
struct Run {
    addr: SocketAddr,
    next: AtomicU64,
    acknowledged: AtomicUsize,
    /// From now on there may be no answer.
    may_break: AtomicBool,
    over: Done,
}

impl Run {
    fn work(&self, chain: &Chain, mut random: Random) {
        let mut client = Client::new(self.addr);
        while !self.over.is_said() {
            let found = match client.hear("GET", chain.key, "", b"") {
                Heard::Answer(found) => found,
                heard => {
                    self.assert_may_break("GET");
                    match heard {
                        Heard::Unasked => return,
                        _ => continue,
                    }
                }
            };
            let (from, condition) = match found.status {
                200 => {
                    let id = identify(&found.body);
                    let id = id.unwrap_or_else(|| panic!("/{} is torn", chain.key));
                    (Some(id), format!("If-Match: {}\r\n", found.must("etag")))
                }
                404 => (None, "If-None-Match: *\r\n".to_owned()),
                status => {
                    self.assert_may_break(&format!("GET {status}"));
                    continue;
                }
            };
            let removes = from.is_some() && random.below(12) == 0;
            let to = (!removes).then(|| self.next.fetch_add(1, Ordering::Relaxed));
            let body = to.map(|id| value(id, from)).unwrap_or_default();
            let method = if removes { "DELETE" } else { "PUT" };
            let outcome = match client.hear(method, chain.key, &condition, &body) {
                Heard::Answer(answer) => match answer.status {
                    200 => Outcome::Acknowledged,
                    412 | 404 => Outcome::Refused,
                    status => {
                        self.assert_may_break(&format!("{method} {status}"));
                        Outcome::Unknown
                    }
                },
                Heard::Unasked => {
                    self.assert_may_break(method);
                    return;
                }
                Heard::Nothing | Heard::Part(_) => {
                    self.assert_may_break(method);
                    Outcome::Unknown
                }
            };
            if outcome == Outcome::Acknowledged {
                self.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            let mut changes = chain.changes.lock().expect("no panic under the lock");
            changes.push(Change { from, to, outcome });
        }
    }

    #[track_caller]
    fn assert_may_break(&self, what: &str) {
        assert!(
            self.may_break.load(Ordering::Acquire),
            "before the cut: {what}"
        );
    }
}

/// Swaps on one disk, over any number of cuts.
struct Swaps {
    disk: Image,
    args: &'static [&'static str],
    chains: [Chain; KEYS.len()],
    random: Random,
    /// The next value.
    next: Id,
    report: Report,
}

impl Swaps {
    /// A cut of power among swaps; what each key has afterwards is judged. On a slow device more changes are on their way at once.
    fn cut(&mut self, is_slow: bool) {
        let mut server = Launch::new(self.args).on(&self.disk.dir()).start();
        let run = Run {
            addr: server.addr,
            next: AtomicU64::new(self.next),
            acknowledged: AtomicUsize::default(),
            may_break: AtomicBool::default(),
            over: Done::default(),
        };
        let slow = [
            "-e",
            "trace=fdatasync",
            "-e",
            "inject=fdatasync:delay_enter=20000",
        ];
        let tracer = is_slow.then(|| Attached::to(&server, &slow));
        let enough = ENOUGH + self.random.place(ENOUGH);
        thread::scope(|scope| {
            let _over = run.over.when_dropped();
            for chain in &self.chains {
                for _ in 0..CLIENTS {
                    let (run, random) = (&run, self.random.fork());
                    scope.spawn(move || run.work(chain, random));
                }
            }
            eventually("swaps are acknowledged", || {
                run.acknowledged.load(Ordering::Relaxed) >= enough
            });
            run.may_break.store(true, Ordering::Release);
            self.disk.cut();
            server.signal(Signal::KILL);
            server.exit();
        });
        if let Some(tracer) = tracer {
            tracer.abandon();
        }
        self.next = run.next.into_inner();
        self.disk.revive();
        let mut server = Launch::new(&[]).on(&self.disk.dir()).start();
        self.report.cuts += 1;
        for chain in &mut self.chains {
            look(&server, chain, &mut self.report);
        }
        server.stop();
    }
}

/// Judges what the key has, and goes on from there.
fn look(server: &TestServer, chain: &mut Chain, report: &mut Report) {
    let answer = server.get(chain.key);
    let found = if answer.status == 404 {
        None
    } else {
        let id = identify(&answer.body);
        if id.is_none() {
            report
                .broken
                .push(format!("{}: torn, {} bytes", chain.key, answer.body.len()));
            server.ask("DELETE", chain.key);
        }
        id
    };
    let changes = std::mem::take(chain.changes.get_mut().expect("no panic under the lock"));
    let count = |outcome| changes.iter().filter(|c| c.outcome == outcome).count();
    report.acknowledged += count(Outcome::Acknowledged);
    report.refused += count(Outcome::Refused);
    report.unknown += count(Outcome::Unknown);
    if let Err(broken) = judge(chain.start, &changes, found) {
        report.broken.push(format!("{}: {broken:?}", chain.key));
    }
    chain.start = found;
}

fn no_swap_is_lost_on(kind: Kind, args: &'static [&'static str], cuts: usize) {
    let what = format!(
        "swaps among cuts of power on {}, {}",
        kind.name(),
        args.join(" ")
    );
    let Some(disk) = available(&what, Image::new(kind)) else {
        return;
    };
    let can_be_slow = can_trace();
    if !can_be_slow {
        left_out(
            &format!("{what}, a slow device"),
            "strace does not run here",
        );
    }
    let seed = seed("cas");
    let mut swaps = Swaps {
        disk,
        args,
        chains: KEYS.map(|key| Chain {
            key,
            start: None,
            changes: Mutex::default(),
        }),
        random: Random::new(seed),
        next: 1,
        report: Report::default(),
    };
    for cycle in 0..cuts {
        swaps.cut(can_be_slow && cycle % 2 == 0);
    }
    let report = swaps.report;
    counted(&what, &format!("{report}; seed {seed}"));
    assert!(
        report.broken.is_empty(),
        "DATA_SERVER_TORTURE_SEED={seed}: {report}"
    );
    assert!(report.refused > 0, "no two clients met: {report}");
}

const DISK: &[&str] = &["--durability", "disk"];

#[test]
fn no_acknowledged_swap_is_lost_to_a_power_cut_on_ext4() {
    no_swap_is_lost_on(Kind::Ext4, DISK, scaled(2, 100));
}

#[test]
fn no_acknowledged_swap_is_lost_to_a_power_cut_on_xfs() {
    no_swap_is_lost_on(Kind::Xfs, DISK, scaled(2, 100));
}

#[test]
fn no_acknowledged_swap_is_lost_to_a_power_cut_on_btrfs() {
    no_swap_is_lost_on(Kind::Btrfs, DISK, scaled(2, 100));
}

/// Each value and name is synced by itself there.
#[test]
fn no_acknowledged_swap_is_lost_to_a_power_cut_without_a_journal() {
    const ARGS: &[&str] = &["--durability", "disk", "--journal", "off"];
    no_swap_is_lost_on(Kind::Ext4, ARGS, scaled(1, 20));
}

mod tests {
    use super::Outcome::{Acknowledged, Refused, Unknown};
    use super::*;

    fn changes(all: &[(u64, u64, Outcome)]) -> Vec<Change> {
        let state = |id| Some(id).filter(|&id| id != 0);
        let change = |&(from, to, outcome)| Change {
            from: state(from),
            to: state(to),
            outcome,
        };
        all.iter().map(change).collect()
    }

    #[test]
    fn a_chain_with_all_that_was_acknowledged_is_taken() {
        let made = [(0, 1, Acknowledged), (1, 2, Acknowledged), (1, 3, Refused)];
        assert_eq!(judge(None, &changes(&made), Some(2)), Ok(()));
        let more = [
            &made[..],
            &[(2, 4, Unknown), (2, 5, Unknown), (4, 6, Unknown)],
        ]
        .concat();
        for found in [2, 4, 5, 6] {
            assert_eq!(judge(None, &changes(&more), Some(found)), Ok(()), "{found}");
        }
        let removed = [&made[..], &[(2, 0, Unknown)]].concat();
        assert_eq!(judge(None, &changes(&removed), None), Ok(()));
        assert_eq!(judge(None, &changes(&removed), Some(2)), Ok(()));
        let anew = [
            (7, 0, Acknowledged),
            (0, 8, Acknowledged),
            (8, 9, Acknowledged),
        ];
        assert_eq!(judge(Some(7), &changes(&anew), Some(9)), Ok(()));
        assert_eq!(judge(Some(7), &[], Some(7)), Ok(()));
    }

    #[test]
    fn each_broken_promise_is_found() {
        let made = [(0, 1, Acknowledged), (1, 2, Acknowledged), (1, 3, Refused)];
        let judge = |more: &[_], found| {
            judge(None, &changes(&[&made[..], more].concat()), found).unwrap_err()
        };
        assert_eq!(
            judge(&[(1, 4, Acknowledged)], Some(2)),
            Broken::TwoOfOne(Some(1))
        );
        assert_eq!(
            judge(&[(1, 4, Unknown)], Some(4)),
            Broken::TwoOfOne(Some(1))
        );
        assert_eq!(judge(&[], Some(1)), Broken::Undone(1));
        assert_eq!(judge(&[], Some(3)), Broken::Strange(3));
        assert_eq!(judge(&[], Some(9)), Broken::Strange(9));
        assert_eq!(judge(&[], None), Broken::Lost(2));
        assert_eq!(judge(&[(2, 4, Unknown)], None), Broken::Lost(2));
        assert_eq!(judge(&[(2, 0, Acknowledged)], Some(2)), Broken::Undone(2));
    }

    #[test]
    fn a_value_tells_which_it_is_while_it_is_whole() {
        let value = value(16, Some(3));
        assert_eq!(identify(&value), Some(16));
        assert_eq!(identify(&value[..value.len() - 1]), None);
        assert_eq!(identify(&vec![0; value.len()]), None);
        assert_eq!(identify(b""), None);
    }
}
