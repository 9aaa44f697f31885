//! Hostile requests, web pages of others, and planted files.

mod attacks;
mod browsers;
mod planted_files;
