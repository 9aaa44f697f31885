//! Feeds `http::fuzz::authorization` with inputs.
#![no_main]

use data_server::http::fuzz::authorization;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| authorization(data));
