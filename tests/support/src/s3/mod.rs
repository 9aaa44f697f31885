//! Stores that speak S3, for tests: a real one ([`VersityGw`]), one that is told how to fail ([`Stub`]), and signed
//! requests straight to either.

mod bucket;
mod process;
mod sign;
mod stub;
mod versitygw;

pub use bucket::{Bucket, Listed};
pub use sign::{Keys, Unsigned, digest, hex, time_text};
pub use stub::{Asked, Fault, Lies, Stub};
pub use versitygw::VersityGw;
