//! How requests are answered: what the options of this room mean.

use super::access_log::Sampling;
use super::hosts::Hosts;

/// How requests are answered.
#[derive(Clone, Debug)]
pub struct Rules {
    /// What is answered at all.
    pub scope: Scope,
    /// Answer as the C server did, where that differs (README, "The contract").
    pub compat: bool,
    /// Receive PUT bodies and drop them.
    pub discard: bool,
    /// Refuse to change anything.
    pub read_only: bool,
    /// The longest value taken, in bytes.
    pub max_body: u64,
    /// Compress answers for clients that ask for it.
    pub compress: bool,
    /// By which names it may be asked.
    pub hosts: Hosts,
    /// Origins whose pages may use this server; `*` is all.
    pub cors_origins: Vec<String>,
    /// Log a line for exchanges.
    pub access_log: Option<Sampling>,
    /// Tell clients how long their answers took.
    pub server_timing: bool,
}

/// What a listener answers; the rest is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Values, and the server's own pages.
    All,
    /// Values alone: the pages have a listener of their own.
    Values,
    /// The server's own pages alone.
    Pages,
}
