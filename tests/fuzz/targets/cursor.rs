//! Feeds `http::fuzz::cursor` with inputs.
#![no_main]

use data_server::http::fuzz::cursor;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| cursor(data));
