//! Feeds `http::fuzz::forwarded` with inputs.
#![no_main]

use data_server::http::fuzz::forwarded;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| forwarded(data));
