//! The file of names and passwords that htpasswd writes. Pure.

use std::collections::HashMap;

use super::credentials::PasswordHash;
use super::policy::check_name;

/// The hashes of a file as htpasswd writes it, by name; else the number of the line that is wrong, and why.
pub fn parse_htpasswd(text: &str) -> Result<HashMap<String, PasswordHash>, (usize, String)> {
    let mut hashes = HashMap::new();
    for (at, line) in text.lines().enumerate() {
        let wrong = |why: String| (at + 1, why);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, hash) = line
            .split_once(':')
            .ok_or_else(|| wrong("a line is a name, a colon and a hash".to_owned()))?;
        check_name(name).map_err(|why| wrong(why.to_owned()))?;
        let hash = PasswordHash::new(hash);
        let hash = hash.map_err(|why| wrong(format!("{why} (htpasswd -B makes one)")))?;
        if hashes.insert(name.to_owned(), hash).is_some() {
            return Err(wrong(format!("{name} stands here twice")));
        }
    }
    Ok(hashes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_name_and_a_hash_that_is_known() {
        let hash = bcrypt::hash(b"secret", 4).unwrap();
        let good = format!("# users\n\nann:{hash}\nbob:{hash}\n");
        let mut names: Vec<_> = parse_htpasswd(&good).unwrap().into_keys().collect();
        names.sort();
        assert_eq!(names, ["ann", "bob"]);
        for (bad, line, part) in [
            ("ann".to_owned(), 1, "a colon"),
            (format!("ann:{hash}\nann:{hash}"), 2, "twice"),
            ("\na:$apr1$x$y".to_owned(), 2, "htpasswd -B"),
            (format!("a b:{hash}"), 1, "letters"),
        ] {
            let (at, why) = parse_htpasswd(&bad).unwrap_err();
            assert_eq!(at, line, "{bad}");
            assert!(why.contains(part), "{why}");
        }
    }
}
