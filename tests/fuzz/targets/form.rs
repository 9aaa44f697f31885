//! Feeds `http::fuzz::form` with inputs.
#![no_main]

use data_server::http::fuzz::form;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| form(data));
