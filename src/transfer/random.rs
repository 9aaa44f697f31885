//! Random bits from the kernel.

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// 128 bits that cannot be guessed.
pub fn random() -> Result<u128, Errno> {
    let mut bytes = [0; 16];
    match getrandom(&mut bytes, GetRandomFlags::empty())? {
        16 => Ok(u128::from_ne_bytes(bytes)),
        _ => Err(Errno::IO),
    }
}
