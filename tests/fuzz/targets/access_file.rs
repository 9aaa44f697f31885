//! Feeds `http::fuzz::access_file` with inputs.
#![no_main]

use data_server::http::fuzz::access_file;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| access_file(data));
