//! Feeds `http::fuzz::framing` with inputs.
#![no_main]

use data_server::http::fuzz::framing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| framing(data));
