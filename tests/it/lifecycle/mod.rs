//! The process: its start, options, signals, restarts and end.

mod assets;
mod drain;
mod exits;
mod handover;
mod kernel;
mod process;
mod restart;
