//! The process: its start, options, signals, restarts and end.

mod assets;
mod command_line;
mod config_file;
mod containers;
mod drain;
mod handover;
mod health;
mod kernel;
mod late_http2;
mod listeners;
mod manual;
mod options;
mod process;
mod reloads;
mod replaced_directory;
mod restart;
mod shortages;
mod slow_links;
