//! Hostile requests, web pages of other origins, planted files, and servers that other machines reach.

mod attacks;
pub(crate) mod browsers;
mod explained;
mod exposure;
mod hidden_names;
mod planted_files;
mod planted_folders;
mod sandbox;
mod symlinks;
