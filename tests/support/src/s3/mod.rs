//! Stores that speak S3, for tests: a real one ([`VersityGw`]), one that is told how to fail ([`Stub`]), and signed requests
//! straight to either. Others that are real ([`OtherStore`]) are for the full form of the torture suite.

mod bucket;
mod other;
mod process;
mod sign;
mod stub;
mod versitygw;

pub use bucket::{Bucket, Listed};
pub use other::{Kind, OtherStore};
pub use sign::{Keys, hex};
pub use stub::{Asked, Fault, Lies, Stub};
pub use versitygw::VersityGw;
