//! Feeds `http::fuzz::key` with inputs.
#![no_main]

use data_server::http::fuzz::key;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| key(data));
