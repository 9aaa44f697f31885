//! A bound that has less room than its values take, as after a restart with a smaller one: they go in the background,
//! clients do not wait for all of that, and the server says how far it is.

use super::{BLOCK, metric};
use crate::support::prelude::*;

/// Many more values than the bound has room for, of one block each.
const MANY: usize = 8_000;

const BOUND: u64 = 8 << 20;

const STATE: &str = "data_server_bounds_state";

fn filled() -> DataDir {
    let dir = DataDir::in_memory();
    for n in 0..MANY {
        dir.place(&format!("old/{}/{n}", n % 16), BLOCK);
    }
    dir
}

/// The first PUT was answered when all that was too much had gone: after a minute where there is more of it.
#[test]
fn nobody_waits_until_all_that_is_above_a_smaller_bound_has_gone() {
    directory_only!("bounds");
    let dir = filled();
    let args = ["--evict-existing", "--max-size", "8MiB"];
    // Each removal takes so long that some seconds pass until all have gone, however fast the machine is.
    let delay = "inject=unlinkat:delay_enter=200";
    let options = ["-e", "trace=unlinkat", "-e", delay];
    let trace = needed!(Trace::with(&options, "slow removals"));
    let server = trace.around(Launch::new(&args).on(&dir)).start();
    let store = |key: &str, value: Vec<u8>| {
        let mut answer = server.put(key, value.clone());
        eventually("the values are counted", || {
            if answer.status == 503 {
                answer.must("retry-after");
                answer = server.put(key, value.clone());
            }
            answer.status != 503
        });
        assert_eq!(answer.status, 200, "{key}: {}", answer.text());
    };
    store("new/small", vec![1; 3000]);
    store("new/large", vec![1; 200_000]);
    let left = server.dir.names().len() as u64;
    assert!(
        left > 2 * BOUND / 4096,
        "only {left} were left at the answer"
    );
    let (status, ready) = server.ready();
    assert_eq!(status, 200);
    assert!(
        ready.starts_with("ready, and evicting what is above the bounds: "),
        "{ready}"
    );
    let scrape = Scrape::of(server.addr);
    assert_eq!(scrape.count(STATE, &[("state", "evicting")]), 1);
    // A value that never has room is refused meanwhile, too; over TLS its client cannot send on to hear that.
    if !is_tls() {
        server
            .put("new/huge", vec![1; 9 << 20])
            .says(507, "the bound of all values is full");
    }
    thread::scope(|scope| {
        for client in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for n in 0..50 {
                    store(&format!("new/{client}/{n}"), vec![1; 1 + n * 160]);
                }
            });
        }
        for n in 0..50 {
            let answer = server.get(&format!("old/{}/{n}", n % 16));
            assert!(matches!(answer.status, 200 | 404), "{}", answer.status);
        }
    });
    eventually("nothing is above the bound", || {
        super::taken(&server.dir, "") <= BOUND
    });
    assert_eq!(server.get("new/large").status, 200);
    eventually("it is ready", || server.ready().1 == "ready\n");
    let told = server.event("the values are above their bounds: so many are still to be evicted");
    assert!(
        told.number("bytes") > BOUND && told.number("keys") == 0,
        "{told:?}"
    );
    server.event("what was above the bounds is evicted");
    assert_eq!(metric(&server, STATE), 0);
}

/// The walk of the count is slow, and reads are not.
#[test]
fn while_values_are_counted_uploads_are_told_so_and_reads_are_served() {
    directory_only!("bounds");
    let dir = DataDir::temporary();
    dir.place_each("c/1 c/2 c/3", BLOCK);
    let delay = "inject=getdents64:delay_enter=2500000:when=1";
    let options = ["-e", "trace=getdents64", "-e", delay];
    let trace = needed!(Trace::with(&options, "a slow count"));
    let bound = ["--bound", r#"prefix = "c/", max-keys = 9"#];
    let server = trace.around(Launch::new(&bound).on(&dir)).start();
    let refused = server.put("c/4", "v");
    refused.says(503, "the values are being counted for their bounds, ");
    let seconds: u64 = refused.must("retry-after").parse().expect("a number");
    assert!((1..=60).contains(&seconds), "{seconds}");
    assert_eq!(server.get("c/1").status, 200);
    let (status, ready) = server.ready();
    assert_eq!(status, 200);
    let is_said =
        ready.starts_with("ready for reads: uploads are refused: the values are being counted");
    assert!(is_said, "{ready}");
    let scrape = Scrape::of(server.addr);
    assert_eq!(scrape.count(STATE, &[("state", "counting")]), 1);
    eventually("they are counted", || server.put("c/4", "v").status == 200);
    eventually("it is ready", || server.ready().1 == "ready\n");
    let told = server
        .event("the values are being counted for their bounds: uploads are refused until then");
    assert!(told.number("counted") <= 4, "{told:?}");
    assert_eq!(server.events("out of resources").len(), 0);
}
