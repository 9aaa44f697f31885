//! `data-server check-store`: the long form of the check, which prints a line for each thing, and tries every endpoint.

use socket2::{Domain, Socket, Type};

use crate::support::prelude::*;
use crate::support::s3::{Bucket, Lies, Stub, VersityGw};

/// How long thousands of requests may take on a busy machine.
const LONG: Duration = Duration::from_secs(240);

/// How many uploads are cut off, how often writers race, and how often through all endpoints.
fn rounds() -> [u32; 3] {
    scaled([3, 20, 10], [15, 300, 100])
}

fn check(bucket: &Bucket) -> Ended {
    let options = bucket.options();
    let options = options.iter().map(|word| word.to_str().expect("text"));
    let words: Vec<_> = std::iter::once("check-store").chain(options).collect();
    let mut launch = Launch::new(&words).bare();
    let (name, races) = bucket.trial();
    let trial = if is_full() { "".into() } else { races };
    for (name, value) in bucket.variables().into_iter().chain([(name, trial)]) {
        launch = launch.env(name, value);
    }
    launch.ends_within(LONG).run()
}

/// What it prints of a store with these faults, which cannot be served.
#[track_caller]
fn refused(lies: Lies) -> String {
    let stub = Stub::lying(lies);
    let ended = check(&stub.bucket);
    assert_eq!(ended.code, Some(1), "{}\n{}", ended.stdout, ended.stderr);
    assert_eq!(stub.bucket.objects(), [], "it leaves nothing");
    ended.stdout
}

#[test]
fn it_prints_what_the_store_does() {
    let printed = refused(lies!(ignores_create, ignores_swap, ignores_delete));
    let [cuts, ..] = rounds();
    let expected = format!(
        "an upload that breaks off leaves the old value       yes, {cuts} times\n\
         an upload with a wrong checksum is refused           yes, 1 times\n\
         a list has the names as they are, in byte order      yes, 1111 times\n\
         a list begins after any name, also an absent one     yes, 7 times\n\
         PUT with If-None-Match: * creates only               NO: PUT with If-None-Match: * over a value is made all the same\n\
         PUT with If-Match replaces that version only         NO: PUT with If-Match of another version is made all the same\n\
         DELETE with If-Match removes that version only       NO: DELETE with If-Match of another version is made all the same"
    );
    assert_eq!(printed, expected);
}

#[test]
fn a_real_store_passes_through_both_its_endpoints() {
    let store = needed!(VersityGw::start(2));
    let ended = check(&store.bucket);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stdout, ended.stderr);
    let [_, races, across] = rounds();
    for (what, times) in [
        ("a list has the names as they are, in byte order", 1111),
        ("of 8 swaps at once, one is made", races),
        ("a change through one endpoint is so for all others", across),
        ("of 8 creations through all endpoints, one is made", across),
        ("of 8 swaps through all endpoints, one is made", across),
    ] {
        let line = format!("{what:<53}yes, {times} times");
        let mut printed = ended.stdout.lines();
        let is_right = printed.any(|printed| printed == line);
        assert!(is_right, "{line}\n{}", ended.stdout);
    }
    assert_eq!(store.bucket.objects(), []);
}

#[test]
fn an_endpoint_that_answers_what_was_before_is_named() {
    let stub = Stub::lying(lies!(stale_second));
    let [first, second] = stub.bucket.endpoints[..] else {
        panic!("two endpoints");
    };
    let ended = check(&stub.bucket);
    assert_eq!(ended.code, Some(1), "{}\n{}", ended.stdout, ended.stderr);
    let line = format!(
        "a change through one endpoint is so for all others   \
         NO: http://{second} answers what was there before a write through http://{first}"
    );
    let is_right = ended.stdout.lines().any(|printed| printed == line);
    assert!(is_right, "{}", ended.stdout);
}

#[test]
fn an_endpoint_through_which_writes_race_is_found() {
    let printed = refused(lies!(races_across));
    let line = |what: &str| printed.lines().find(|line| line.starts_with(what));
    let alone = line("of 8 swaps at once, one is made").expect("a line");
    let [_, races, _] = rounds();
    assert!(alone.ends_with(&format!("yes, {races} times")), "{printed}");
    let across = line("of 8 swaps through all endpoints, one is made").expect("a line");
    let is_right = across.contains("NO: ") && across.contains(" are made, in round ");
    assert!(is_right, "{printed}");
}

#[test]
fn an_endpoint_that_cannot_be_reached_is_named() {
    let stub = Stub::start();
    // Nobody else gets its port, and nobody listens there.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(&any.into()).expect("a port");
    let gone = socket.local_addr().expect("an address").as_socket();
    let gone = gone.expect("an address of IP");
    let ended = check(&stub.bucket.at(&[stub.bucket.endpoints[0], gone]));
    assert_eq!(ended.code, Some(1), "{}\n{}", ended.stdout, ended.stderr);
    let named = format!("NO: http://{gone}: the store cannot be reached");
    assert!(ended.stdout.contains(&named), "{}", ended.stdout);
}
