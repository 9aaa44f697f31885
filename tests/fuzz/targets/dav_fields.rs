//! Feeds `http::fuzz::dav_fields` with inputs.
#![no_main]

use data_server::http::fuzz::dav_fields;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| dav_fields(data));
