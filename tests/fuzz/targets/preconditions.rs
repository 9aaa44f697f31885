//! Feeds `http::fuzz::preconditions` with inputs.
#![no_main]

use data_server::http::fuzz::preconditions;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| preconditions(data));
