//! Hostile requests, web pages of other origins, and planted files.

mod attacks;
mod browsers;
mod planted_files;
mod planted_folders;
