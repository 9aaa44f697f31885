//! Feeds `http::fuzz::digest_fields` with inputs.
#![no_main]

use data_server::http::fuzz::digest_fields;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| digest_fields(data));
