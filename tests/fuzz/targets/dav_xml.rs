//! Feeds `http::fuzz::dav_xml` with inputs.
#![no_main]

use data_server::http::fuzz::dav_xml;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| dav_xml(data));
