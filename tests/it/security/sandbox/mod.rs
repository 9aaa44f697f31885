//! Proves the sandbox: a handler that turns bad reaches nothing outside, the server does all of its work, and each
//! kernel gives what its start line says. `tests/run --sandbox` runs all other tests with it.

mod kernels;
mod misdeeds;
mod work;

use data_server_testing::left_out;

use crate::support::prelude::*;

const REQUIRE: [&str; 2] = ["--sandbox", "require"];

/// Something where this kernel has a sandbox; says so where a test is left out.
fn possible() -> Option<()> {
    let started = Launch::new(&REQUIRE).in_the_clear().start_or_end();
    match started {
        Ok(_) => Some(()),
        Err(ended) => {
            let is_right = ended.stderr.contains("--sandbox require: ");
            assert!(is_right, "{}", ended.stderr);
            left_out("the sandbox", &ended.stderr);
            None
        }
    }
}
