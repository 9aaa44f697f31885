//! Feeds `http::fuzz::chunk_chain` with inputs.
#![no_main]

use data_server::http::fuzz::chunk_chain;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| chunk_chain(data));
