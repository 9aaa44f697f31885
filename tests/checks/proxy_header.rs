//! What a connection for a proxy begins with: any bytes, in any pieces.
#![allow(clippy::missing_panics_doc, reason = "a panic is how they tell")]

use super::{BadHeader, LONGEST_V1, LONGEST_V2, SocketAddr, end, is_v2, is_whole, own, source};

/// A header is the same however it comes, is bounded, and ends where one does: nothing behind it is taken.
pub fn proxy_header(data: &[u8]) {
    let Some((&step, data)) = data.split_first() else {
        return;
    };
    let taken = take(data, usize::MAX).ok();
    assert_eq!(taken, take(data, usize::from(step).max(1)).ok());
    let Some((len, _)) = taken else {
        return;
    };
    assert_eq!(taken, take(&data[..len], usize::MAX).ok());
    assert!(len <= LONGEST_V2);
    if !is_v2(data) {
        let line = data[..len].strip_suffix(b"\r\n").expect("a line");
        assert!(!line.contains(&b'\n') && len <= LONGEST_V1);
    }
}

/// Takes a header from `data`, of which at most `step` bytes are seen at a time: how long it is, and whom it names.
fn take(data: &[u8], step: usize) -> Result<(usize, Option<SocketAddr>), BadHeader> {
    let mut header = Vec::new();
    while !is_whole(&header)? {
        let room = (end(&header) - header.len()).min(LONGEST_V1).min(step);
        let rest = &data[header.len()..];
        let seen = &rest[..rest.len().min(room)];
        if seen.is_empty() {
            return Err(BadHeader::Invalid("it ends"));
        }
        let own = own(&header, seen);
        header.extend_from_slice(&seen[..own]);
    }
    Ok((header.len(), source(&header)?))
}
