//! Sizes, as they are written on the command line.

use bytesize::ByteSize;

/// The number of bytes that `text` says.
pub(super) fn size(text: &str) -> Result<ByteSize, String> {
    let why = "give a number of bytes, or one with KiB, MiB, GiB, kB, MB or GB, such as 64MiB";
    text.parse().map_err(|_| why.to_owned())
}
