//! The messages of Bazel's remote execution protocol that name blobs: `ActionResult` and `Tree`, in the coding of
//! protocol buffers.
//!
//! Pure. Of unknown fields nothing but their length is looked at. Bytes that are no message, or name a blob by what is
//! no hash, are nothing.

use std::str::from_utf8;

/// A blob that is named.
#[derive(Debug, PartialEq, Eq)]
pub struct Blob {
    /// Its name, hexadecimal digits in lower case.
    pub hash: String,
    /// Its length in bytes.
    pub len: u64,
}

/// What an entry names.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    /// Files, and what was printed.
    pub blobs: Vec<Blob>,
    /// Lists of the files of a directory.
    pub trees: Vec<Blob>,
}

/// What the `ActionResult` of these bytes names.
pub fn outputs_of_action(result: &[u8]) -> Option<Outputs> {
    let mut outputs = Outputs::default();
    each_field(result, |field, bytes, _| {
        match field {
            // output_files, stdout_digest, stderr_digest, output_directories.
            2 => outputs.blobs.push(blob_in(bytes, 2)?),
            6 | 8 if !bytes.is_empty() => outputs.blobs.push(blob(bytes)?),
            3 => outputs.trees.push(blob_in(bytes, 3)?),
            _ => {}
        }
        Some(())
    })?;
    Some(outputs)
}

/// The files that the `Tree` of these bytes lists.
pub fn files_of_tree(tree: &[u8]) -> Option<Vec<Blob>> {
    let mut files = Vec::new();
    each_field(tree, |field, directory, _| match field {
        // root and children, and of each its files.
        1 | 2 => each_field(directory, |field, file, _| {
            if field == 1 {
                files.push(blob_in(file, 2)?);
            }
            Some(())
        }),
        _ => Some(()),
    })?;
    Some(files)
}

/// The blob of a `Digest`, the field of this number in `message`.
fn blob_in(message: &[u8], number: u64) -> Option<Blob> {
    let mut found = None;
    each_field(message, |field, digest, _| {
        if field == number {
            found = Some(blob(digest)?);
        }
        Some(())
    })?;
    found
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

    fn blobs() -> impl Strategy<Value = Vec<(String, u64)>> {
        vec(("[0-9a-f]{64}", any::<u64>()), 0..6)
    }

    fn named(blobs: &[(String, u64)]) -> Vec<Blob> {
        let named = blobs.iter().cloned();
        named.map(|(hash, len)| Blob { hash, len }).collect()
    }

    proptest! {
        #[test]
        fn what_an_entry_and_a_tree_name_is_found(files in blobs(), trees in blobs(), junk in vec(any::<u8>(), 0..40)) {
            let unknown = [vec![0x29], vec![7; 8], vec![0x2d], vec![7; 4], field(77, &junk), number(4 << 3), number(300)].concat();
            let file = |blob| [field(1, b"out"), field(2, &digest(blob)), number(4 << 3), vec![1]].concat();
            let mut entry = unknown.clone();
            entry.extend(files.iter().flat_map(|blob| field(2, &file(blob))));
            entry.extend(trees.iter().flat_map(|blob| field(3, &field(3, &digest(blob)))));
            let found = outputs_of_action(&entry).expect("an entry");
            prop_assert_eq!(&found, &Outputs { blobs: named(&files), trees: named(&trees) });
            let directory: Vec<u8> = files.iter().flat_map(|blob| field(1, &file(blob))).collect();
            let tree = [field(1, &directory), unknown, field(2, &directory)].concat();
            prop_assert_eq!(files_of_tree(&tree).expect("a tree"), named(&[&files[..], &files].concat()));
            // What is cut off is none, unless it is cut between two fields.
            for end in 0..entry.len() {
                if let Some(part) = outputs_of_action(&entry[..end]) {
                    prop_assert!(part.blobs.len() <= files.len() && part.trees.len() <= trees.len());
                }
            }
        }

        #[test]
        fn any_bytes_are_an_entry_or_none(bytes in vec(any::<u8>(), 0..200)) {
            for blob in outputs_of_action(&bytes).into_iter().flat_map(|it| it.blobs) {
                prop_assert!(blob.hash.len() >= 32);
            }
            files_of_tree(&bytes);
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
            assert_eq!(outputs_of_action(&entry), None, "{bad}");
        }
        assert_eq!(outputs_of_action(b""), Some(Outputs::default()));
        assert_eq!(outputs_of_action(b"\xff"), None);
    }
}
