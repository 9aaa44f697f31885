//! Feeds `http::fuzz::signature` with inputs.
#![no_main]

use data_server::http::fuzz::signature;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| signature(data));
