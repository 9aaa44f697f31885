//! The process: its start, options, signals, restarts and end.

mod assets;
mod command_line;
mod config_file;
mod drain;
mod handover;
mod health;
mod kernel;
mod listeners;
mod manual;
mod process;
mod reloads;
mod restart;
mod shortages;
mod slow_links;
