//! T15: SIGTERM under mixed load. Everything acknowledged is kept, whatever was begun is answered whole, what is not
//! answered was not done, and the process ends with 0 within the grace period.
//!
//! The load, the judge and the seed are those of the kills in `mod.rs`.

use super::server::Server;
use super::{PATIENCE, torture};
use crate::load::Load;
use crate::scale::{counted, scaled};
use crate::support::prelude::*;

/// The default of `--grace-period`.
const GRACE: Duration = Duration::from_secs(30);

#[test]
fn a_stop_under_load_loses_nothing_and_leaves_no_answer_half_said() {
    let stops = scaled(8, 500);
    let mut server = Server::ended_by(Signal::TERM);
    let (counts, outcome) = torture(&mut server, &mut Load::new("stop"), stops, PATIENCE);
    let longest = server.ends.iter().max().copied().unwrap_or_default();
    counted!(
        "stop",
        "{} stops ({} with --durability disk), {} acknowledged writes before them, {} requests closed unanswered and not done; \
             ends took at most {longest:.0?}; found {}",
        counts.cycles,
        server.disk,
        counts.acknowledged,
        counts.unheard,
        usize::from(outcome.is_err())
    );
    if let Err((fault, told)) = outcome {
        panic!("{fault:?}: {told}");
    }
    counts.assert_proves(stops);
    assert!(longest < GRACE, "an end took {longest:?}");
}
