//! The keys of a load: flat ones, and ones in folders that come and go, shared by many and by few, deep and not.

/// The `n`th key of this name.
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
