//! The harness is shown to fail: on a server that recovers late, and on one that keeps something.

use rustix::process::Resource;

use super::resources::{FileSize, limit};
use super::{RECOVERY, Recovery, Resourced, judge, rounds};
use crate::support::prelude::*;

/// A server that keeps a connection beyond the round.
struct Kept(Option<Raw>);

impl Resourced for Kept {
    fn exhaust(&mut self, server: &TestServer) {
        FileSize.exhaust(server);
    }

    fn while_out(&mut self, server: &TestServer, old: &mut Client) {
        FileSize.while_out(server, old);
    }

    fn relieve(&mut self, server: &TestServer) {
        self.0 = Some(server.connect());
        limit(&server.proc(), Resource::Fsize, None);
    }
}

#[test]
#[should_panic(expected = "at rest, now")]
fn a_descriptor_that_is_kept_is_found_out() {
    rounds("planted", &DataDir::temporary(), &mut Kept(None), 1);
}

#[test]
fn late_recoveries_are_found_out_and_a_slow_machine_excuses_as_much_as_it_costs() {
    // How long each took, and its witness, in tenths of what is allowed.
    for (seen, expected) in [
        ([(5, 1), (5, 1), (13, 4)], None),
        ([(5, 1), (5, 1), (40, 1)], Some("full service only after")),
        ([(5, 1), (5, 1), (15, 4)], Some("full service only after")),
        ([(5, 1), (13, 4), (13, 4)], Some("in half of the rounds")),
    ] {
        let recovery = |(took, witness)| Recovery {
            took: RECOVERY * took / 10,
            witness: RECOVERY * witness / 10,
        };
        let found = judge(&mut seen.map(recovery)).err();
        let is_right = match (&found, expected) {
            (Some(found), Some(expected)) => found.contains(expected),
            (found, expected) => found.is_none() && expected.is_none(),
        };
        assert!(is_right, "{seen:?}: {found:?}");
    }
}
