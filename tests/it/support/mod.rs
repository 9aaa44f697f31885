//! What every module leans on: the server as a child process, a raw HTTP client, its directory and its `/proc` pages.
//!
//! Nothing here re-implements the server: a test sees what a user sees. Every wait has a deadline.

mod client;
mod dir;
mod follow;
mod http;
mod lines;
mod metrics;
mod mount;
mod proc;
mod raw;
mod server;
mod trace;
mod wait;

pub(crate) use client::Client;
pub(crate) use dir::DataDir;
pub(crate) use follow::{Events, Follower, Socket, Told};
pub(crate) use http::{Classes, LENGTHS, ask, chunk};
pub(crate) use lines::Event;
pub(crate) use metrics::{Sample, Scrape};
pub(crate) use mount::Mount;
pub(crate) use proc::Proc;
pub(crate) use raw::{Raw, Response, chunked, put_head};
pub(crate) use server::{Launch, TestServer};
pub(crate) use trace::{Attached, Call, Trace, can_trace};
pub(crate) use wait::{DEADLINE, Done, eventually};

/// A value of `len` bytes that differs with `seed` in every 8 bytes, so that a mixed or shifted one shows.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
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
