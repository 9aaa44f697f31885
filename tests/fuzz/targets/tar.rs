//! Feeds `http::fuzz::tar` with inputs.
#![no_main]

use data_server::http::fuzz::tar;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| tar(data));
