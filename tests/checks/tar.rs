//! The members of a tar, however its bytes are divided.

use super::{Pieces, now};
use crate::http::archives::tar::TarReader;
use crate::http::refusal::Refusal;

/// The longest name that is read, in bytes.
const MAX_NAME: usize = 256 << 10;

/// The members that are whole: the name, the kind and the data of each; and what ended the tar.
type Members = (
    Vec<(Vec<u8>, Option<&'static str>, Vec<u8>)>,
    Result<(), Refusal>,
);

fn members(body: &[u8], size: usize) -> Members {
    let mut whole = Vec::new();
    let mut pieces = Pieces(body.chunks(size));
    let ended = now(read(&mut pieces, &mut whole));
    (whole, ended)
}

async fn read(
    pieces: &mut Pieces<'_>,
    whole: &mut Vec<(Vec<u8>, Option<&'static str>, Vec<u8>)>,
) -> Result<(), Refusal> {
    let mut tar = TarReader::new(pieces);
    while let Some(member) = tar.next().await? {
        let mut data = Vec::new();
        while let Some(more) = tar.data().await? {
            data.extend_from_slice(&more);
        }
        assert_eq!(data.len() as u64, member.len);
        whole.push((member.name, member.other, data));
    }
    Ok(())
}

/// The first byte says how the others are divided: the members are the same as of all at once. No data is made up, no
/// folder is a file, and without all of its bytes a tar has no end.
pub fn tar(data: &[u8]) {
    let Some((&size, body)) = data.split_first() else {
        return;
    };
    let all = members(body, body.len().max(1));
    assert_eq!(members(body, usize::from(size).max(1)), all);
    let sum: usize = all.0.iter().map(|(.., data)| data.len()).sum();
    assert!(sum <= body.len());
    for (name, other, data) in &all.0 {
        assert!(name.len() <= MAX_NAME);
        let is_folder = name.ends_with(b"/") && data.is_empty();
        assert!(other.is_some() || !is_folder);
    }
    if all.1.is_ok() {
        // The end mark is the last block that is not of zeros, or the one behind it.
        let end = body.len() - body.iter().rev().take_while(|&&byte| byte == 0).count();
        assert!(members(&body[..end], body.len()).1.is_err());
    }
}
