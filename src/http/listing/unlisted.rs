//! What a folder has beside its listing, in words. Pure.

use crate::store::Unlisted;

/// What is not shown of a folder, in a sentence; empty where all is.
pub fn not_shown(found: &Unlisted, follows: bool) -> String {
    let of_links = if follows {
        [
            "symbolic link that leads out or nowhere",
            "symbolic links that lead out or nowhere",
        ]
    } else {
        ["symbolic link", "symbolic links"]
    };
    let of_names = ["name that cannot be served", "names that cannot be served"];
    let of_special = ["pipe, socket or device", "pipes, sockets or devices"];
    let counts: Vec<_> = [
        (found.symlinks, of_links),
        (found.names, of_names),
        (found.special, of_special),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, [one, many])| format!("{count} {}", if count == 1 { one } else { many }))
    .collect();
    let least = if found.has_more { "at least " } else { "" };
    if counts.is_empty() {
        return String::new();
    }
    format!("Not shown: {least}{}", counts.join(", "))
}
