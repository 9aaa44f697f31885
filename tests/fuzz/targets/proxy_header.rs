//! Feeds `net::fuzz::proxy_header` with inputs.
#![no_main]

use data_server::net::fuzz::proxy_header;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| proxy_header(data));
