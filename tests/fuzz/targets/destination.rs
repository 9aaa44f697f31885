//! Feeds `http::fuzz::destination` with inputs.
#![no_main]

use data_server::http::fuzz::destination;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| destination(data));
