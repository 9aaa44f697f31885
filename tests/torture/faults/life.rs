//! The start and the drain under faults: the server either serves, or ends with a reason and the documented code; and
//! what was acknowledged is there the next time.

use super::matrix::{can_fail, first_path, possible, spread};
use crate::prelude::*;

const OPTIONS: [&str; 4] = ["--threads", "1", "--durability", "disk"];

/// A directory that has been served before, with one value.
fn served_before() -> DataDir {
    let dir = DataDir::temporary();
    let mut server = Launch::new(&OPTIONS).on(&dir).start();
    server.store("kept", "value");
    server.stop();
    dir
}

/// A call of a start: the so-manieth of its name that its thread makes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    call: String,
    number: usize,
    of_main: bool,
}

/// The calls of a start that are ours to answer for: from when the language's runtime is ready until it serves.
fn calls_of_start() -> Vec<Step> {
    let trace = Trace::with(&[], "the calls of a start").expect("strace runs here");
    let dir = served_before();
    let mut server = trace.around(Launch::new(&OPTIONS).on(&dir)).start();
    server.stop();
    let calls = trace.calls();
    let main = calls.first().expect("a call").thread;
    // The runtime of the language sets up its stack guard last; the loader of the program was before that.
    let sets_up = |call: &&Call| call.thread == main && call.name == "sigaltstack";
    let own = calls.iter().filter(sets_up).take(2);
    let ready = own.map(|call| call.ended).max().unwrap_or(0);
    let serving = calls.iter().find(|call| call.args.contains("listening on"));
    let serving = serving.expect("it serves").began;
    let mut numbers = BTreeMap::<(u32, &str), usize>::new();
    let mut ours = BTreeSet::new();
    for call in &calls {
        let number = numbers.entry((call.thread, &call.name)).or_default();
        *number += 1;
        let is_ours = call.began > ready && call.ended < serving && can_fail(call);
        let of_main = call.thread == main;
        // Threads of the runtime write to wake one another: there nothing fails, and strace tells calls by name alone.
        // The first reads of the process are the loader's.
        if is_ours && (of_main || !["read", "write"].contains(&call.name.as_str())) {
            ours.insert(Step {
                call: call.name.clone(),
                number: *number,
                of_main,
            });
        }
    }
    ours.into_iter().collect()
}

/// The body of the answer, if there is one and it is 200.
fn ask(server: &TestServer, method: &str, key: &str, body: &[u8]) -> Option<Vec<u8>> {
    match Client::new(server.addr).hear(method, key, "", body) {
        Heard::Answer(answer) if answer.status == 200 => Some(answer.body),
        _ => None,
    }
}

/// Starts with this fault of the main thread, or of another; whether the server then served, or ended as it should.
fn start_with(inject: &str, of_main: bool) -> Result<bool, String> {
    let dir = served_before();
    let mut strace = vec!["strace", "-D", "-o", "/dev/null", "-e", inject];
    strace.extend((!of_main).then_some("-f"));
    let launch = Launch::new(&OPTIONS).on(&dir).through(&strace);
    let served = match launch.start_or_end() {
        Ok(mut server) => {
            // The call may be met again only now, by these.
            let stored = (0..3).any(|_| ask(&server, "PUT", "new", b"value").is_some());
            let got = (0..3).find_map(|_| ask(&server, "GET", "kept", b""));
            if !stored || got.as_deref() != Some(b"value") {
                return Err(format!("serves, and not well: {stored}, {got:?}"));
            }
            server.signal(Signal::TERM);
            match server.exit() {
                Some(0) => true,
                code => return Err(format!("ends with {code:?} after it served")),
            }
        }
        Err(ended) => judge_end(ended.code, &ended.stderr, &ended.stdout).map(|()| false)?,
    };
    let again = Launch::new(&OPTIONS).on(&dir).start();
    if again.get("kept").body != b"value" {
        return Err("the value is gone".into());
    }
    again.dir.assert_nothing_staged();
    Ok(served)
}

/// Whether a start that gave up says why, with the code that docs/operations.md gives for it, and nothing else.
pub(super) fn judge_end(code: Option<i32>, said: &str, out: &str) -> Result<(), String> {
    let documented = match said {
        _ if said.contains("cannot listen") => 4,
        _ if said.contains("is in use") => 3,
        _ => 1,
    };
    let says_why = said.lines().any(|line| line.starts_with("data-server: "));
    if code == Some(documented) && says_why && out.is_empty() {
        return Ok(());
    }
    Err(format!("ends with {code:?}, saying {said:?} and {out:?}"))
}

#[test]
fn each_call_of_the_start_made_to_fail() {
    tracing_only!("faults at the start");
    let calls = calls_of_start();
    assert!(calls.len() > 20, "next to no calls of a start: {calls:?}");
    let all = possible(&calls, |call| &call.call);
    let (mut served, mut refused, mut wrong) = (0, 0, Vec::new());
    for (call, error) in spread(&all, scaled(14, usize::MAX)) {
        let inject = format!("inject={}:error={error}:when={}", call.call, call.number);
        match start_with(&inject, call.of_main) {
            Ok(true) => served += 1,
            Ok(false) => refused += 1,
            Err(why) => wrong.push(format!("{call:?} {error}: {why}")),
        }
    }
    let counts = format!("{served} served all the same, {refused} ended with a reason");
    counted!("faults at the start: {counts}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(served > 0 && refused > 0, "{counts}");
}

/// Drains a server with a request in hand, under these options of strace.
fn drain(options: &[&str]) -> Result<Vec<Call>, String> {
    let dir = served_before();
    let mut server: TestServer = Launch::new(&OPTIONS).on(&dir).start();
    server.store("new", "value");
    let mut idle = server.connect();
    assert_eq!(idle.ask("GET /new HTTP/1.1\r\nHost: t\r\n\r\n").status, 200);
    let tracer = Attached::to(&server, options);
    server.signal(Signal::TERM);
    let code = server.exit();
    let calls = tracer.detach();
    if code != Some(0) {
        return Err(format!("ends with {code:?}"));
    }
    let again = Launch::new(&OPTIONS).on(&dir).start();
    for key in ["kept", "new"] {
        if again.get(key).body != b"value" {
            return Err(format!("{key} is gone"));
        }
    }
    again.dir.assert_nothing_staged();
    Ok(calls)
}

#[test]
fn each_call_of_the_drain_made_to_fail() {
    tracing_only!("faults of the drain");
    let traced = drain(&[]).expect("a drain without a fault");
    // Signals are told to every runtime over a pair of sockets, by a byte: where nothing fails.
    let path_of = |call: &Call| first_path(call).map(str::to_owned);
    let tells = |call: &&Call| call.args.contains("\"\\1\", 1");
    let told_over: BTreeSet<_> = traced.iter().filter(tells).map(path_of).collect();
    let is_passed = |call: &&Call| matches!(&*call.name, "sendto" | "recvfrom");
    let passed = traced.iter().filter(is_passed);
    let of_signals = passed.filter(|call| told_over.contains(&path_of(call)));
    let spared: BTreeSet<&str> = of_signals.map(|call| &*call.name).collect();
    let is_ours = |call: &&Call| can_fail(call) && !spared.contains(&*call.name);
    let ours = traced.iter().filter(is_ours);
    let names: BTreeSet<String> = ours.map(|call| call.name.clone()).collect();
    let all = possible(&names, |name| name);
    let (mut hit, mut wrong) = (0, Vec::new());
    for (call, error) in spread(&all, scaled(6, usize::MAX)) {
        let inject = format!("inject={call}:error={error}:when=1");
        match drain(&["-e", &inject]) {
            Ok(calls) => hit += usize::from(calls.iter().any(Call::is_injected)),
            Err(why) => wrong.push(format!("{call} {error}: {why}")),
        }
    }
    counted!("faults of the drain: {hit} calls failed");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(hit >= scaled(3, 10), "only {hit} calls failed");
}
