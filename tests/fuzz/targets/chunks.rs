//! Feeds `http::fuzz::chunks` with inputs.
#![no_main]

use data_server::http::fuzz::chunks;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| chunks(data));
