//! Feeds `http::fuzz::link` with inputs.
#![no_main]

use data_server::http::fuzz::link;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| link(data));
