//! Feeds `http::fuzz::range` with inputs.
#![no_main]

use data_server::http::fuzz::range;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| range(data));
