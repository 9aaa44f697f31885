//! Feeds `http::fuzz::target` with inputs.
#![no_main]

use data_server::http::fuzz::target;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| target(data));
