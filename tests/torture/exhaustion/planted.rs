//! The harness is shown to fail: a server that recovers late, that keeps something, that was never out of anything.

use std::thread::JoinHandle;

use rustix::process::Resource;

use super::resources::{FileSize, limit};
use super::{RECOVERY, Recovery, Resourced, judge, rounds};
use crate::support::prelude::*;

/// What is wrong with a server.
#[derive(Default)]
struct Faulty {
    never_out: bool,
    late: Option<Duration>,
    relief: Option<JoinHandle<()>>,
    keeps: bool,
    kept: Vec<Raw>,
}

impl Resourced for Faulty {
    fn exhaust(&mut self, server: &TestServer) {
        if !self.never_out {
            FileSize.exhaust(server);
        }
    }

    fn while_out(&mut self, server: &TestServer, old: &mut Client) {
        FileSize.while_out(server, old);
    }

    fn relieve(&mut self, server: &TestServer) {
        if self.keeps {
            self.kept.push(server.connect());
        }
        let Some(late) = self.late else {
            return limit(&server.proc(), Resource::Fsize, None);
        };
        let server = server.proc();
        self.relief = Some(thread::spawn(move || {
            thread::sleep(late);
            limit(&server, Resource::Fsize, None);
        }));
    }
}

fn run(mut faulty: Faulty) {
    rounds("planted", &DataDir::temporary(), &mut faulty, 1);
}

#[test]
fn the_exhaustion_harness_takes_an_honest_server() {
    run(Faulty::default());
}

#[test]
#[should_panic(expected = "full service only after")]
fn the_exhaustion_harness_finds_a_server_that_recovers_late() {
    run(Faulty {
        late: Some(4 * RECOVERY),
        ..Faulty::default()
    });
}

#[test]
#[should_panic(expected = "at rest, now")]
fn the_exhaustion_harness_finds_a_descriptor_that_is_kept() {
    run(Faulty {
        keeps: true,
        ..Faulty::default()
    });
}

#[test]
#[should_panic(expected = "beyond the limit")]
fn the_exhaustion_harness_does_not_take_plenty_for_exhaustion() {
    run(Faulty {
        never_out: true,
        ..Faulty::default()
    });
}

fn recovery(took: u32, witness: u32) -> Recovery {
    Recovery {
        took: RECOVERY * took / 10,
        witness: RECOVERY * witness / 10,
    }
}

#[test]
fn a_slow_machine_excuses_as_much_as_it_costs() {
    judge(&mut [recovery(5, 1), recovery(5, 1), recovery(13, 4)]);
}

#[test]
#[should_panic(expected = "full service only after")]
fn a_slow_machine_excuses_no_more() {
    judge(&mut [recovery(5, 1), recovery(5, 1), recovery(15, 4)]);
}

#[test]
#[should_panic(expected = "in half of the rounds")]
fn a_machine_on_which_everything_is_slow_proves_nothing() {
    judge(&mut [recovery(5, 1), recovery(13, 4), recovery(13, 4)]);
}
