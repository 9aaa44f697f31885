//! Clients of S3 and Azure: single objects work, and all else they ask for leaves the value and is told why.

use crate::client::Client;
use crate::support::prelude::*;

#[test]
fn the_lines_for_boto3_run_and_what_means_something_else_is_refused() {
    let mut client = needed!(Client::of("boto3 and Azure"));
    client.play();
    client.server().dir.assert_holds(&["data/greeting"]);
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/programs");
    let program = programs.join("with_s3_and_azure.py");
    client.run(&format!("python3 {} $S\n#> held", program.display()));
}
