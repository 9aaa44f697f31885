//! Feeds `http::fuzz::plain` with inputs.
#![no_main]

use data_server::http::fuzz::plain;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| plain(data));
