//! Feeds `http::fuzz::s3_xml` with inputs.
#![no_main]

use data_server::http::fuzz::s3_xml;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| s3_xml(data));
