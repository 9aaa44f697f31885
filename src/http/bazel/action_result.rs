//! The messages of Bazel's remote execution protocol that name blobs: `ActionResult` and `Tree`, in the coding of
//! protocol buffers.
//!
//! Pure. Of unknown fields nothing but their length is looked at. Bytes that are no message, or name a blob by what is
//! no hash, are nothing.

use std::str::from_utf8;

/// The places of the `Digest`s in a message, as the numbers of the fields that lead to each.
pub type Places = [&'static [u64]];

/// In an `ActionResult`: of output files, and of what was printed.
pub const OUTPUTS: &Places = &[&[2, 2], &[6], &[8]];

/// In an `ActionResult`: of the trees of output directories.
pub const TREES: &Places = &[&[3, 3]];

/// In a `Tree`: of the files of the root and of the folders below it.
pub const FILES: &Places = &[&[1, 1, 2], &[2, 1, 2]];

/// A blob that is named.
#[derive(Debug, PartialEq, Eq)]
pub struct Blob {
    /// Its name, hexadecimal digits in lower case.
    pub hash: String,
    /// Its length in bytes.
    pub len: u64,
}

/// The blobs that `message` names in these places.
pub fn blobs(message: &[u8], places: &Places) -> Option<Vec<Blob>> {
    let mut found = Vec::new();
    for place in places {
        add_blobs(message, place, &mut found)?;
    }
    Some(found)
}

fn add_blobs(message: &[u8], place: &[u64], found: &mut Vec<Blob>) -> Option<()> {
    match place.split_first() {
        Some((next, rest)) => each_field(message, |field, bytes, _| match field {
            field if field == *next => add_blobs(bytes, rest, found),
            _ => Some(()),
        }),
        None if message.is_empty() => Some(()),
        None => {
            found.push(blob(message)?);
            Some(())
        }
    }
}

/// The blob of a `Digest`.
fn blob(digest: &[u8]) -> Option<Blob> {
    let (mut hash, mut len) = ("", 0);
    each_field(digest, |field, bytes, number| {
        match field {
            1 => hash = from_utf8(bytes).ok()?,
            2 => len = number,
            _ => {}
        }
        Some(())
    })?;
    let is_digit = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
    let is_hash = (32..=128).contains(&hash.len()) && hash.bytes().all(is_digit);
    let hash = hash.to_owned();
    is_hash.then_some(Blob { hash, len })
}

/// Visits the fields of `message`: the number of each, with its bytes where it has a length, or as a number.
fn each_field<'m>(
    mut message: &'m [u8],
    mut visit: impl FnMut(u64, &'m [u8], u64) -> Option<()>,
) -> Option<()> {
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        let (mut bytes, mut number) = (&message[..0], 0);
        match tag & 7 {
            0 => number = varint(&mut message)?,
            1 => _ = take(&mut message, 8)?,
            2 => {
                let len = varint(&mut message)?;
                bytes = take(&mut message, len)?;
            }
            5 => _ = take(&mut message, 4)?,
            _ => return None,
        }
        visit(tag >> 3, bytes, number)?;
    }
    Some(())
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *take(bytes, 1)?.first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn take<'m>(bytes: &mut &'m [u8], len: u64) -> Option<&'m [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(len).ok()?)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn number(mut number: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while number > 0x7f {
            bytes.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        bytes.push(number.to_le_bytes()[0]);
        bytes
    }

    fn field(of: u64, bytes: &[u8]) -> Vec<u8> {
        [
            number(of << 3 | 2),
            number(bytes.len() as u64),
            bytes.to_vec(),
        ]
        .concat()
    }

    fn digest((hash, len): &(String, u64)) -> Vec<u8> {
        [field(1, hash.as_bytes()), number(2 << 3), number(*len)].concat()
    }

    fn some() -> impl Strategy<Value = Vec<(String, u64)>> {
        vec(("[0-9a-f]{64}", any::<u64>()), 0..6)
    }

    fn named(some: &[(String, u64)]) -> Vec<Blob> {
        let named = some.iter().cloned();
        named.map(|(hash, len)| Blob { hash, len }).collect()
    }

    proptest! {
        #[test]
        fn what_an_entry_and_a_tree_name_is_found(files in some(), trees in some(), junk in vec(any::<u8>(), 0..40)) {
            let unknown = [vec![0x29], vec![7; 8], vec![0x2d], vec![7; 4], field(77, &junk), number(4 << 3), number(300)].concat();
            let file = |blob| [field(1, b"out"), field(2, &digest(blob)), number(4 << 3), vec![1]].concat();
            let mut entry = unknown.clone();
            entry.extend(files.iter().flat_map(|blob| field(2, &file(blob))));
            entry.extend(trees.iter().flat_map(|blob| field(3, &field(3, &digest(blob)))));
            prop_assert_eq!(blobs(&entry, OUTPUTS), Some(named(&files)));
            prop_assert_eq!(blobs(&entry, TREES), Some(named(&trees)));
            let directory: Vec<u8> = files.iter().flat_map(|blob| field(1, &file(blob))).collect();
            let tree = [field(1, &directory), unknown, field(2, &directory)].concat();
            prop_assert_eq!(blobs(&tree, FILES), Some(named(&[&files[..], &files].concat())));
            // What is cut off is none, unless it is cut between two fields.
            for end in 0..entry.len() {
                let part = blobs(&entry[..end], OUTPUTS);
                prop_assert!(part.is_none_or(|part| part.len() <= files.len()));
            }
        }

        #[test]
        fn any_bytes_are_an_entry_or_none(bytes in vec(any::<u8>(), 0..200)) {
            for places in [OUTPUTS, TREES, FILES] {
                let found = blobs(&bytes, places).unwrap_or_default();
                prop_assert!(found.iter().all(|blob| blob.hash.len() >= 32));
            }
        }
    }

    #[test]
    fn a_name_that_is_no_hash_is_no_entry() {
        for bad in [
            "",
            "../../../../../../../../etc/passwd-and-more",
            &"A".repeat(64),
        ] {
            let entry = field(2, &field(2, &digest(&(bad.to_owned(), 1))));
            assert_eq!(blobs(&entry, OUTPUTS), None, "{bad}");
        }
        assert_eq!(blobs(b"", OUTPUTS), Some(Vec::new()));
        assert_eq!(blobs(b"\xff", OUTPUTS), None);
    }
}
