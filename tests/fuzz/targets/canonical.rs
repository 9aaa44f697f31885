//! Feeds `http::fuzz::canonical` with inputs.
#![no_main]

use data_server::http::fuzz::canonical;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| canonical(data));
