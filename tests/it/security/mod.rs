//! Hostile requests, web pages of other origins, planted files, and servers that other machines reach.

mod attacks;
mod browsers;
mod exposure;
mod planted_files;
mod planted_folders;
mod sandbox;
