//! Values that tell which write of which key they are, all of them: so that a torn or mixed one shows.

use crate::ledger::Number;
use crate::prelude::*;

/// The `n`th key of this name: flat, or in folders that come and go, shared by many and by few, deep and not.
pub(crate) fn key(name: &str, n: usize) -> String {
    match n % 4 {
        0 => format!("{name}-{n}"),
        // All loads meet in this folder.
        1 => format!("shared/{name}-{n}"),
        2 => format!("few/{name}/{n}"),
        // A folder of its own, which is there exactly as long as the key.
        _ => format!("{name}/deep/er/{n}/k"),
    }
}

/// Whether these bytes are the whole of some write of this key. (That of none are, for some writes are empty.)
pub(crate) fn is_whole(key: &str, bytes: &[u8]) -> bool {
    bytes.is_empty() || written(bytes).is_some_and(|number| is_value(bytes, key, number))
}

/// The write that a value says it is of; an empty one says nothing.
pub(crate) fn written(bytes: &[u8]) -> Option<Number> {
    let number = bytes.first_chunk();
    number.map(|number| Number::from_le_bytes(*number))
}

/// Whether these bytes are this write of this key, and all of it.
pub(crate) fn is_value(bytes: &[u8], key: &str, number: Number) -> bool {
    bytes.len() == length(key, number) && bytes == value(key, number)
}

fn seed(key: &str, number: Number) -> u64 {
    let add = |seed: u64, byte: u8| (seed ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    key.bytes().fold(u64::from(number), add)
}

/// The value of a write: from its first bytes on, which are the number, it follows from key and number.
pub(crate) fn value(key: &str, number: Number) -> Vec<u8> {
    let mut value = pattern(seed(key, number), length(key, number));
    if let Some(first) = value.first_chunk_mut() {
        *first = number.to_le_bytes();
    }
    value
}

/// 0 B to 8 MiB: mostly small, some of each way that a value takes through the server.
pub(crate) fn length(key: &str, number: Number) -> usize {
    let mut random = Random::with_seed(seed(key, number));
    match random.u64(..256) {
        0 => 8 << 20,
        1..=3 => (1 << 20) + random.usize(..(1 << 20)),
        4..=15 => (100 << 10) + random.usize(..(300 << 10)),
        16..=47 => (4 << 10) + random.usize(..(80 << 10)),
        48..=71 => 0,
        _ => 16 + random.usize(..(4 << 10)),
    }
}

#[test]
fn a_value_tells_a_cut_or_a_mixture() {
    let mut lengths = Vec::new();
    for number in 1..600 {
        let bytes = value("k", number);
        lengths.push(bytes.len());
        assert!(is_whole("k", &bytes) && (bytes.is_empty() || !is_whole("other", &bytes)));
        if bytes.len() > 16 {
            assert_eq!(written(&bytes), Some(number));
            assert!(!is_whole("k", &bytes[..bytes.len() - 1]), "a cut");
            let half = bytes.len() / 2;
            let mixed = [&bytes[..half], &pattern(1, bytes.len() - half)].concat();
            assert!(!is_whole("k", &mixed), "a mixture");
        }
    }
    lengths.sort_unstable();
    assert_eq!((lengths[0], lengths[598]), (0, 8 << 20));
}
