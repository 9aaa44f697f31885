//! Helpers of all test suites: the server as a child process, a raw HTTP client, its directory and its `/proc` pages.
//!
//! Nothing here reimplements the server: a test sees what a user sees. Every wait has a deadline.

mod accepting;
mod certificates;
mod client;
mod dir;
mod engine;
mod follow;
pub mod form;
pub mod frames;
pub mod history;
mod html;
mod http;
mod http2;
mod lines;
mod metrics;
mod mount;
pub mod policy;
pub mod prelude;
mod proc;
mod proxy;
mod raw;
mod reading;
pub mod relay;
mod report;
mod resumable;
mod running;
pub mod s3;
mod scale;
mod server;
pub mod session;
mod stream;
mod talk;
mod tls;
mod trace;
mod wait;

pub use accepting::Accepting;
pub use certificates::Certificates;
pub use client::{Client, Heard};
pub use dir::{DataDir, chmod};
pub use engine::{by_engine, can_journal, is_s3, taken, takes_key};
pub use follow::{Events, Follower, Socket, Told};
pub use html::{Element, HtmlPage, Row};
pub use http::{Classes, LENGTHS, ask, chunk, chunks, sha256, table};
pub use http2::{Asked, Http2, Leave, by_protocol, is_http2};
pub use lines::Event;
pub use metrics::{Sample, Scrape};
pub use mount::{Fuse, Immutable, Mount, Mounted, not_started, run, text};
pub use proc::{Proc, unsent_of_nobody};
pub use proxy::Proxy;
pub use raw::{Raw, Response, chunked, get_head, in_chunks, put_head};
pub use reading::{Cut, Protocol, Reading, Version};
pub use report::{
    available, has_only_left_out, is_on_path, left_out, part_ended, say, tested, this_test, tool,
};
pub use resumable::Resumable;
pub use running::Running;
pub use scale::{is_full, scaled};
pub use server::{
    Ended, Launch, TestServer, binary, held_socket, scheme, served_by_nobody,
    served_by_nobody_with, words,
};
pub use stream::Stream;
pub use tls::{Authority, Issued, TlsClient, is_tls};
pub use trace::{Attached, Call, Trace, can_trace};
pub use wait::{DEADLINE, Done, comes_true, eventually, pass, within};

/// A value of `len` bytes that differs by `seed` in every 8 bytes, so that mixed or shifted bytes are detected.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    let mut word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while bytes.len() < len {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
